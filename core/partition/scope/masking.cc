#include "core/partition/scope/masking.h"

#include <algorithm>
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

bool HasZeroBits(const Instruction* scalar) {
  if (scalar->opcode() != Opcode::kConstant) return false;
  const Literal* literal = scalar->attributes<ConstantAttributes>().literal;
  if (literal->elided || !literal->shape->IsArray()) return false;
  return std::ranges::all_of(literal->data, [](auto byte) { return byte == decltype(byte){}; });
}

Instruction* Identity(PartitionScope& scope, Opcode combiner, DType dtype) {
  if (IsFloat(dtype) || IsComplex(dtype)) {
    return scope.geometry().Number(dtype, FloatIdentity(combiner, dtype));
  }
  return scope.geometry().Int(IntegerIdentity(combiner, dtype), dtype);
}

}  // namespace gshard
