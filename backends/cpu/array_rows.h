// Walks over a box inside a row-major array, row by row.
#ifndef GSHARD_BACKENDS_CPU_ARRAY_ROWS_H_
#define GSHARD_BACKENDS_CPU_ARRAY_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gshard::cpu {

// visit(global, local, length): `length` elements at flat index `global` of the array of `dims` are
// those at flat index `local` of the box of `sizes` at `start`. What sticks out of the array is
// left out. For arrays without dims: visit(0, 0, 1).
template <typename Visit>
void ForEachRow(std::span<const int64_t> start, std::span<const int64_t> sizes,
                std::span<const int64_t> dims, Visit visit) {
  const size_t rank = dims.size();
  if (rank == 0) {
    visit(int64_t{0}, int64_t{0}, int64_t{1});
    return;
  }
  const int64_t row = sizes[rank - 1];
  const int64_t valid = std::clamp<int64_t>(dims[rank - 1] - start[rank - 1], 0, row);
  if (valid == 0) return;
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < rank; ++i) rows *= sizes[i];
  std::vector<int64_t> index(rank, 0);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t flat = 0;
    bool inside = true;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t global = start[i] + index[i];
      inside &= global < dims[i];
      flat = flat * dims[i] + global;
    }
    if (inside) visit(flat, r * row, valid);
    for (size_t i = rank - 1; i-- > 0;) {
      if (++index[i] < sizes[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ARRAY_ROWS_H_
