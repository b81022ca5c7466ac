// See work_totals.h.

#include "core/cost/work_totals.h"

#include "core/cost/recomputation.h"

namespace gshard {

const WorkTotals& WorkTotalsTable::Of(const ComputationCost& cost) {
  auto known = known_.find(&cost);
  if (known != known_.end()) return known->second;
  WorkTotals sum;
  for (size_t i = 0; i < cost.steps.size(); ++i) {
    const StepNode& step = cost.steps[i];
    switch (step.kind) {
      case StepNode::Kind::kKernel: {
        const double seconds = cost.trips * cost.nodes[i].seconds;
        sum.flops += cost.trips * step.work.flops;
        sum.recompute_flops += cost.trips * step.recompute_flops;
        sum.masked_flops += cost.trips * step.MaskedOnceFlops();
        sum.busy_s += seconds;
        const Instruction* main = step.work.main;
        if (main != nullptr && IsRecomputed(*main)) sum.recompute_s += seconds;
        break;
      }
      case StepNode::Kind::kCollective:
        sum.flops += cost.trips * step.work.flops;
        sum.sent_bytes += cost.trips * step.collective.bytes_per_device;
        sum.exposed_s += cost.schedule.exposed_s[i];
        if (IsRecomputed(*step.instruction)) sum.recompute_s += cost.schedule.exposed_s[i];
        break;
      case StepNode::Kind::kCopy:
        sum.exposed_s += cost.schedule.exposed_s[i];
        sum.copy_s += cost.schedule.exposed_s[i];
        break;
      case StepNode::Kind::kLoop:
      case StepNode::Kind::kCallee: {
        const bool is_again = IsRecomputed(*step.instruction);
        sum.idle_s += cost.trips * step.idle_s;
        for (const auto& [callee, runs] : step.callees) {
          const WorkTotals& inner = Of(*callee);
          const double times = cost.trips * runs;
          sum.busy_s += times * inner.busy_s;
          sum.recompute_s +=
              times * (is_again ? inner.busy_s + inner.exposed_s : inner.recompute_s);
          sum.exposed_s += times * inner.exposed_s;
          sum.copy_s += times * inner.copy_s;
          sum.idle_s += times * inner.idle_s;
          sum.flops += times * inner.flops;
          sum.recompute_flops += times * (is_again ? inner.flops : inner.recompute_flops);
          sum.masked_flops += is_again ? 0 : times * inner.masked_flops;
          sum.sent_bytes += times * inner.sent_bytes;
        }
        break;
      }
    }
  }
  return known_.emplace(&cost, sum).first->second;
}

}  // namespace gshard
