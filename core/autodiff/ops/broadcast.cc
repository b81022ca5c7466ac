// broadcast: the sum over the dims that it made.

#include "core/autodiff/emit.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {

Expected<void> GradBroadcast(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  Dims dimensions = x->attributes<DimensionsAttributes>().dimensions;
  const Shape* from = x->operand(0)->shape();
  std::vector<int64_t> reduced, kept;
  for (int64_t d = 0; d < x->shape()->rank(); ++d) {
    const auto at = std::ranges::find(dimensions, d);
    // A dim of size 1 may have grown.
    if (at == dimensions.end() || from->dim(at - dimensions.begin()) != x->shape()->dim(d)) {
      reduced.push_back(d);
    } else {
      kept.push_back(at - dimensions.begin());
    }
  }
  Instruction* sum = Emit(b).Sum(adjoints[0], reduced);
  // The kept dims may stand in another order.
  std::vector<int64_t> permutation(kept.size());
  std::vector<int64_t> order(kept);
  std::ranges::sort(order);
  for (size_t i = 0; i < order.size(); ++i) {
    permutation[i] = std::ranges::find(kept, order[i]) - kept.begin();
  }
  scope.Add(x->operand(0), b.Reshape(b.Transpose(sum, permutation), from->dims()));
  return {};
}

}  // namespace gshard
