// The largest or smallest element of contiguous rows, with the index that comes with it.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_ARG_ROWS_H_
#define GSHARD_BACKENDS_CPU_KERNELS_ARG_ROWS_H_

#include <cstdint>

#include "ir/dtype.h"

namespace gshard::cpu {

// For every row of `count` values and as many indices: folds them into best[r] and index[r]. NaN is
// better than all numbers, the first one best; of equal values the lowest index counts.
using ArgRowsFunction = void (*)(const void* values, const void* indices, int64_t count,
                                 int64_t rows, void* best, void* index);

// f32 with s32, f64 with s64; null for other types.
ArgRowsFunction FindArgRows(DType value, DType index, bool largest);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_ARG_ROWS_H_
