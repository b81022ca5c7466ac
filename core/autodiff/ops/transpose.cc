// transpose: the inverse permutation.

#include "core/autodiff/reverse_scope.h"

namespace gshard {

Expected<void> GradTranspose(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Dims permutation = x->attributes<DimensionsAttributes>().dimensions;
  std::vector<int64_t> inverse(permutation.size());
  for (size_t d = 0; d < permutation.size(); ++d) {
    inverse[At(permutation[d])] = static_cast<int64_t>(d);
  }
  scope.Add(x->operand(0), scope.builder().Transpose(adjoints[0], inverse));
  return {};
}

}  // namespace gshard
