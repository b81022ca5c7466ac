#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferSort(Context& ctx, const OpView& op) {
  if (op.operands.empty()) return Wrong("sort needs at least one operand");
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  const Shape* keys = op.operands[0];
  if (Problem problem =
          CheckDimIndex("dimensions", op.as<SortAttributes>().dimension, keys->rank())) {
    return Wrong(std::move(problem));
  }
  const Computation* comparator = op.called[0];
  const size_t n = op.operands.size();
  if (Problem problem = CheckParameterCount(comparator, "comparator", 2 * n)) {
    return Wrong(std::move(problem));
  }
  std::vector<const Shape*> results;
  results.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const Shape* operand = op.operands[i];
    if (!DimsAgree(keys, operand)) {
      return Wrong("operands of sort must have the same dims, found {} and {}", Text(keys),
                   Text(operand));
    }
    const Shape* scalar = ctx.Scalar(operand->dtype());
    for (size_t k = 2 * i; k < 2 * i + 2; ++k) {
      if (Problem problem = CheckParameter(comparator, "comparator", k, scalar)) {
        return Wrong(std::move(problem));
      }
    }
    results.push_back(operand->bare());
  }
  if (Problem problem = CheckRoot(comparator, "comparator", ctx.Scalar(DType::kPred))) {
    return Wrong(std::move(problem));
  }
  return OneOrTuple(ctx, results);
}

ShapeResult InferTopK(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  const int64_t k = op.as<TopKAttributes>().k;
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (x->rank() == 0) return Wrong("topk needs at least one dim, found {}", Text(x));
  const int64_t last = x->rank() - 1;
  if (k < 0 || (k > x->dim(last) && x->dim(last) != Shape::kUnbounded)) {
    return Wrong("topk takes up to the {} elements of the last dim of {}, found k={}", x->dim(last),
                 Text(x), k);
  }
  ResultDims dims;
  for (int64_t i = 0; i < last; ++i) dims.AppendDim(x, i);
  dims.Append(k);
  const Shape* parts[] = {dims.Make(ctx, x->dtype()), dims.Make(ctx, DType::kS32)};
  return ctx.Tuple(parts);
}

}  // namespace gshard
