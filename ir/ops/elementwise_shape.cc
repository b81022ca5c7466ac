// Shapes of elementwise operations: operands and result have the same dims; which element types an
// operation takes is a mask.
#include "ir/ops/shape_rules.h"

namespace gshard {

namespace {

using TypeMask = uint32_t;
constexpr TypeMask Bit(DTypeClass c) { return TypeMask{1} << static_cast<uint32_t>(c); }
static_assert(kPredType == Bit(DTypeClass::kPredicate) && kSignedType == Bit(DTypeClass::kSigned) &&
              kUnsignedType == Bit(DTypeClass::kUnsigned) &&
              kFloatType == Bit(DTypeClass::kFloat) && kComplexType == Bit(DTypeClass::kComplex));

std::string ListTypes(TypeMask mask) {
  std::string list;
  auto add = [&](TypeMask bit, const char* name) {
    if ((mask & bit) == 0) return;
    if (!list.empty()) list += ", ";
    list += name;
  };
  add(kPredType, "pred");
  if ((mask & kIntegerType) == kIntegerType) {
    add(kSignedType, "integer");
  } else {
    add(kSignedType, "signed integer");
    add(kUnsignedType, "unsigned integer");
  }
  add(kFloatType, "float");
  add(kComplexType, "complex");
  const size_t comma = list.rfind(", ");
  if (comma != std::string::npos) list.replace(comma, 2, " or ");
  return list;
}

Problem CheckType(Opcode opcode, const Shape* shape) {
  const TypeMask mask = InfoOf(opcode).types;
  if (shape->IsArray() && (mask & Bit(ClassOf(shape->dtype()))) != 0) return std::nullopt;
  return ProblemOf("{} takes arrays of type {}, found {}", OpcodeName(opcode), ListTypes(mask),
                   Text(shape));
}

// The dims two operands share, with element type `type`.
ShapeResult Meet(Context& ctx, Opcode opcode, const Shape* a, const Shape* b, DType type) {
  if (a->bare() == b->bare() && a->dtype() == type) return a->bare();
  if (!DimsAgree(a, b)) {
    return Wrong("operands of {} must have the same dims, found {} and {}", OpcodeName(opcode),
                 Text(a), Text(b));
  }
  ResultDims dims;
  for (int64_t i = 0; i < a->rank(); ++i) AppendMerged(dims, a, b, i);
  return dims.Make(ctx, type);
}

ShapeResult MeetTypes(Context& ctx, Opcode opcode, const Shape* a, const Shape* b) {
  if (!a->IsArray() || !b->IsArray()) {
    return Wrong("operands of {} must be arrays, found {} and {}", OpcodeName(opcode), Text(a),
                 Text(b));
  }
  std::optional<DType> type = CommonType(a->dtype(), b->dtype());
  if (!type) {
    return Wrong("operands of {} must have the same element type, found {} and {}",
                 OpcodeName(opcode), Text(a), Text(b));
  }
  return Meet(ctx, opcode, a, b, *type);
}

DType ComponentType(DType dtype) {
  if (dtype == DType::kC64) return DType::kF32;
  if (dtype == DType::kC128) return DType::kF64;
  return dtype;
}

}  // namespace

ShapeResult InferUnary(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  if (Problem problem = CheckType(op.opcode, x)) return Wrong(std::move(problem));
  switch (op.opcode) {
    case Opcode::kIsFinite:
      return ctx.WithDType(x->bare(), DType::kPred);
    case Opcode::kAbs:
    case Opcode::kReal:
    case Opcode::kImag:
      return ctx.WithDType(x->bare(), ComponentType(x->dtype()));
    default:
      return x->bare();
  }
}

ShapeResult InferCopy(Context&, const OpView& op) { return op.operands[0]->bare(); }

ShapeResult InferConvert(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckDeclaredArray(op)) return Wrong(std::move(problem));
  if (!DimsAgree(x, op.declared)) {
    return Wrong("convert keeps the dims of its operand {}, found {}", Text(x), Text(op.declared));
  }
  return ctx.WithDType(x->bare(), op.declared->dtype());
}

ShapeResult InferBitcastConvert(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (Problem problem = CheckDeclaredArray(op)) return Wrong(std::move(problem));
  const DType to = op.declared->dtype();
  const int from_bits = DTypeBits(x->dtype());
  const int to_bits = DTypeBits(to);
  if (IsComplex(x->dtype()) != IsComplex(to)) {
    return Wrong("bitcast-convert cannot turn {} into {}: one is complex, the other is not",
                 DTypeName(x->dtype()), DTypeName(to));
  }
  ResultDims dims;
  if (from_bits < to_bits) {
    const int64_t ratio = to_bits / from_bits;
    if (to_bits % from_bits != 0 || x->rank() == 0 || !SizesAgree(x->dim(x->rank() - 1), ratio)) {
      return Wrong("bitcast-convert from {} to {} needs a last dim of size {}, found {}",
                   DTypeName(x->dtype()), DTypeName(to), ratio, Text(x));
    }
    for (int64_t i = 0; i + 1 < x->rank(); ++i) dims.AppendDim(x, i);
  } else {
    if (from_bits % to_bits != 0) {
      return Wrong("bitcast-convert from {} to {}: {} bits are not a multiple of {}",
                   DTypeName(x->dtype()), DTypeName(to), from_bits, to_bits);
    }
    dims.AppendAll(x);
    if (from_bits > to_bits) dims.Append(from_bits / to_bits);
  }
  return dims.Make(ctx, to);
}

ShapeResult InferReducePrecision(Context&, const OpView& op) {
  const auto& attributes = op.as<ReducePrecisionAttributes>();
  if (Problem problem = CheckType(op.opcode, op.operands[0])) return Wrong(std::move(problem));
  if (attributes.exponent_bits < 1) {
    return Wrong("exponent_bits must be at least 1, found {}", attributes.exponent_bits);
  }
  if (attributes.mantissa_bits < 0) {
    return Wrong("mantissa_bits must not be negative, found {}", attributes.mantissa_bits);
  }
  return op.operands[0]->bare();
}

ShapeResult InferBinary(Context& ctx, const OpView& op) {
  const Shape* a = op.operands[0];
  const Shape* b = op.operands[1];
  if (Problem problem = CheckType(op.opcode, a)) return Wrong(std::move(problem));
  if (a->bare() == b->bare()) return a->bare();
  return MeetTypes(ctx, op.opcode, a, b);
}

ShapeResult InferComplex(Context& ctx, const OpView& op) {
  const Shape* re = op.operands[0];
  const Shape* im = op.operands[1];
  for (const Shape* part : {re, im}) {
    if (part->dtype() != re->dtype() ||
        (part->dtype() != DType::kF32 && part->dtype() != DType::kF64)) {
      return Wrong("complex takes two f32 or two f64 arrays, found {} and {}", Text(re), Text(im));
    }
  }
  return Meet(ctx, op.opcode, re, im, re->dtype() == DType::kF32 ? DType::kC64 : DType::kC128);
}

ShapeResult InferStochasticConvert(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  const Shape* random = op.operands[1];
  if (Problem problem = CheckType(op.opcode, x)) return Wrong(std::move(problem));
  if (Problem problem = CheckDeclaredArray(op)) return Wrong(std::move(problem));
  if (ClassOf(random->dtype()) != DTypeClass::kUnsigned ||
      DTypeBits(random->dtype()) != DTypeBits(x->dtype())) {
    return Wrong("stochastic-convert of {} needs unsigned random bits of the same width, found {}",
                 Text(x), Text(random));
  }
  const DType to = op.declared->dtype();
  if (!IsFloat(to) && !IsInteger(to)) {
    return Wrong("stochastic-convert makes integers or floats, found {}", Text(op.declared));
  }
  return Meet(ctx, op.opcode, x, random, to);
}

ShapeResult InferCompare(Context& ctx, const OpView& op) {
  const auto& attributes = op.as<CompareAttributes>();
  const Shape* a = op.operands[0];
  const Shape* b = op.operands[1];
  ShapeResult both = MeetTypes(ctx, op.opcode, a, b);
  if (!both) return both;
  if (IsComplex(a->dtype()) && attributes.direction != ComparisonDirection::kEq &&
      attributes.direction != ComparisonDirection::kNe) {
    return Wrong("complex numbers have no order: direction must be EQ or NE, operands are {}",
                 Text(a));
  }
  return ctx.WithDType(*both, DType::kPred);
}

ShapeResult InferSelect(Context& ctx, const OpView& op) {
  const Shape* pred = op.operands[0];
  const Shape* on_true = op.operands[1];
  const Shape* on_false = op.operands[2];
  if (!pred->IsArray() || pred->dtype() != DType::kPred) {
    return Wrong("the first operand of select must be of type pred, found {}", Text(pred));
  }
  ShapeResult both = MeetTypes(ctx, op.opcode, on_true, on_false);
  if (!both || pred->rank() == 0) return both;
  if (!DimsAgree(pred, *both)) {
    return Wrong(
        "the pred of select must be a scalar or have the dims of the values, found {} "
        "and {}",
        Text(pred), Text(*both));
  }
  return both;
}

ShapeResult InferClamp(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[1];
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  if (IsComplex(x->dtype())) {
    return Wrong("clamp takes ordered types, found {}", Text(x));
  }
  DType type = x->dtype();
  for (const Shape* bound : {op.operands[0], op.operands[2]}) {
    std::optional<DType> common = CommonType(type, bound->dtype());
    if (!common) {
      return Wrong("the bounds of clamp must have the type of its operand {}, found {}", Text(x),
                   Text(bound));
    }
    type = *common;
    if (bound->rank() != 0 && !DimsAgree(bound, x)) {
      return Wrong("a bound of clamp must be a scalar or have the dims of its operand {}, found {}",
                   Text(x), Text(bound));
    }
  }
  return ctx.WithDType(x->bare(), type);
}

ShapeResult InferMap(Context& ctx, const OpView& op) {
  if (op.operands.empty()) return Wrong("map needs at least one operand");
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  const Computation* body = op.called[0];
  const Shape* first = op.operands[0];
  for (const Shape* operand : op.operands) {
    if (!DimsAgree(first, operand)) {
      return Wrong("operands of map must have the same dims, found {} and {}", Text(first),
                   Text(operand));
    }
  }
  Dims dimensions = op.as<DimensionsAttributes>().dimensions;
  if (!dimensions.empty()) {
    bool all = dimensions.size() == static_cast<size_t>(first->rank());
    for (size_t i = 0; all && i < dimensions.size(); ++i) {
      all = dimensions[i] == static_cast<int64_t>(i);
    }
    if (!all) {
      return Wrong("map works on all dims: dimensions must count up from 0 to {}, found {}",
                   first->rank() - 1, DimsText(dimensions));
    }
  }
  if (Problem problem = CheckParameterCount(body, "computation", op.operands.size())) {
    return Wrong(std::move(problem));
  }
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Shape* scalar = ctx.Scalar(op.operands[i]->dtype());
    if (Problem problem = CheckParameter(body, "computation", i, scalar)) {
      return Wrong(std::move(problem));
    }
  }
  if (!body->root()->shape()->IsScalar()) {
    return Wrong("computation {} of map must return a scalar, found {}", body->name(),
                 Text(body->root()->shape()));
  }
  return ctx.WithDType(first->bare(), body->root()->shape()->dtype());
}

}  // namespace gshard
