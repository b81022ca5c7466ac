// Reduction of contiguous elements by a known operation.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_REDUCE_ROWS_H_
#define GSHARD_BACKENDS_CPU_KERNELS_REDUCE_ROWS_H_

#include <cstdint>

#include "ir/dtype.h"
#include "ir/opcode.h"

namespace gshard::cpu {

// *accumulator = op(*accumulator, op over in[0 .. count)). The order within is fixed (a number of
// lanes, combined pairwise; long rows in blocks), so the bits depend on the elements only.
using ReduceRowFunction = void (*)(const void* in, int64_t count, void* accumulator);

// add, multiply, maximum, minimum, and, or, xor on compute types; null for anything else.
ReduceRowFunction FindReduceRow(Opcode opcode, DType type);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_REDUCE_ROWS_H_
