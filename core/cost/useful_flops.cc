// See useful_flops.h.

#include "core/cost/useful_flops.h"

#include <algorithm>
#include <unordered_map>

#include "core/analysis/trip_count.h"
#include "core/cost/op_cost.h"
#include "core/cost/recomputation.h"

namespace gshard {
namespace {

class FlopsWalk {
 public:
  explicit FlopsWalk(int64_t devices) : devices_(static_cast<double>(devices)) {}

  double Of(const Computation& computation) {
    auto [it, is_new] = flops_.try_emplace(&computation, 0);
    if (!is_new) return it->second;
    double flops = 0;
    for (const Instruction* x : computation.instructions()) flops += OfInstruction(*x);
    flops_[&computation] = flops;
    return flops;
  }

 private:
  double OfInstruction(const Instruction& x) {
    if (IsRecomputed(x)) return 0;
    switch (x.opcode()) {
      case Opcode::kWhile: {
        const double trips = static_cast<double>(TripCount(x).value_or(1));
        return (trips + 1) * Of(*x.called(0)) + trips * Of(*x.called(1));
      }
      case Opcode::kConditional: {
        double most = 0;
        for (const Computation* branch : x.called()) most = std::max(most, Of(*branch));
        return most;
      }
      case Opcode::kCall:
      case Opcode::kFusion:
      case Opcode::kAsyncStart:
        return x.called().empty() ? 0 : Of(*x.called(0));
      default:  // runs nothing
        return CostOf(x).flops * DevicesOf(x);
    }
  }

  // Devices that each run x on shapes of their own.
  double DevicesOf(const Instruction& x) const {
    const Sharding* sharding = x.sharding();
    if (sharding == nullptr) return 1;
    if (sharding->IsTuple() && !sharding->elements.empty()) sharding = sharding->elements[0];
    if (sharding->IsManual()) return devices_;
    if (!sharding->IsTiled() || !sharding->HasManualSubgroup()) return 1;
    return static_cast<double>(sharding->SubgroupSize(SubgroupType::kManual));
  }

  double devices_;
  std::unordered_map<const Computation*, double> flops_;
};

}  // namespace

double TotalFlops(const Module& module) {
  return FlopsWalk(module.DeviceCount()).Of(*module.entry());
}

}  // namespace gshard
