// Replaces what lies in the padding of uneven tiles by a value that the consumer can swallow.
//
// Padding is unspecified (it may be NaN), so it is selected away, never multiplied by zero.
#ifndef GSHARD_CORE_PARTITION_SCOPE_MASKING_H_
#define GSHARD_CORE_PARTITION_SCOPE_MASKING_H_

#include <cstdint>
#include <span>

#include "core/analysis/combiner.h"
#include "core/partition/scope/partition_scope.h"

namespace gshard {

// `local` (a tile of `base` in `layout`) with the padding along `dims` set to the scalar `fill` of
// the same element type. `local` itself where those dims divide evenly.
Instruction* MaskPadding(PartitionScope& scope, Instruction* local, const Shape* base,
                         const MeshLayout* layout, std::span<const int64_t> dims,
                         Instruction* fill);

// select(low <= position < high, local, fill) along one dim, where position is iota + offset; a
// bound that is absent (INT64_MIN, INT64_MAX) is not compared.
Instruction* MaskRange(PartitionScope& scope, Instruction* local, int64_t dim, Instruction* offset,
                       int64_t low, int64_t high, Instruction* fill);

// Is `scalar` a constant all of whose bits are 0, what a collective-permute gives who gets nothing?
bool HasZeroBits(const Instruction* scalar);
// The identity of `combiner` (add, multiply, maximum, minimum, and, or, xor) in a type, as a
// scalar.
Instruction* Identity(PartitionScope& scope, Opcode combiner, DType dtype);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_MASKING_H_
