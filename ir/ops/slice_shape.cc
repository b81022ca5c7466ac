// Operations that cut, pad and join along dims.
#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferSlice(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  const auto& slice = op.as<SliceAttributes>();
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  const size_t rank = static_cast<size_t>(x->rank());
  if (slice.starts.size() != rank || slice.limits.size() != rank || slice.strides.size() != rank) {
    return Wrong("slice needs one [start:limit] per dim of {}, found {}", Text(x),
                 slice.starts.size());
  }
  ResultDims dims;
  for (int64_t i = 0; i < x->rank(); ++i) {
    const size_t k = static_cast<size_t>(i);
    const int64_t start = slice.starts[k], limit = slice.limits[k], stride = slice.strides[k];
    const bool bounded = x->dim(i) != Shape::kUnbounded;
    if (start < 0 || limit < start || (bounded && limit > x->dim(i))) {
      return Wrong("slice [{}:{}] does not fit dim {} of {}", start, limit, i, Text(x));
    }
    if (stride < 1) return Wrong("slice stride of dim {} must be positive, found {}", i, stride);
    const bool whole = start == 0 && limit == x->dim(i) && stride == 1;
    dims.Append(SliceSize(start, limit, stride), whole && x->IsDynamic(i));
  }
  return dims.Make(ctx, x->dtype());
}

int64_t PaddedSize(int64_t size, const PadDim& padding) {
  if (size == Shape::kUnbounded) return size;
  int64_t result = 0;
  if (size > 0) {
    if (__builtin_mul_overflow(size - 1, padding.interior, &result)) return -1;
    if (__builtin_add_overflow(result, size, &result)) return -1;
  }
  if (__builtin_add_overflow(result, padding.low, &result)) return -1;
  if (__builtin_add_overflow(result, padding.high, &result)) return -1;
  return result < 0 ? -1 : result;
}

ShapeResult InferPad(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  const Shape* value = op.operands[1];
  std::span<const PadDim> padding = op.as<PadAttributes>().padding;
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (value->rank() != 0) return Wrong("the padding value must be a scalar, found {}", Text(value));
  std::optional<DType> type = CommonType(x->dtype(), value->dtype());
  if (!type) {
    return Wrong("the padding value must have the type of the operand {}, found {}", Text(x),
                 Text(value));
  }
  if (padding.size() != static_cast<size_t>(x->rank())) {
    return Wrong("padding needs one entry per dim of {}, found {}", Text(x), padding.size());
  }
  ResultDims dims;
  for (int64_t i = 0; i < x->rank(); ++i) {
    const PadDim& pad = padding[static_cast<size_t>(i)];
    if (pad.interior < 0) {
      return Wrong("interior padding must not be negative, found {} for dim {}", pad.interior, i);
    }
    const int64_t size = PaddedSize(x->dim(i), pad);
    if (size == -1) {
      return Wrong("padding {}_{}_{} of dim {} of {} leaves no valid size", pad.low, pad.high,
                   pad.interior, i, Text(x));
    }
    dims.Append(size, x->IsDynamic(i));
  }
  return dims.Make(ctx, *type);
}

ShapeResult InferConcatenate(Context& ctx, const OpView& op) {
  Dims dimensions = op.as<DimensionsAttributes>().dimensions;
  if (op.operands.empty()) return Wrong("concatenate needs at least one operand");
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  const Shape* first = op.operands[0];
  if (dimensions.size() != 1) {
    return Wrong("concatenate takes one dim, found dimensions={}", DimsText(dimensions));
  }
  const int64_t along = dimensions[0];
  if (Problem problem = CheckDimIndex("dimensions", along, first->rank())) {
    return Wrong(std::move(problem));
  }
  DType type = first->dtype();
  int64_t size = 0;
  ResultDims dims(first);
  bool dynamic = false;
  for (const Shape* part : op.operands) {
    std::optional<DType> common = CommonType(type, part->dtype());
    bool fits = common.has_value() && part->rank() == first->rank();
    for (int64_t i = 0; fits && i < first->rank(); ++i) {
      fits = i == along || SizesAgree(first->dim(i), part->dim(i));
    }
    if (!fits) {
      return Wrong(
          "concatenate along dim {} needs operands that agree in type and other dims, "
          "found {} and {}",
          along, Text(first), Text(part));
    }
    type = *common;
    dynamic |= part->IsDynamic(along);
    if (size == Shape::kUnbounded || part->dim(along) == Shape::kUnbounded) {
      size = Shape::kUnbounded;
    } else if (__builtin_add_overflow(size, part->dim(along), &size)) {
      return Wrong("the result of concatenate is too large");
    }
  }
  dims.Set(along, size, dynamic);
  return dims.Make(ctx, type);
}

ShapeResult InferReverse(Context&, const OpView& op) {
  const Shape* x = op.operands[0];
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (Problem problem =
          CheckDimList("dimensions", op.as<DimensionsAttributes>().dimensions, x->rank())) {
    return Wrong(std::move(problem));
  }
  return x->bare();
}

namespace {

// Start indices: one integer scalar per dim of `x`, or one vector of them.
Problem CheckStarts(const OpView& op, const Shape* x, std::span<const Shape* const> starts) {
  const size_t rank = static_cast<size_t>(x->rank());
  if (starts.size() == 1 && starts[0]->rank() == 1) {
    if (IsInteger(starts[0]->dtype()) && starts[0]->dim(0) == x->rank()) return std::nullopt;
    return ProblemOf("the index vector of {} must hold one integer per dim of {}, found {}",
                     OpcodeName(op.opcode), Text(x), Text(starts[0]));
  }
  if (starts.size() != rank) {
    return ProblemOf("{} needs one start index per dim of {}, found {}", OpcodeName(op.opcode),
                     Text(x), starts.size());
  }
  for (const Shape* start : starts) {
    if (!start->IsScalar() || !IsInteger(start->dtype())) {
      return ProblemOf("start indices of {} must be integer scalars, found {}",
                       OpcodeName(op.opcode), Text(start));
    }
    if (start->dtype() != starts[0]->dtype()) {
      return ProblemOf("start indices of {} must have one type, found {} and {}",
                       OpcodeName(op.opcode), Text(starts[0]), Text(start));
    }
  }
  return std::nullopt;
}

}  // namespace

// A slice of floats may be of another float type, as XLA's compiler for TPUs has it.
ShapeResult InferDynamicSlice(Context& ctx, const OpView& op) {
  if (op.operands.empty()) return Wrong("dynamic-slice needs an operand");
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  const Shape* x = op.operands[0];
  Dims sizes = op.as<DynamicSliceAttributes>().slice_sizes;
  if (Problem problem = CheckStarts(op, x, op.operands.subspan(1))) {
    return Wrong(std::move(problem));
  }
  if (sizes.size() != static_cast<size_t>(x->rank())) {
    return Wrong("dynamic_slice_sizes must have one entry per dim of {}, found {}", Text(x),
                 DimsText(sizes));
  }
  ResultDims dims;
  for (int64_t i = 0; i < x->rank(); ++i) {
    const int64_t size = sizes[static_cast<size_t>(i)];
    if (size < 0 || (size > x->dim(i) && x->dim(i) != Shape::kUnbounded)) {
      return Wrong("dynamic_slice_sizes={} does not fit dim {} of {}", DimsText(sizes), i, Text(x));
    }
    dims.Append(size, x->IsDynamic(i) && size == x->dim(i));
  }
  const bool converts = op.declared != nullptr && op.declared->IsArray() &&
                        IsFloat(op.declared->dtype()) && IsFloat(x->dtype());
  return dims.Make(ctx, converts ? op.declared->dtype() : x->dtype());
}

ShapeResult InferDynamicUpdateSlice(Context&, const OpView& op) {
  if (op.operands.size() < 2) return Wrong("dynamic-update-slice needs an operand and an update");
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  const Shape* x = op.operands[0];
  const Shape* update = op.operands[1];
  if (Problem problem = CheckStarts(op, x, op.operands.subspan(2))) {
    return Wrong(std::move(problem));
  }
  bool fits = update->rank() == x->rank() && CommonType(x->dtype(), update->dtype()).has_value();
  for (int64_t i = 0; fits && i < x->rank(); ++i) {
    fits = update->dim(i) <= x->dim(i) || x->dim(i) == Shape::kUnbounded;
  }
  if (!fits) {
    return Wrong(
        "the update of dynamic-update-slice must fit into {} in type, rank and size, "
        "found {}",
        Text(x), Text(update));
  }
  return x->bare();
}

namespace {

tl::expected<int64_t, std::string> OneDim(const OpView& op) {
  Dims dimensions = op.as<DimensionsAttributes>().dimensions;
  if (!op.operands[0]->IsArray()) {
    return Wrong("{} takes an array, found {}", OpcodeName(op.opcode), Text(op.operands[0]));
  }
  if (dimensions.size() != 1) {
    return Wrong("{} takes one dim, found dimensions={}", OpcodeName(op.opcode),
                 DimsText(dimensions));
  }
  if (Problem problem = CheckDimIndex("dimensions", dimensions[0], op.operands[0]->rank())) {
    return Wrong(std::move(problem));
  }
  return dimensions[0];
}

}  // namespace

ShapeResult InferGetDimensionSize(Context& ctx, const OpView& op) {
  tl::expected<int64_t, std::string> dim = OneDim(op);
  if (!dim) return tl::unexpected(std::move(dim).error());
  return ctx.Scalar(DType::kS32);
}

ShapeResult InferSetDimensionSize(Context& ctx, const OpView& op) {
  tl::expected<int64_t, std::string> dim = OneDim(op);
  if (!dim) return tl::unexpected(std::move(dim).error());
  if (!op.operands[1]->IsScalar() || op.operands[1]->dtype() != DType::kS32) {
    return Wrong("the size given to set-dimension-size must be s32[], found {}",
                 Text(op.operands[1]));
  }
  const Shape* x = op.operands[0];
  ResultDims dims(x);
  dims.Set(*dim, x->dim(*dim), true);
  return dims.Make(ctx, x->dtype());
}

}  // namespace gshard
