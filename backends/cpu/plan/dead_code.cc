// Dead code removal over a Program: marks from results backwards, then filters.
#include <cstddef>
#include <vector>

#include "backends/cpu/plan/lowering.h"

namespace gshard::cpu {
namespace {

class DeadCode {
 public:
  explicit DeadCode(Program& program) : program_(program), definitions_(program.values.size()) {
    for (Block& block : program_.blocks) {
      for (Op& op : block.ops) {
        for (uint32_t i = 0; i < op.results.size(); ++i) definitions_[op.results[i]] = {&op, i};
      }
    }
  }

  void Run(bool keeps_collectives) {
    needed_.assign(program_.values.size(), false);
    for (ValueId value : program_.results) Need(value);
    for (ValueId value : program_.kept) Need(value);
    for (ValueId value : program_.probe_results) {
      if (value != kNoValue) Need(value);
    }
    for (const Block& block : program_.blocks) {
      for (const Op& op : block.ops) {
        if (!keeps_collectives || op.kind != OpKind::kCollective) continue;
        for (ValueId result : op.results) Need(result);
      }
    }
    while (!worklist_.empty()) {
      const ValueId value = worklist_.back();
      worklist_.pop_back();
      Visit(value);
    }
    Filter();
  }

 private:
  struct Definition {
    Op* op = nullptr;
    uint32_t index = 0;
  };

  void Need(ValueId value) {
    if (needed_[value]) return;
    needed_[value] = true;
    worklist_.push_back(value);
  }

  void Visit(ValueId id) {
    const Value& value = program_.values[id];
    if (value.IsKnown()) return;
    if (value.view != nullptr) {
      if (!value.view->IsTable()) Need(value.view->base);
      for (const View::Entry& entry : value.view->entries) {
        if (entry.base != kNoValue) Need(entry.base);
      }
      // A collective stays even if this result is a view; it then reads all of its operands.
      const Op* op = definitions_[id].op;
      if (op != nullptr && op->kind == OpKind::kCollective) {
        for (ValueId operand : op->operands) Need(operand);
      }
      if (op != nullptr) NeedPassedOn(*op);
      return;
    }
    const Definition& definition = definitions_[id];
    if (definition.op == nullptr) return;  // a parameter
    Op& op = *definition.op;
    switch (op.kind) {
      case OpKind::kWhile:
        Need(op.blocks[0]->results[0]);
        Need(op.operands[definition.index]);
        Need(op.blocks[1]->results[definition.index]);
        break;
      case OpKind::kConditional:
        Need(op.operands[0]);
        for (Block* branch : op.blocks) Need(branch->results[definition.index]);
        break;
      default:
        for (ValueId operand : op.operands) Need(operand);
    }
  }

  // Collectives that only pass on stay even where what they pass is looked at through further
  // views.
  void NeedPassedOn(const Op& op) {
    for (ValueId operand : op.kind == OpKind::kCollective ? op.passed_on : op.operands) {
      if (program_.values[operand].view != nullptr) Need(operand);
    }
  }

  // A value that needs its operation: neither known nor a view of others.
  bool NeedsOp(ValueId id) const {
    const Value& value = program_.values[id];
    return needed_[id] && !value.IsKnown() && value.view == nullptr;
  }

  void Filter() {
    for (Block& block : program_.blocks) {
      std::erase_if(block.ops, [&](Op& op) {
        bool live = false;
        for (ValueId result : op.results) {
          // A collective counts even if its results are views of its operands.
          live |= NeedsOp(result) || (op.kind == OpKind::kCollective && needed_[result]);
        }
        if (!live) return true;
        if (op.kind == OpKind::kWhile) FilterCarried(op);
        if (op.kind == OpKind::kConditional) FilterResults(op);
        return false;
      });
    }
  }

  void FilterCarried(Op& op) {
    size_t kept = 0;
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (!needed_[op.results[i]]) continue;
      op.results[kept] = op.results[i];
      op.operands[kept] = op.operands[i];
      op.blocks[1]->results[kept] = op.blocks[1]->results[i];
      ++kept;
    }
    op.results.resize(kept);
    op.operands.resize(kept);
    op.blocks[1]->results.resize(kept);
  }

  void FilterResults(Op& op) {
    size_t kept = 0;
    for (size_t i = 0; i < op.results.size(); ++i) {
      if (!needed_[op.results[i]]) continue;
      op.results[kept] = op.results[i];
      for (Block* branch : op.blocks) branch->results[kept] = branch->results[i];
      ++kept;
    }
    op.results.resize(kept);
    for (Block* branch : op.blocks) branch->results.resize(kept);
  }

  Program& program_;
  std::vector<Definition> definitions_;
  std::vector<bool> needed_;
  std::vector<ValueId> worklist_;
};

}  // namespace

void RemoveDeadOps(Program& program) { DeadCode(program).Run(false); }

void RemoveDeadKernels(Program& program) { DeadCode(program).Run(true); }

}  // namespace gshard::cpu
