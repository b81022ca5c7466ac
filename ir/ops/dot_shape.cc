// Result dims of dots: batch dims in the order of the lhs list, lhs free dims, rhs free dims.
#include "ir/ops/shape_rules.h"

namespace gshard {

namespace {

// Which result types a product of `common`-typed operands may be accumulated in.
bool CanAccumulateIn(DType common, DType result) {
  if (!IsArrayType(result)) return false;
  if (IsComplex(common) || IsComplex(result)) return IsComplex(common) && IsComplex(result);
  return !IsFloat(common) || IsFloat(result);
}

struct Side {
  std::string_view name;
  const Shape* shape;
  Dims batch, contracting;
  bool IsFree(int64_t dim) const { return !Contains(batch, dim) && !Contains(contracting, dim); }
};

Problem CheckSide(const Side& side) {
  if (side.batch.empty() && side.contracting.size() == 1) {
    return CheckDimIndex(fmt::format("{}_contracting_dims", side.name), side.contracting[0],
                         side.shape->rank());
  }
  std::vector<int64_t> all(side.batch.begin(), side.batch.end());
  all.insert(all.end(), side.contracting.begin(), side.contracting.end());
  if (Problem problem = CheckDimList("dims", all, side.shape->rank())) {
    return ProblemOf("{}_batch_dims={} with {}_contracting_dims={} must be different dims of {}",
                     side.name, DimsText(side.batch), side.name, DimsText(side.contracting),
                     Text(side.shape));
  }
  return std::nullopt;
}

Problem CheckPairs(const OpView& op, std::string_view verb, const Side& lhs, const Side& rhs,
                   Dims lhs_dims, Dims rhs_dims) {
  if (lhs_dims.size() != rhs_dims.size()) {
    return ProblemOf("{} {} as many dims of the lhs as of the rhs, found {} and {}",
                     OpcodeName(op.opcode), verb, DimsText(lhs_dims), DimsText(rhs_dims));
  }
  for (size_t i = 0; i < lhs_dims.size(); ++i) {
    const int64_t a = lhs.shape->dim(lhs_dims[i]);
    const int64_t b = rhs.shape->dim(rhs_dims[i]);
    if (!SizesAgree(a, b)) {
      return ProblemOf("{} {} dim {} of {} (size {}) with dim {} of {} (size {})",
                       OpcodeName(op.opcode), verb, lhs_dims[i], Text(lhs.shape), a, rhs_dims[i],
                       Text(rhs.shape), b);
    }
  }
  return std::nullopt;
}

Problem CheckDotDims(const OpView& op, const Side& lhs, const Side& rhs) {
  for (const Side* side : {&lhs, &rhs}) {
    if (!side->shape->IsArray()) {
      return ProblemOf("operands of {} must be arrays, found {}", OpcodeName(op.opcode),
                       Text(side->shape));
    }
    if (Problem problem = CheckSide(*side)) return problem;
  }
  if (Problem problem = CheckPairs(op, "contracts", lhs, rhs, lhs.contracting, rhs.contracting)) {
    return problem;
  }
  return CheckPairs(op, "pairs as batch", lhs, rhs, lhs.batch, rhs.batch);
}

Side Lhs(const OpView& op) {
  const auto& dot = op.as<DotAttributes>();
  return {"lhs", op.operands[0], dot.lhs_batch, dot.lhs_contracting};
}
Side Rhs(const OpView& op) {
  const auto& dot = op.as<DotAttributes>();
  return {"rhs", op.operands[1], dot.rhs_batch, dot.rhs_contracting};
}

void AppendBatch(ResultDims& dims, const Side& lhs, const Side& rhs) {
  for (size_t i = 0; i < lhs.batch.size(); ++i) {
    const int64_t a = lhs.batch[i], b = rhs.batch[i];
    if (lhs.shape->dim(a) == Shape::kUnbounded) {
      dims.AppendDim(rhs.shape, b);
    } else {
      dims.Append(lhs.shape->dim(a), lhs.shape->IsDynamic(a) || rhs.shape->IsDynamic(b));
    }
  }
}

// Free dims of a side but `except` (-1: none).
void AppendFree(ResultDims& dims, const Side& side, Dims except = {}) {
  for (int64_t i = 0; i < side.shape->rank(); ++i) {
    if (side.IsFree(i) && !Contains(except, i)) dims.AppendDim(side.shape, i);
  }
}

}  // namespace

tl::expected<DType, std::string> ProductType(const OpView& op, DType lhs, DType rhs) {
  std::optional<DType> common = CommonType(lhs, rhs);
  if (!common && IsComplex(lhs) == IsComplex(rhs)) {
    // Integers of different types, or an integer and a float.
    if (IsFloat(lhs) != IsFloat(rhs)) {
      common = IsFloat(lhs) ? lhs : rhs;
    } else {
      common = DTypeBits(lhs) >= DTypeBits(rhs) ? lhs : rhs;
    }
  }
  if (!common) {
    return Wrong("{} cannot multiply {} by {}", OpcodeName(op.opcode), DTypeName(lhs),
                 DTypeName(rhs));
  }
  if (op.declared == nullptr || !op.declared->IsArray()) return *common;
  if (!CanAccumulateIn(*common, op.declared->dtype())) {
    return Wrong("{} of {} and {} cannot have results of type {}", OpcodeName(op.opcode),
                 DTypeName(lhs), DTypeName(rhs), DTypeName(op.declared->dtype()));
  }
  return op.declared->dtype();
}

ShapeResult InferDot(Context& ctx, const OpView& op) {
  const Side lhs = Lhs(op), rhs = Rhs(op);
  if (Problem problem = CheckDotDims(op, lhs, rhs)) return Wrong(std::move(problem));
  tl::expected<DType, std::string> type = ProductType(op, lhs.shape->dtype(), rhs.shape->dtype());
  if (!type) return tl::unexpected(std::move(type).error());
  ResultDims dims;
  AppendBatch(dims, lhs, rhs);
  AppendFree(dims, lhs);
  AppendFree(dims, rhs);
  return dims.Make(ctx, *type);
}

ShapeResult InferRaggedDot(Context& ctx, const OpView& op) {
  const auto& dot = op.as<DotAttributes>();
  const Side lhs = Lhs(op), rhs = Rhs(op);
  if (Problem problem = CheckDotDims(op, lhs, rhs)) return Wrong(std::move(problem));
  const Shape* sizes = op.operands[2];
  if (!sizes->IsArray() || !IsInteger(sizes->dtype()) || sizes->rank() == 0) {
    return Wrong("group sizes of ragged-dot must be an integer array, found {}", Text(sizes));
  }
  if (dot.lhs_ragged.size() != 1) {
    return Wrong("ragged-dot needs exactly one lhs_ragged_dims entry, found {}",
                 DimsText(dot.lhs_ragged));
  }
  const int64_t ragged = dot.lhs_ragged[0];
  if (Problem problem = CheckDimIndex("lhs_ragged_dims", ragged, lhs.shape->rank())) {
    return Wrong(std::move(problem));
  }
  if (Problem problem = CheckDimList("rhs_group_dims", dot.rhs_group, rhs.shape->rank())) {
    return Wrong(std::move(problem));
  }
  const int64_t groups = sizes->dim(sizes->rank() - 1);
  const bool free_ragged = lhs.IsFree(ragged);
  if (dot.rhs_group.size() != (free_ragged ? 1u : 0u)) {
    return Wrong("ragged-dot needs {} rhs_group_dims when the ragged dim is {}, found {}",
                 free_ragged ? "one entry of" : "no",
                 free_ragged ? "free" : "a batch or contracting dim", DimsText(dot.rhs_group));
  }
  if (free_ragged) {
    const int64_t group = dot.rhs_group[0];
    if (!rhs.IsFree(group)) {
      return Wrong("rhs_group_dims={} must not be a batch or contracting dim",
                   DimsText(dot.rhs_group));
    }
    if (!SizesAgree(rhs.shape->dim(group), groups)) {
      return Wrong("group dim {} of {} must have one entry per group size in {}", group,
                   Text(rhs.shape), Text(sizes));
    }
  }
  tl::expected<DType, std::string> type = ProductType(op, lhs.shape->dtype(), rhs.shape->dtype());
  if (!type) return tl::unexpected(std::move(type).error());
  ResultDims dims;
  if (Contains(lhs.contracting, ragged)) dims.AppendDim(sizes, sizes->rank() - 1);
  AppendBatch(dims, lhs, rhs);
  AppendFree(dims, lhs);
  AppendFree(dims, rhs, dot.rhs_group);
  return dims.Make(ctx, *type);
}

ShapeResult InferScaledDot(Context& ctx, const OpView& op) {
  const Side lhs = Lhs(op), rhs = Rhs(op);
  if (Problem problem = CheckDotDims(op, lhs, rhs)) return Wrong(std::move(problem));
  for (size_t i = 0; i < 2; ++i) {
    const Shape* x = op.operands[i];
    const Shape* scale = op.operands[i + 2];
    bool fits = scale->IsArray() && IsFloat(scale->dtype()) &&
                (scale->rank() == 0 || scale->rank() == x->rank());
    for (int64_t d = 0; fits && d < scale->rank(); ++d) {
      fits = SizesAgree(scale->dim(d), x->dim(d)) ||
             (scale->dim(d) > 0 && x->dim(d) % scale->dim(d) == 0);
    }
    if (!fits) {
      return Wrong("the {} scale must be a float scalar or divide the dims of {}, found {}",
                   i == 0 ? "lhs" : "rhs", Text(x), Text(scale));
    }
  }
  tl::expected<DType, std::string> type = ProductType(op, lhs.shape->dtype(), rhs.shape->dtype());
  if (!type) return tl::unexpected(std::move(type).error());
  ResultDims dims;
  AppendBatch(dims, lhs, rhs);
  AppendFree(dims, lhs);
  AppendFree(dims, rhs);
  return dims.Make(ctx, *type);
}

}  // namespace gshard
