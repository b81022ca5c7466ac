#include "core/autodiff/manual_region.h"

#include <unordered_set>
#include <vector>

#include "ir/sharding_algebra.h"

namespace gshard {

bool IsOfManualRegion(const Sharding* sharding) {
  return sharding != nullptr && (sharding->IsManual() || sharding->HasManualSubgroup());
}

const Sharding* ManualRegionOf(const Instruction* x, int64_t rank, Context& context) {
  std::vector<const Instruction*> work = {x};
  std::unordered_set<const Instruction*> seen = {x};
  while (!work.empty()) {
    const Instruction* value = work.back();
    work.pop_back();
    if (IsOfManualRegion(value->sharding())) {
      return ReplicateAllDataDims(context, value->sharding(), rank);
    }
    for (const Instruction* operand : value->operands()) {
      if (seen.insert(operand).second) work.push_back(operand);
    }
  }
  return context.Manual();
}

}  // namespace gshard
