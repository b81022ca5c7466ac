// Windowed reductions: reduce-window and select-and-scatter.
#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferReduceWindow(Context& ctx, const OpView& op) {
  if (Problem problem = CheckInputsAndInits(op)) return Wrong(std::move(problem));
  const Shape* x = op.operands[0];
  std::span<const WindowDim> window = op.as<WindowAttributes>().window;
  if (window.size() != static_cast<size_t>(x->rank())) {
    return Wrong("reduce-window needs one window dim per dim of {}, found {}", Text(x),
                 window.size());
  }
  if (Problem problem = CheckWindow(window)) return Wrong(std::move(problem));
  TypeList types;
  if (Problem problem = CheckReducer(op.called[0], "computation",
                                     op.operands.first(op.operands.size() / 2), types.list)) {
    return Wrong(std::move(problem));
  }
  ResultDims dims;
  for (int64_t i = 0; i < x->rank(); ++i) {
    const int64_t size = WindowOutputSize(x->dim(i), window[static_cast<size_t>(i)]);
    if (size == -1) return Wrong("the window of reduce-window is too large along dim {}", i);
    dims.Append(size, x->IsDynamic(i));
  }
  return PerType(ctx, dims, types.list);
}

ShapeResult InferSelectAndScatter(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  const Shape* source = op.operands[1];
  const Shape* init = op.operands[2];
  std::span<const WindowDim> window = op.as<WindowAttributes>().window;
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (window.size() != static_cast<size_t>(x->rank())) {
    return Wrong("select-and-scatter needs one window dim per dim of {}, found {}", Text(x),
                 window.size());
  }
  if (Problem problem = CheckWindow(window)) return Wrong(std::move(problem));
  if (source->dtype() != x->dtype() || source->rank() != x->rank()) {
    return Wrong("the source of select-and-scatter must have the type and rank of {}, found {}",
                 Text(x), Text(source));
  }
  for (int64_t i = 0; i < x->rank(); ++i) {
    const int64_t size = WindowOutputSize(x->dim(i), window[static_cast<size_t>(i)]);
    if (!SizesAgree(source->dim(i), size)) {
      return Wrong(
          "the windows of select-and-scatter on {} leave size {} in dim {}, the source is "
          "{}",
          Text(x), size, i, Text(source));
    }
  }
  const Shape* scalar = ctx.Scalar(x->dtype());
  if (init->bare() != scalar) {
    return Wrong("the initial value of select-and-scatter must be {}, found {}", Text(scalar),
                 Text(init));
  }
  const Computation* select = op.called[0];
  if (Problem problem = CheckParameterCount(select, "select", 2)) return Wrong(std::move(problem));
  for (size_t i = 0; i < 2; ++i) {
    if (Problem problem = CheckParameter(select, "select", i, scalar)) {
      return Wrong(std::move(problem));
    }
  }
  if (Problem problem = CheckRoot(select, "select", ctx.Scalar(DType::kPred))) {
    return Wrong(std::move(problem));
  }
  TypeList types;
  const Shape* values[] = {source};
  if (Problem problem = CheckReducer(op.called[1], "scatter", values, types.list)) {
    return Wrong(std::move(problem));
  }
  return x->bare();
}

}  // namespace gshard
