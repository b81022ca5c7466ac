#include "ir/custom_call.h"

#include <algorithm>

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

bool IsRadixSortCall(const Instruction& x) {
  if (!IsCustomCallTo(x, "xla.gpu.ext.cub_sort_keys") &&
      !IsCustomCallTo(x, "xla.gpu.ext.cub_sort_pairs")) {
    return false;
  }
  return x.operand_count() > 0 &&
         std::ranges::all_of(x.operands(), [&](const Instruction* operand) {
           return operand->shape()->IsArray() && operand->shape()->rank() > 0 &&
                  std::ranges::equal(operand->shape()->dims(), x.operand(0)->shape()->dims());
         });
}

const Shape* WorkspaceOf(const Instruction& call) {
  if (call.opcode() != Opcode::kCustomCall || !call.shape()->IsTuple() ||
      call.shape()->elements().size() < 2) {
    return nullptr;
  }
  const Shape* last = call.shape()->elements().back();
  const std::string_view target = call.attributes<CustomCallAttributes>().target;
  const bool is_bytes = last->IsArray() && last->rank() == 1 &&
                        (last->dtype() == DType::kU8 || last->dtype() == DType::kS8);
  const bool is_library = target.starts_with("__cublas$") || target.starts_with("__cudnn$") ||
                          target.starts_with("xla.gpu.ext.cub_");
  return is_bytes && is_library ? last : nullptr;
}

bool IsIdentityCall(const Instruction& x) {
  if (x.opcode() != Opcode::kCustomCall) return false;
  std::string_view target = x.attributes<CustomCallAttributes>().target;
  return IsRegionMarker(x) || IsShardingMarker(target) || IsPlacementHint(target) ||
         IsIndexHint(target);
}

}  // namespace gshard
