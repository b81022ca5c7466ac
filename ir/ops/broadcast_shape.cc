#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferBroadcast(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  Dims dimensions = op.as<DimensionsAttributes>().dimensions;
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckDeclaredArray(op)) return Wrong(std::move(problem));
  const Shape* to = op.declared;
  if (dimensions.size() != static_cast<size_t>(x->rank())) {
    return Wrong("broadcast needs one entry of dimensions per dim of its operand {}, found {}",
                 Text(x), DimsText(dimensions));
  }
  if (Problem problem = CheckDimList("dimensions", dimensions, to->rank())) {
    return Wrong(std::move(problem));
  }
  for (int64_t i = 0; i < x->rank(); ++i) {
    const int64_t target = dimensions[static_cast<size_t>(i)];
    if (x->dim(i) != 1 && !SizesAgree(x->dim(i), to->dim(target))) {
      return Wrong("broadcast puts dim {} of {} on dim {} of {}: sizes {} and {} differ", i,
                   Text(x), target, Text(to), x->dim(i), to->dim(target));
    }
  }
  return ctx.WithDType(to->bare(), x->dtype());
}

}  // namespace gshard
