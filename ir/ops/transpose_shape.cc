#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferTranspose(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  Dims permutation = op.as<DimensionsAttributes>().dimensions;
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (permutation.size() != static_cast<size_t>(x->rank())) {
    return Wrong("dimensions={} must be a permutation of the {} dims of {}", DimsText(permutation),
                 x->rank(), Text(x));
  }
  if (Problem problem = CheckDimList("dimensions", permutation, x->rank())) {
    return Wrong(std::move(problem));
  }
  ResultDims dims;
  for (int64_t source : permutation) dims.AppendDim(x, source);
  return dims.Make(ctx, x->dtype());
}

}  // namespace gshard
