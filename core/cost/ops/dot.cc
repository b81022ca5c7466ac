// dot, ragged-dot, scaled-dot: two operations a multiply-add.

#include "core/cost/rules.h"

namespace gshard {

OpCost DotCost(const Instruction& instruction) {
  const auto& dims = instruction.attributes<DotAttributes>();
  const Shape* lhs = instruction.operand(0)->shape();
  double contracted = 1;
  for (int64_t dim : dims.lhs_contracting) contracted *= static_cast<double>(lhs->dim(dim));
  // A ragged contracting dim is read once over all groups, not once a group.
  double results = static_cast<double>(instruction.shape()->element_count());
  for (int64_t dim : dims.lhs_ragged) {
    for (int64_t contracting : dims.lhs_contracting) {
      if (dim == contracting && instruction.shape()->rank() > 0) {
        results /= static_cast<double>(instruction.shape()->dim(0));
      }
    }
  }
  double per_term = IsComplex(instruction.shape()->dtype()) ? 8 : 2;
  return {.flops = per_term * results * contracted};
}

}  // namespace gshard
