#include "core/partition/scope/masking.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/literal.h"

namespace gshard {

namespace {

Instruction* SelectWhere(PartitionScope& scope, Instruction* mask, Instruction* local,
                         Instruction* fill) {
  Builder& builder = scope.builder();
  return builder.Add(Opcode::kSelect,
                     {mask, local, builder.BroadcastScalar(fill, local->shape()->dims())});
}

Instruction* AndOf(Builder& builder, Instruction* a, Instruction* b) {
  return a == nullptr ? b : builder.Add(Opcode::kAnd, {a, b});
}

}  // namespace

Instruction* MaskPadding(PartitionScope& scope, Instruction* local, const Shape* base,
                         const MeshLayout* layout, std::span<const int64_t> dims,
                         Instruction* fill) {
  Builder& builder = scope.builder();
  Instruction* mask = nullptr;
  std::span<const int64_t> sizes = local->shape()->dims();
  for (int64_t dim : dims) {
    if (DividesEvenly(base, layout, dim)) continue;
    Instruction* offset = scope.geometry().Offset(base, layout, dim);
    Instruction* positions = scope.geometry().Positions(sizes, dim, offset);
    Instruction* limit = scope.geometry().Int(base->dim(dim), positions->shape()->dtype());
    mask = AndOf(builder, mask,
                 builder.Compare(ComparisonDirection::kLt, positions,
                                 builder.BroadcastScalar(limit, sizes)));
  }
  return mask == nullptr ? local : SelectWhere(scope, mask, local, fill);
}

Instruction* MaskRange(PartitionScope& scope, Instruction* local, int64_t dim, Instruction* offset,
                       int64_t low, int64_t high, Instruction* fill) {
  Builder& builder = scope.builder();
  std::span<const int64_t> sizes = local->shape()->dims();
  Instruction* positions = scope.geometry().Positions(sizes, dim, offset);
  auto bound = [&](int64_t value) {
    Instruction* scalar = scope.geometry().Int(value, positions->shape()->dtype());
    return builder.BroadcastScalar(scalar, sizes);
  };
  Instruction* mask = nullptr;
  if (low != std::numeric_limits<int64_t>::min()) {
    mask = builder.Compare(ComparisonDirection::kGe, positions, bound(low));
  }
  if (high != std::numeric_limits<int64_t>::max()) {
    mask = AndOf(builder, mask, builder.Compare(ComparisonDirection::kLt, positions, bound(high)));
  }
  return mask == nullptr ? local : SelectWhere(scope, mask, local, fill);
}

namespace {

// Largest or smallest value of a type: +-inf where there is one. Many 8-bit floats have none.
double ExtremeFloat(DType dtype, bool largest) {
  double infinity = std::numeric_limits<double>::infinity();
  if (DTypeBits(dtype) > 8) return largest ? infinity : -infinity;
  double extreme = largest ? -infinity : infinity;
  for (unsigned code = 0; code < 1u << DTypeBits(dtype); ++code) {
    double value = DecodeSmallFloat(dtype, static_cast<uint16_t>(code));
    if (!std::isnan(value)) extreme = largest ? std::max(extreme, value) : std::min(extreme, value);
  }
  return extreme;
}

int64_t ExtremeInteger(DType dtype, bool largest) {
  int bits = dtype == DType::kPred ? 1 : DTypeBits(dtype);
  if (ClassOf(dtype) == DTypeClass::kSigned) {
    const int64_t smallest = INT64_MIN >> (64 - bits);
    return largest ? -(smallest + 1) : smallest;
  }
  if (!largest) return 0;
  return bits == 64 ? int64_t{-1} : (int64_t{1} << bits) - 1;  // u64: by bit pattern
}

int64_t IntegerIdentity(Opcode combiner, DType dtype) {
  switch (combiner) {
    case Opcode::kMultiply:
      return 1;
    case Opcode::kMaximum:
      return ExtremeInteger(dtype, /*largest=*/false);
    case Opcode::kMinimum:
      return ExtremeInteger(dtype, /*largest=*/true);
    case Opcode::kAnd:
      return ClassOf(dtype) == DTypeClass::kSigned ? -1 : ExtremeInteger(dtype, true);
    default:  // of sums and the like
      return 0;
  }
}

double FloatIdentity(Opcode combiner, DType dtype) {
  switch (combiner) {
    case Opcode::kMultiply:
      return 1;
    case Opcode::kMaximum:
      return ExtremeFloat(dtype, /*largest=*/false);
    case Opcode::kMinimum:
      return ExtremeFloat(dtype, /*largest=*/true);
    default:  // of sums and the like
      return 0;
  }
}

}  // namespace

bool HasZeroBits(const Instruction* scalar) {
  if (scalar->opcode() != Opcode::kConstant) return false;
  const Literal* literal = scalar->attributes<ConstantAttributes>().literal;
  if (literal->elided || !literal->shape->IsArray()) return false;
  return std::ranges::all_of(literal->data, [](auto byte) { return byte == decltype(byte){}; });
}

bool IsIdentity(Opcode combiner, const Instruction* scalar) {
  while (scalar->opcode() == Opcode::kCopy || scalar->opcode() == Opcode::kBroadcast ||
         scalar->opcode() == Opcode::kReshape) {
    scalar = scalar->operand(0);
  }
  if (scalar->opcode() == Opcode::kConvert) {
    // Zero and one survive every conversion; extremes of one type are none of another.
    if (combiner == Opcode::kMaximum || combiner == Opcode::kMinimum) return false;
    return IsIdentity(combiner, scalar->operand(0));
  }
  if (scalar->opcode() != Opcode::kConstant) return false;
  const Literal* literal = scalar->attributes<ConstantAttributes>().literal;
  if (literal->elided || !literal->shape->IsArray() || literal->shape->element_count() != 1) {
    return false;
  }
  DType dtype = literal->shape->dtype();
  if (IsComplex(dtype)) {
    std::complex<double> value = ElementAsComplex(*literal, 0);
    return value == std::complex<double>(FloatIdentity(combiner, dtype), 0);
  }
  if (IsFloat(dtype)) return ElementAsDouble(*literal, 0) == FloatIdentity(combiner, dtype);
  return ElementAsInt64(*literal, 0) == IntegerIdentity(combiner, dtype);
}

Instruction* Identity(PartitionScope& scope, Opcode combiner, DType dtype) {
  if (IsFloat(dtype) || IsComplex(dtype)) {
    return scope.geometry().Number(dtype, FloatIdentity(combiner, dtype));
  }
  return scope.geometry().Int(IntegerIdentity(combiner, dtype), dtype);
}

}  // namespace gshard
