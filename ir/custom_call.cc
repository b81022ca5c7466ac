#include "ir/custom_call.h"

#include "ir/attributes.h"

namespace gshard {

bool IsRegionMarker(const Instruction& x) {
  return IsCustomCallTo(x, kEnterManualTarget) || IsCustomCallTo(x, kLeaveManualTarget);
}

bool IsShardingMarker(std::string_view target) {
  return target == kShardingTarget || target == "xla.sdy.FuncResultSharding" ||
         target == kShardBarrierFrom || target == kShardBarrierTo;
}

bool IsPlacementHint(std::string_view target) {
  return target == "annotate_device_placement" || target == "MoveToHost" ||
         target == "MoveToDevice" || target == "LayoutConstraint";
}

bool IsIndexHint(std::string_view target) {
  return target == "AssumeGatherIndicesInBound" || target == "GatherScatterIndicesBitpacked";
}

bool IsIdentityCall(const Instruction& x) {
  if (x.opcode() != Opcode::kCustomCall) return false;
  std::string_view target = x.attributes<CustomCallAttributes>().target;
  return IsRegionMarker(x) || IsShardingMarker(target) || IsPlacementHint(target) ||
         IsIndexHint(target);
}

}  // namespace gshard
