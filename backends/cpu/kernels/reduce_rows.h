// Reduction of contiguous rows by a known operation.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_REDUCE_ROWS_H_
#define GSHARD_BACKENDS_CPU_KERNELS_REDUCE_ROWS_H_

#include <cstdint>

#include "ir/dtype.h"
#include "ir/opcode.h"

namespace gshard::cpu {

// accumulators[r] = op(accumulators[r], op over in[r * stride .. + count)) for every row. The order
// within is fixed (a number of lanes, combined pairwise; long rows in blocks), so the bits depend
// on the elements only.
using ReduceRowsFunction = void (*)(const void* in, int64_t count, int64_t rows, int64_t stride,
                                    void* accumulators);

// add, multiply, maximum, minimum, and, or, xor on compute types; null for anything else.
ReduceRowsFunction FindReduceRows(Opcode opcode, DType type);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_REDUCE_ROWS_H_
