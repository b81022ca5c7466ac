// Forming of segments, chains and fused units.
#include "backends/cpu/schedule.h"

#include <tsl/robin_map.h>

#include <algorithm>

#include "backends/cpu/views.h"

namespace gshard::cpu {
namespace {

// Smaller arrays are not worth tiling: the chain's blocks of devices keep them in cache.
constexpr int64_t kMinFusedBytes = 32 << 10;

bool IsTileable(const Program& program, const Op& op) {
  if (op.kind != OpKind::kKernel || op.results.size() != 1) return false;
  if (op.kernel->RangeGranule() != 1) return false;
  return program.values[op.results[0]].bytes >= kMinFusedBytes;
}

// Cuts a chain's operations into units. At most one fused unit is open; operations that do not
// depend on it go in front of it.
class UnitBuilder {
 public:
  explicit UnitBuilder(const Program& program) : program_(program), in_open_(program.values.size()) {}

  std::vector<Unit> Build(std::span<const Op* const> ops) {
    units_.clear();
    for (const Op* op : ops) {
      const bool tileable = IsTileable(program_, *op);
      const int64_t elements = tileable ? program_.values[op->results[0]].shape->element_count() : 0;
      const Dependence dependence = DependenceOf(*op);
      if (tileable && !open_.ops.empty() && elements == open_.elements &&
          dependence != Dependence::kWhole) {
        Append(op);
      } else if (dependence == Dependence::kNone && !open_.ops.empty()) {
        if (tileable && open_.ops.size() < 3 && elements > open_.elements) {
          Close();
          open_.elements = elements;
          Append(op);
        } else {
          units_.push_back({{op}, elements});
        }
      } else {
        Close();
        if (tileable) {
          open_.elements = elements;
          Append(op);
        } else {
          units_.push_back({{op}, 0});
        }
      }
    }
    Close();
    return std::move(units_);
  }

 private:
  enum class Dependence : uint8_t { kNone, kElementwise, kWhole };

  Dependence DependenceOf(const Op& op) {
    Dependence result = Dependence::kNone;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Value& operand = program_.values[op.operands[k]];
      bool open = false;
      if (operand.view == nullptr) {
        open = in_open_[op.operands[k]];
      } else {
        for (ValueId base : BasesOf(program_, op.operands[k])) open |= in_open_[base];
      }
      if (!open) continue;
      if (operand.view != nullptr || !op.kernel->MovesWithResult(static_cast<int64_t>(k))) {
        return Dependence::kWhole;
      }
      result = Dependence::kElementwise;
    }
    return result;
  }

  void Append(const Op* op) {
    open_.ops.push_back(op);
    in_open_[op->results[0]] = true;
  }

  void Close() {
    if (open_.ops.empty()) return;
    for (const Op* op : open_.ops) in_open_[op->results[0]] = false;
    units_.push_back(std::move(open_));
    open_ = {};
  }

  const Program& program_;
  std::vector<bool> in_open_;  // by value: made in the open unit
  std::vector<Unit> units_;
  Unit open_;
};

class Scheduler {
 public:
  explicit Scheduler(const Program& program)
      : program_(program), units_(program), segment_of_(program.values.size(), 0) {}

  Schedule Run() {
    schedule_.entry = VisitBlock(*program_.entry);
    return std::move(schedule_);
  }

 private:
  struct OpenChain {
    const DeviceClasses* classes;
    std::vector<const Op*> ops;
  };

  ScheduledBlock* VisitBlock(const Block& block) {
    schedule_.blocks.emplace_back();
    ScheduledBlock* scheduled = &schedule_.blocks.back();
    scheduled->block = &block;
    std::vector<OpenChain> open;
    uint32_t segment = ++last_segment_;
    auto flush = [&] {
      std::stable_sort(open.begin(), open.end(), [](const OpenChain& a, const OpenChain& b) {
        return a.classes->count() < b.classes->count();
      });
      for (const OpenChain& chain : open) {
        ScheduledStep step;
        step.chain.classes = chain.classes;
        step.chain.units = units_.Build(chain.ops);
        scheduled->steps.push_back(std::move(step));
      }
      open.clear();
      segment = ++last_segment_;
    };
    for (const Op& op : block.ops) {
      if (op.kind != OpKind::kKernel) {
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
                                [&](const OpenChain& c) { return c.classes == classes; });
      if (chain == open.end()) chain = open.insert(open.end(), {classes, {}});
      chain->ops.push_back(&op);
      for (ValueId result : op.results) segment_of_[result] = segment;
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
  UnitBuilder units_;
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
        for (size_t k = 0; k < op.operands.size(); ++k) {
          auto found = cheap.find(op.operands[k]);
          if (found == cheap.end() || !op.kernel->MovesWithResult(static_cast<int64_t>(k))) continue;
          Op copy = block.ops[found->second];
          const ValueId original = op.operands[k];
          const ValueId result = program.NewValue(program.values[original].shape,
                                                  program.values[original].source,
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
}

Schedule MakeSchedule(const Program& program) { return Scheduler(program).Run(); }

}  // namespace gshard::cpu
