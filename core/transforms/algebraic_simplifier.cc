#include "core/transforms/algebraic_simplifier.h"


#include "core/transforms/device_scalar.h"
#include "core/transforms/rewriter.h"
#include "ir/comparison.h"
#include "ir/constant_fill.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// A table that would take more arithmetic than this stays a table while it is short.
constexpr size_t kMaxSubAxes = 2;
constexpr int64_t kShortTable = 64;

bool IsFloatType(const Instruction* x) {
  return ClassOf(x->shape()->dtype()) == DTypeClass::kFloat;
}
bool IsIntegerType(const Instruction* x) { return IsInteger(x->shape()->dtype()); }

// Bits of the significand and of the exponent; zeros for what is not an IEEE-like float.
struct FloatFormat {
  int significand = 0, exponent = 0;
};
FloatFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {11, 5};
    case DType::kBF16:
      return {8, 8};
    case DType::kF32:
      return {24, 8};
    case DType::kF64:
      return {53, 11};
    default:
      return {};
  }
}

// Can `wide` hold every value of `narrow`, so that converting there and back changes nothing?
bool HoldsAllOf(DType wide, DType narrow) {
  const DTypeClass to = ClassOf(wide), from = ClassOf(narrow);
  const bool to_integer = to == DTypeClass::kSigned || to == DTypeClass::kUnsigned;
  if (from == DTypeClass::kPredicate) return to_integer || to == DTypeClass::kFloat;
  const int sign_bit = from == DTypeClass::kUnsigned ? 0 : 1;
  if (from == DTypeClass::kSigned || from == DTypeClass::kUnsigned) {
    if (to == from) return DTypeBits(wide) >= DTypeBits(narrow);
    if (to == DTypeClass::kSigned) return DTypeBits(wide) > DTypeBits(narrow);
    return to == DTypeClass::kFloat && FormatOf(wide).exponent > 5 &&
           FormatOf(wide).significand >= DTypeBits(narrow) - sign_bit;
  }
  const FloatFormat a = FormatOf(wide), b = FormatOf(narrow);
  return to == DTypeClass::kFloat && from == DTypeClass::kFloat && b.significand > 0 &&
         a.significand >= b.significand && a.exponent >= b.exponent;
}

Instruction* SimplifyConvert(SimplifyContext& context, Instruction* x) {
  Instruction* inner = x->operand(0);
  const DType to = x->shape()->dtype();
  if (inner->shape()->dtype() == to) return inner;
  if (inner->opcode() != Opcode::kConvert) return x;
  Instruction* source = inner->operand(0);
  const DType from = source->shape()->dtype();
  if (!HoldsAllOf(inner->shape()->dtype(), from)) return x;
  if (from == to) return source;
  // Narrowing floats saturate where integers wrap, so the kinds must agree all along.
  const bool floats = IsFloatType(source) && IsFloatType(inner) && IsFloatType(x);
  const bool integers = IsIntegerType(source) && IsIntegerType(inner) && IsIntegerType(x);
  return floats || integers ? context.builder.Convert(source, to) : x;
}

Instruction* SimplifyBinary(SimplifyContext&, Instruction* x) {
  Instruction* a = x->operand(0);
  Instruction* b = x->operand(1);
  const bool is_float = IsFloatType(x);
  if (!is_float && !IsIntegerType(x) && x->shape()->dtype() != DType::kPred) return x;
  const bool is_pred = x->shape()->dtype() == DType::kPred;
  switch (x->opcode()) {
    case Opcode::kAdd:
      if (is_pred) return x;
      // -0.0 is the neutral element: 0.0 + -0.0 is 0.0.
      if (IsFilledWith(b, is_float ? -0.0 : 0.0)) return a;
      return IsFilledWith(a, is_float ? -0.0 : 0.0) ? b : x;
    case Opcode::kSubtract:
      return IsFilledWith(b, 0.0) ? a : x;
    case Opcode::kMultiply:
      if (IsFilledWith(b, 1)) return a;
      if (IsFilledWith(a, 1)) return b;
      if (is_float || is_pred) return x;
      return IsFilledWith(a, 0) ? a : IsFilledWith(b, 0) ? b : x;
    case Opcode::kDivide:
    case Opcode::kPower:
      return IsFilledWith(b, 1) && !is_pred ? a : x;
    case Opcode::kMaximum:
    case Opcode::kMinimum:
      return a == b ? a : x;
    case Opcode::kAnd:
      if (a == b || (is_pred && IsFilledWith(b, 1)) || IsFilledWith(a, 0)) return a;
      return (is_pred && IsFilledWith(a, 1)) || IsFilledWith(b, 0) ? b : x;
    case Opcode::kOr:
      if (a == b || (is_pred && IsFilledWith(a, 1)) || IsFilledWith(b, 0)) return a;
      return (is_pred && IsFilledWith(b, 1)) || IsFilledWith(a, 0) ? b : x;
    case Opcode::kXor:
      return IsFilledWith(b, 0) ? a : IsFilledWith(a, 0) ? b : x;
    default:  // no identity is known
      return x;
  }
}

// What a comparison of device functions gives, if it is the same on all devices.
std::optional<bool> Compared(ComparisonDirection direction, const DeviceFunction& a,
                             const DeviceFunction& b) {
  std::optional<DeviceFunction> difference = Sum(a, Scaled(b, -1));
  if (!difference) return std::nullopt;
  const int64_t least = difference->Least(), largest = difference->Largest();
  // It depends on the difference's sign alone.
  std::optional<bool> result;
  for (const int64_t sign : {-1, 0, 1}) {
    if (sign < 0 ? least >= 0 : sign > 0 ? largest <= 0 : least > 0 || largest < 0) continue;
    const bool holds = Holds<int64_t>(direction, sign, 0);
    if (result && *result != holds) return std::nullopt;
    result = holds;
  }
  return result;
}

Instruction* SimplifyCompare(SimplifyContext& context, Instruction* x) {
  if (!x->shape()->IsScalar() || !IsIntegerType(x->operand(0))) return x;
  std::optional<DeviceFunction> a = context.devices.Of(x->operand(0));
  std::optional<DeviceFunction> b = a ? context.devices.Of(x->operand(1)) : std::nullopt;
  if (!b) return x;
  std::optional<bool> result = Compared(x->attributes<CompareAttributes>().direction, *a, *b);
  return result ? context.builder.ScalarInt(DType::kPred, *result) : x;
}

Instruction* SimplifySelect(SimplifyContext&, Instruction* x) {
  Instruction* on_true = x->operand(1);
  Instruction* on_false = x->operand(2);
  if (on_true == on_false || IsFilledWith(x->operand(0), 1)) return on_true;
  return IsFilledWith(x->operand(0), 0) ? on_false : x;
}

// Integers that only depend on the device: constants, lookups in tables that are arithmetic, and
// operations that change nothing.
Instruction* SimplifyDeviceScalar(SimplifyContext& context, Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kConstant:
    case Opcode::kPartitionId:
    case Opcode::kParameter:
    case Opcode::kReshape:
    case Opcode::kBroadcast:
      return x;
    default:  // arithmetic, below
      break;
  }
  if (!x->shape()->IsArray() || x->shape()->element_count() != 1 || !IsIntegerType(x)) return x;
  std::optional<DeviceFunction> f = context.devices.Of(x);
  if (!f) return x;
  const DType dtype = x->shape()->dtype();
  if (f->IsConstant()) {
    return context.builder.Reshape(context.builder.ScalarInt(dtype, f->bias), x->shape()->dims());
  }
  if (x->opcode() == Opcode::kDynamicSlice) {
    const bool is_long = x->operand(0)->shape()->dim(0) > kShortTable;
    if (f->sub_axes.size() > kMaxSubAxes && !is_long) return x;
    Instruction* scalar = DeviceScalar(context.builder, *f, dtype, context.devices.device_count());
    return context.builder.Reshape(scalar, x->shape()->dims());
  }
  for (Instruction* operand : x->operands()) {
    if (!Compatible(operand->shape(), x->shape())) continue;
    if (context.devices.Of(operand) == f) return operand;
  }
  return x;
}

// Communication among one device.
Instruction* SimplifyCollective(SimplifyContext& context, Instruction* x) {
  if (x->operand_count() != 1 || !x->shape()->IsArray()) return x;
  const auto& attributes = x->attributes<CollectiveAttributes>();
  if (!Compatible(x->operand(0)->shape(), x->shape())) return x;
  if (x->opcode() == Opcode::kCollectivePermute) {
    const auto pairs = attributes.source_target_pairs;
    if (static_cast<int64_t>(pairs.size()) != context.devices.device_count()) return x;
    for (const DevicePair& pair : pairs) {
      if (pair.source != pair.target) return x;
    }
    return x->operand(0);
  }
  if (attributes.channel_id == 0 || attributes.replica_groups == nullptr) return x;
  const ReplicaGroups& groups = *attributes.replica_groups;
  if (groups.tiles() == nullptr || groups.tiles()->dim(1) != 1) return x;
  return x->operand(0);
}

Instruction* SimplifyByOpcode(SimplifyContext& context, Instruction* x) {
  if (x->shape()->IsArray() && x->shape()->HasDynamicDims()) return x;
  if (Instruction* by = SimplifyDeviceScalar(context, x); by != x) return by;
  switch (x->opcode()) {
    case Opcode::kConvert:
      return SimplifyConvert(context, x);
    case Opcode::kCompare:
      return SimplifyCompare(context, x);
    case Opcode::kSelect:
      return SimplifySelect(context, x);
    case Opcode::kNot:
    case Opcode::kNegate:
      return x->operand(0)->opcode() == x->opcode() ? x->operand(0)->operand(0) : x;
    case Opcode::kAllReduce:
    case Opcode::kAllGather:
    case Opcode::kReduceScatter:
    case Opcode::kAllToAll:
    case Opcode::kCollectivePermute:
      return SimplifyCollective(context, x);
    default:  // by family, below
      break;
  }
  if (x->operand_count() == 2 && IsElementwise(x->opcode())) return SimplifyBinary(context, x);
  return SimplifyMovement(context, x);
}

// Elementwise operations take floats of several precisions: an operand of another type is not the
// value, even where the operation changes nothing.
Instruction* SimplifyOnce(SimplifyContext& context, Instruction* x) {
  Instruction* by = SimplifyByOpcode(context, x);
  return Compatible(by->shape(), x->shape()) ? by : x;
}

}  // namespace

Instruction* FillingScalar(Instruction* x) {
  if (x->shape()->IsScalar()) return x;
  if (x->opcode() == Opcode::kBroadcast && x->operand(0)->shape()->IsScalar()) return x->operand(0);
  return nullptr;
}

bool SimplifyAlgebra(Module& module) {
  // A replacement may be simpler still; rules make programs smaller, so few rounds suffice.
  constexpr int kMaxRounds = 8;
  DeviceFunctions devices(module.DeviceCount());
  return RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) {
    SimplifyContext context{rewriter.builder(), devices};
    for (int round = 0; round < kMaxRounds; ++round) {
      Instruction* by = SimplifyOnce(context, x);
      if (by == x) break;
      x = by;
    }
    return x;
  });
}

}  // namespace gshard
