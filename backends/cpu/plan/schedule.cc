// Forming of segments and chains.
#include "backends/cpu/plan/schedule.h"

#include <tsl/robin_map.h>

#include <algorithm>

#include "backends/cpu/elementwise/produced_reduce.h"
#include "backends/cpu/plan/lowering.h"

namespace gshard::cpu {
namespace {

class Scheduler {
 public:
  Scheduler(const Program& program, int64_t probed_bytes)
      : program_(program), probed_bytes_(probed_bytes), segment_of_(program.values.size(), 0) {}

  Schedule Run() {
    schedule_.entry = VisitBlock(*program_.entry);
    return std::move(schedule_);
  }

 private:
  ScheduledBlock* VisitBlock(const Block& block) {
    schedule_.blocks.emplace_back();
    ScheduledBlock* scheduled = &schedule_.blocks.back();
    scheduled->block = &block;
    std::vector<Chain> open;
    uint32_t segment = ++last_segment_;
    auto flush = [&] {
      std::stable_sort(open.begin(), open.end(), [](const Chain& a, const Chain& b) {
        return a.classes->count() < b.classes->count();
      });
      for (Chain& chain : open) {
        ScheduledStep step;
        step.chain = std::move(chain);
        scheduled->steps.push_back(std::move(step));
      }
      open.clear();
      segment = ++last_segment_;
    };
    for (const Op& op : block.ops) {
      if (op.kind != OpKind::kKernel && op.kind != OpKind::kProbe) {
        if (DependsOn(op, segment)) flush();
        ScheduledStep step;
        step.op = &op;
        for (const Block* inner : op.blocks) {
          step.blocks.push_back(VisitBlock(*inner));
        }
        scheduled->steps.push_back(std::move(step));
        continue;
      }
      const DeviceClasses* classes = program_.values[op.results[0]].classes;
      if (MustWait(op, classes, segment)) flush();
      auto chain = std::find_if(open.begin(), open.end(),
                                [&](const Chain& c) { return c.classes == classes; });
      if (chain == open.end()) {
        chain = open.insert(open.end(), Chain());
        chain->classes = classes;
      }
      chain->ops.push_back(&op);
      if (op.kind == OpKind::kProbe) {
        const Value& shown = program_.values[op.operands[0]];
        chain->probed_bytes += shown.bytes * shown.classes->count();
      }
      for (ValueId result : op.results) segment_of_[result] = segment;
      // What is shown next is to come next, too, whatever its classes.
      if (chain->probed_bytes >= probed_bytes_) flush();
    }
    flush();
    return scheduled;
  }

  // Reads anything made in the open segment (inner blocks included).
  bool DependsOn(const Op& op, uint32_t segment) {
    auto made_here = [&](ValueId value) {
      if (program_.values[value].view == nullptr) return segment_of_[value] == segment;
      for (ValueId base : BasesOf(program_, value)) {
        if (segment_of_[base] == segment) return true;
      }
      return false;
    };
    for (ValueId operand : op.operands) {
      if (made_here(operand)) return true;
    }
    // What is only passed on must be there before it is: other processes may wait for it.
    for (ValueId operand : op.passed_on) {
      if (made_here(operand)) return true;
    }
    for (const Block* inner : op.blocks) {
      for (const Op& inner_op : inner->ops) {
        if (DependsOn(inner_op, segment)) return true;
      }
      for (ValueId result : inner->results) {
        if (made_here(result)) return true;
      }
    }
    return false;
  }

  // A kernel can join the open segment unless it reads, through a table view, other classes of a
  // value whose chain would not be finished before its own.
  bool MustWait(const Op& op, const DeviceClasses* classes, uint32_t segment) {
    for (ValueId operand : op.operands) {
      const Value& value = program_.values[operand];
      if (value.view == nullptr) continue;
      const ValueId table = TableBehind(operand);
      if (table == kNoValue) continue;
      for (ValueId base : BasesOf(program_, table)) {
        if (segment_of_[base] == segment &&
            program_.values[base].classes->count() >= classes->count()) {
          return true;
        }
      }
    }
    return false;
  }

  ValueId TableBehind(ValueId value) {
    while (program_.values[value].view != nullptr) {
      if (program_.values[value].view->IsTable()) return value;
      value = program_.values[value].view->base;
    }
    return kNoValue;
  }

  const Program& program_;
  const int64_t probed_bytes_;
  Schedule schedule_;
  std::vector<uint32_t> segment_of_;  // by value: the segment its kernel is in
  uint32_t last_segment_ = 0;
};

bool IsCheap(const Op& op) {
  if (op.kind != OpKind::kKernel) return false;
  const Opcode opcode = op.instruction->opcode();
  return (opcode == Opcode::kBroadcast || opcode == Opcode::kIota) &&
         op.kernel->RangeGranule() == 1;
}

}  // namespace

std::vector<ValueId> BasesOf(const Program& program, ValueId value) {
  const View* view = program.values[value].view.get();
  while (view != nullptr && !view->IsTable()) {
    value = view->base;
    view = program.values[value].view.get();
  }
  if (view == nullptr) return {value};
  std::vector<ValueId> bases;
  for (const View::Entry& entry : view->entries) {
    if (entry.base != kNoValue && (bases.empty() || bases.back() != entry.base)) {
      bases.push_back(entry.base);
    }
  }
  std::sort(bases.begin(), bases.end());
  bases.erase(std::unique(bases.begin(), bases.end()), bases.end());
  return bases;
}

void CloneCheapProducers(Program& program) {
  for (Block& block : program.blocks) {
    tsl::robin_map<ValueId, size_t> cheap;  // result -> index of its op
    std::vector<Op> ops;
    ops.reserve(block.ops.size());
    for (size_t i = 0; i < block.ops.size(); ++i) {
      Op op = block.ops[i];
      if (op.kind == OpKind::kKernel && op.kernel->RangeGranule() == 1) {
        const bool makes_its_elements = ProducedReduceKernel::Pays(*op.instruction, *op.kernel);
        for (size_t k = 0; k < op.operands.size(); ++k) {
          auto found = cheap.find(op.operands[k]);
          if (found == cheap.end() ||
              (!makes_its_elements && !op.kernel->IsElementwiseIn(static_cast<int64_t>(k)))) {
            continue;
          }
          Op copy = block.ops[found->second];
          const ValueId original = op.operands[k];
          const ValueId result =
              program.NewValue(program.values[original].shape, program.values[original].source,
                               program.values[original].leaf);
          program.values[result].classes = program.values[original].classes;
          copy.results = {result};
          for (size_t j = k; j < op.operands.size(); ++j) {
            if (op.operands[j] == original) op.operands[j] = result;
          }
          ops.push_back(std::move(copy));
        }
      }
      if (IsCheap(op)) cheap[op.results[0]] = i;
      ops.push_back(std::move(op));
    }
    block.ops = std::move(ops);
  }
  RemoveDeadKernels(program);  // those that all users have copies of
}

Schedule MakeSchedule(const Program& program, int64_t probed_bytes) {
  return Scheduler(program, probed_bytes).Run();
}

}  // namespace gshard::cpu
