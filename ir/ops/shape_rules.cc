#include "ir/ops/shape_rules.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace gshard {

std::string DimsText(Dims dims) { return fmt::format("{{{}}}", fmt::join(dims, ",")); }

const Shape* ResultDims::Make(Context& ctx, DType dtype) const {
  std::span<const uint8_t> dynamic;
  if (any_dynamic_) dynamic = dynamic_;
  return ctx.Array(dtype, sizes_, nullptr, dynamic);
}

bool HasUnbounded(const Shape* shape) {
  return std::ranges::find(shape->dims(), Shape::kUnbounded) != shape->dims().end() ||
         std::ranges::any_of(shape->elements(), HasUnbounded);
}

bool DimsAgree(const Shape* a, const Shape* b) {
  return a->bare() == b->bare() || DimsAgree(a, b->dims());
}

bool DimsAgree(const Shape* shape, Dims dims) {
  if (shape->dims().size() != dims.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!SizesAgree(shape->dims()[i], dims[i])) return false;
  }
  return true;
}

bool SameButForLengths(const Shape* a, const Shape* b) {
  if (a->IsArray() && b->IsArray()) return a->dtype() == b->dtype() && a->rank() == b->rank();
  if (!a->IsTuple() || !b->IsTuple()) return Compatible(a, b);
  return std::ranges::equal(a->elements(), b->elements(), SameButForLengths);
}

bool SameUpToDynamic(const Shape* a, const Shape* b) {
  if (a->bare() == b->bare()) return true;
  if (a->kind() != b->kind()) return false;
  switch (a->kind()) {
    case ShapeKind::kArray:
      return a->dtype() == b->dtype() && DimsAgree(a, b);
    case ShapeKind::kTuple:
    case ShapeKind::kBuffer:
      return std::ranges::equal(a->elements(), b->elements(), SameUpToDynamic);
    case ShapeKind::kToken:  // one object for all, above
    case ShapeKind::kOpaque:
      break;
  }
  return false;
}

namespace {

// Rank among floats of one width: the larger exponent field wins.
int ExponentBits(DType dtype) {
  switch (dtype) {
    case DType::kF8E8M0FNU:
    case DType::kBF16:
      return 8;
    case DType::kF16:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
      return 5;
    case DType::kF8E4M3:
    case DType::kF8E4M3FN:
    case DType::kF8E4M3B11FNUZ:
    case DType::kF8E4M3FNUZ:
      return 4;
    default:
      return 3;
  }
}

}  // namespace

std::optional<DType> CommonType(DType a, DType b) {
  if (a == b) return a;
  if (!IsFloat(a) || !IsFloat(b)) return std::nullopt;
  if (DTypeBits(a) != DTypeBits(b)) return DTypeBits(a) > DTypeBits(b) ? a : b;
  return ExponentBits(a) >= ExponentBits(b) ? a : b;
}

void AppendMerged(ResultDims& result, const Shape* a, const Shape* b, int64_t i) {
  if (a->dim(i) == Shape::kUnbounded) {
    result.AppendDim(b, i);
  } else if (b->dim(i) == Shape::kUnbounded) {
    result.AppendDim(a, i);
  } else {
    result.Append(a->dim(i), a->IsDynamic(i) || b->IsDynamic(i));
  }
}

Problem CheckDimIndex(std::string_view what, int64_t dim, int64_t rank) {
  if (dim >= 0 && dim < rank) return std::nullopt;
  return ProblemOf("{} {} is out of range for rank {}", what, dim, rank);
}

Problem CheckDimList(std::string_view what, Dims dims, int64_t rank) {
  uint64_t seen = 0;
  std::vector<bool> seen_high;  // dims from 64 on
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= rank) {
      return ProblemOf("{}={} names dim {}, out of range for rank {}", what, DimsText(dims), dim,
                       rank);
    }
    bool duplicate = false;
    if (dim < 64) {
      uint64_t bit = uint64_t{1} << dim;
      duplicate = (seen & bit) != 0;
      seen |= bit;
    } else {
      if (seen_high.empty()) seen_high.resize(static_cast<size_t>(rank));
      duplicate = seen_high[static_cast<size_t>(dim)];
      seen_high[static_cast<size_t>(dim)] = true;
    }
    if (duplicate) return ProblemOf("{}={} names dim {} twice", what, DimsText(dims), dim);
  }
  return std::nullopt;
}

Problem CheckSorted(std::string_view what, Dims dims) {
  if (std::is_sorted(dims.begin(), dims.end())) return std::nullopt;
  return ProblemOf("{}={} must be in ascending order", what, DimsText(dims));
}

Problem CheckArrays(const OpView& op) {
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!op.operands[i]->IsArray()) {
      return ProblemOf("operand {} of {} must be an array, found {}", i, OpcodeName(op.opcode),
                       Text(op.operands[i]));
    }
  }
  return std::nullopt;
}

Problem CheckDeclaredArray(const OpView& op) {
  if (op.declared == nullptr) {
    return ProblemOf("the result shape of {} must be given", OpcodeName(op.opcode));
  }
  if (!op.declared->IsArray()) {
    return ProblemOf("the result of {} must be an array, found {}", OpcodeName(op.opcode),
                     Text(op.declared));
  }
  return std::nullopt;
}

Problem CheckParameterCount(const Computation* body, std::string_view role, size_t count) {
  if (body->parameters().size() == count) return std::nullopt;
  return ProblemOf("{} {} must take {} parameter{}, found {}", role, body->name(), count,
                   count == 1 ? "" : "s", body->parameters().size());
}

Problem CheckParameter(const Computation* body, std::string_view role, size_t index,
                       const Shape* wanted) {
  const Shape* found = body->parameters()[index]->shape();
  if (SameUpToDynamic(found, wanted)) return std::nullopt;
  return ProblemOf("parameter {} of {} {} must be {}, found {}", index, role, body->name(),
                   Text(wanted), Text(found));
}

Problem CheckRoot(const Computation* body, std::string_view role, const Shape* wanted) {
  const Shape* found = body->root()->shape();
  if (SameUpToDynamic(found, wanted)) return std::nullopt;
  return ProblemOf("{} {} must return {}, found {}", role, body->name(), Text(wanted), Text(found));
}

namespace {

bool TypesMix(DType a, DType b) { return a == b || (IsFloat(a) && IsFloat(b)); }

}  // namespace

Problem CheckReducer(const Computation* body, std::string_view role,
                     std::span<const Shape* const> values, std::pmr::vector<DType>& types) {
  const size_t k = values.size();
  if (Problem problem = CheckParameterCount(body, role, 2 * k)) return problem;
  const Shape* root = body->root()->shape();
  std::span<const Shape* const> results(&root, 1);
  if (root->IsTuple()) results = root->elements();
  if (results.size() != k) {
    return ProblemOf("{} {} must return {} scalar{}, one per operand, found {}", role, body->name(),
                     k, k == 1 ? "" : "s", Text(root));
  }
  for (size_t i = 0; i < k; ++i) {
    if (!results[i]->IsScalar()) {
      return ProblemOf("{} {} must return scalars, found {}", role, body->name(), Text(root));
    }
    const DType type = results[i]->dtype();
    const Shape* accumulator = body->parameters()[i]->shape();
    if (!accumulator->IsScalar() || accumulator->dtype() != type) {
      return ProblemOf("parameter {} of {} {} must be {}[] as its result is, found {}", i, role,
                       body->name(), DTypeName(type), Text(accumulator));
    }
    const Shape* value = body->parameters()[k + i]->shape();
    if (!value->IsScalar() || !TypesMix(value->dtype(), values[i]->dtype())) {
      return ProblemOf("parameter {} of {} {} must be {}[], found {}", k + i, role, body->name(),
                       DTypeName(values[i]->dtype()), Text(value));
    }
    if (!TypesMix(type, values[i]->dtype())) {
      return ProblemOf("{} {} must return {}[], found {}[]", role, body->name(),
                       DTypeName(values[i]->dtype()), DTypeName(type));
    }
    types.push_back(type);
  }
  return std::nullopt;
}

Problem CheckInputsAndInits(const OpView& op) {
  if (op.operands.empty() || op.operands.size() % 2 != 0) {
    return ProblemOf("{} takes as many inputs as initial values, found {} operands",
                     OpcodeName(op.opcode), op.operands.size());
  }
  if (Problem problem = CheckArrays(op)) return problem;
  const size_t n = op.operands.size() / 2;
  for (size_t i = 0; i < n; ++i) {
    const Shape* input = op.operands[i];
    const Shape* init = op.operands[n + i];
    if (!DimsAgree(op.operands[0], input)) {
      return ProblemOf("inputs of {} must have the same dims, found {} and {}",
                       OpcodeName(op.opcode), Text(op.operands[0]), Text(input));
    }
    if (!init->IsScalar() || !CommonType(init->dtype(), input->dtype())) {
      return ProblemOf("initial value {} of {} must be {}[], found {}", i, OpcodeName(op.opcode),
                       DTypeName(input->dtype()), Text(init));
    }
  }
  return std::nullopt;
}

const Shape* PerType(Context& ctx, const ResultDims& dims, std::span<const DType> types) {
  if (types.size() == 1) return dims.Make(ctx, types[0]);
  std::vector<const Shape*> shapes;
  shapes.reserve(types.size());
  for (DType type : types) shapes.push_back(dims.Make(ctx, type));
  return ctx.Tuple(shapes);
}

const Shape* OneOrTuple(Context& ctx, std::span<const Shape* const> shapes) {
  return shapes.size() == 1 ? shapes[0] : ctx.Tuple(shapes);
}

}  // namespace gshard
