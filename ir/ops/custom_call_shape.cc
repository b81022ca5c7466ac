#include "ir/custom_call.h"
#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferCustomCall(Context&, const OpView& op) {
  const auto& call = op.as<CustomCallAttributes>();
  if (op.declared == nullptr) return Wrong("the result shape of custom-call must be given");
  if (call.has_operand_layout_constraints) {
    std::span<const Shape* const> constraints = call.operand_layout_constraints;
    if (constraints.size() != op.operands.size()) {
      return Wrong(
          "operand_layout_constraints must have one shape per operand: {} operands, found "
          "{}",
          op.operands.size(), constraints.size());
    }
    for (size_t i = 0; i < constraints.size(); ++i) {
      if (!SameUpToDynamic(constraints[i], op.operands[i])) {
        return Wrong("operand_layout_constraints give {} for operand {}, which is {}",
                     Text(constraints[i]), i, Text(op.operands[i]));
      }
    }
  }
  if (IsShardingMarker(call.target) || IsPlacementHint(call.target)) {
    if (op.operands.size() != 1 || !SameUpToDynamic(op.operands[0], op.declared)) {
      return Wrong("a {} custom-call returns its one operand, found {}", call.target,
                   Text(op.declared));
    }
  }
  if (call.target == kEnterManualTarget || call.target == kLeaveManualTarget) {
    if (op.operands.size() != 1 || !SameButForLengths(op.operands[0], op.declared)) {
      return Wrong("a {} custom-call returns its one operand, dims of other lengths, found {}",
                   call.target, Text(op.declared));
    }
  }
  return op.declared->bare();
}

}  // namespace gshard
