// Finding of values that only a reduction wants, and the order that serves most of them.
#include "backends/cpu/plan/fused_accumulators.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "backends/cpu/elementwise/fold.h"
#include "backends/cpu/elementwise/scalar_program.h"
#include "core/analysis/collective_classes.h"
#include "core/analysis/combiner.h"

namespace gshard::cpu {
namespace {

// Fewer contributions are kept and reduced afterwards: nothing to gain.
constexpr uint32_t kMinClasses = 32;
// Tasks that should be there to keep threads busy.
constexpr uint32_t kMinTasks = 32;

class FusedAccumulatorFinder {
 public:
  explicit FusedAccumulatorFinder(Program& program)
      : program_(program), uses_(program.values.size()) {
    for (const Block& block : program_.blocks) {
      for (const Op& op : block.ops) {
        for (uint32_t k = 0; k < op.operands.size(); ++k) Use(op.operands[k], &op, k);
      }
      for (ValueId result : block.results) Use(result, nullptr, 0);
    }
    for (ValueId result : program_.results) Use(result, nullptr, 0);
    for (ValueId kept : program_.kept) Use(kept, nullptr, 0);
  }

  void VisitBlock(ScheduledBlock& block) {
    for (ScheduledStep& step : block.steps) {
      if (step.op == nullptr) VisitChain(step.chain, block);
      for (ScheduledBlock* inner : step.blocks) VisitBlock(*inner);
    }
  }

 private:
  struct Uses {
    uint32_t count = 0;
    const Op* op = nullptr;  // the only user, if it is an operation
    uint32_t index = 0;
  };

  void Use(ValueId value, const Op* op, uint32_t index) {
    Uses& uses = uses_[value];
    ++uses.count;
    uses.op = op;
    uses.index = index;
    if (program_.values[value].view == nullptr) return;
    for (ValueId base : BasesOf(program_, value)) ++uses_[base].count;
  }

  // The collective must stand in the same block: a reduction inside a loop or branch happens there.
  static bool Contains(const ScheduledBlock& block, const Op* op) {
    return std::any_of(block.steps.begin(), block.steps.end(),
                       [op](const ScheduledStep& step) { return step.op == op; });
  }

  bool Suits(ValueId id, const Op& op, uint32_t index) const {
    const Opcode opcode = op.instruction->opcode();
    if (opcode != Opcode::kAllReduce && opcode != Opcode::kAllReduceStart &&
        opcode != Opcode::kReduceScatter) {
      return false;
    }
    if (program_.values[op.results[index]].view != nullptr) return false;
    const Shape* shape = op.instruction->operand(index)->shape();
    if (!AccumulatesInPlace(shape->dtype())) return false;
    return program_.values[id].bytes > 0;
  }

  // How a collective goes through the classes. Two of them may have one order and other groups.
  struct Grouping {
    std::vector<uint32_t> order;   // classes, group after group
    std::vector<uint32_t> groups;  // where each begins in `order`, and its end

    bool operator<(const Grouping& other) const {
      return std::tie(order, groups) < std::tie(other.order, other.groups);
    }
  };

  // Nothing if a class is in several places.
  static std::optional<Grouping> GroupingOf(const Op& op, const DeviceClasses& classes) {
    const ResolvedGroups& resolved = op.devices->groups;
    const GroupSequences sequences = SequencesOf(resolved, classes);
    Grouping grouping;
    auto& [order, groups] = grouping;
    for (uint32_t g : sequences.first_group) {
      groups.push_back(static_cast<uint32_t>(order.size()));
      for (uint32_t device : resolved.group(g)) order.push_back(classes.class_of(device));
    }
    groups.push_back(static_cast<uint32_t>(order.size()));
    if (order.size() != classes.count()) return std::nullopt;
    std::vector<bool> seen(classes.count(), false);
    for (uint32_t c : order) {
      if (seen[c]) return std::nullopt;
      seen[c] = true;
    }
    return grouping;
  }

  void VisitChain(Chain& chain, const ScheduledBlock& block) {
    if (chain.classes->count() < kMinClasses) return;
    struct Candidates {
      std::vector<FusedAccumulator> fused_accumulators;
      int64_t bytes = 0;
    };
    std::map<Grouping, Candidates> by_grouping;
    for (uint32_t i = 0; i < chain.ops.size(); ++i) {
      for (ValueId result : chain.ops[i]->results) {
        const Uses& uses = uses_[result];
        if (uses.count != 1 || uses.op == nullptr || uses.op->kind != OpKind::kCollective ||
            !Suits(result, *uses.op, uses.index) || !Contains(block, uses.op)) {
          continue;
        }
        std::optional<Grouping> grouping = GroupingOf(*uses.op, *chain.classes);
        if (!grouping) continue;
        Candidates& candidates = by_grouping[std::move(*grouping)];
        candidates.fused_accumulators.push_back({i, uses.op, uses.index});
        candidates.bytes += program_.values[result].bytes;
      }
    }
    auto best = std::max_element(
        by_grouping.begin(), by_grouping.end(),
        [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
    if (best == by_grouping.end()) return;
    const auto& [order, groups] = best->first;
    const auto group_count = static_cast<uint32_t>(groups.size() - 1);
    uint32_t smallest = UINT32_MAX;
    for (uint32_t g = 0; g < group_count; ++g)
      smallest = std::min(smallest, groups[g + 1] - groups[g]);
    const uint32_t wanted = (kMinTasks + group_count - 1) / group_count;
    chain.tasks_per_group = std::clamp<uint32_t>(wanted, 1, std::max<uint32_t>(smallest / 2, 1));
    for (uint32_t g = 0; g < group_count; ++g) {
      const uint32_t size = groups[g + 1] - groups[g];
      for (uint32_t s = 0; s < chain.tasks_per_group; ++s) {
        chain.tasks.push_back(groups[g] + size * s / chain.tasks_per_group);
      }
    }
    chain.tasks.push_back(groups.back());
    chain.order = order;
    chain.fused_accumulators = best->second.fused_accumulators;
    for (const FusedAccumulator& fused_accumulator : chain.fused_accumulators) {
      Value& contribution =
          program_.values[fused_accumulator.collective->operands[fused_accumulator.index]];
      contribution.fused_into_reduction = true;
      contribution.accumulated_by_kernel =
          IsSummed(*chain.ops[fused_accumulator.after_op], *fused_accumulator.collective);
      program_.values[fused_accumulator.collective->results[fused_accumulator.index]]
          .fused_into_reduction = true;
    }
  }

  // Products and sums are one kernel's work.
  static bool IsSummed(const Op& op, const Op& collective) {
    return op.results.size() == 1 && op.kernel->SumsBatch() &&
           SingleBinaryOperation(*collective.instruction->called(0)) == Opcode::kAdd;
  }

  Program& program_;
  std::vector<Uses> uses_;
};

}  // namespace

void FindFusedAccumulators(Program& program, Schedule& schedule) {
  FusedAccumulatorFinder(program).VisitBlock(*schedule.entry);
}

bool FoldsIntoResults(const Chain& chain, const FusedAccumulator& fused_accumulator) {
  return chain.tasks_per_group == 1 &&
         fused_accumulator.collective->instruction->opcode() != Opcode::kReduceScatter;
}

}  // namespace gshard::cpu
