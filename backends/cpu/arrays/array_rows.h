// Walks over a box inside a row-major array, row by row.
#ifndef GSHARD_BACKENDS_CPU_ARRAYS_ARRAY_ROWS_H_
#define GSHARD_BACKENDS_CPU_ARRAYS_ARRAY_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace gshard::cpu {

// The box of `sizes` at `start` of an array of `dims`, as rows that are one run of memory in both:
// the innermost dims that the box covers whole, and the dim around them.
class BoxRows {
 public:
  BoxRows(std::span<const int64_t> start, std::span<const int64_t> sizes,
          std::span<const int64_t> dims) {
    int64_t stride = 1;  // of dim i in the array
    size_t i = dims.size();
    while (i-- > 0) {
      row_ = stride * sizes[i];
      valid_ = stride * std::clamp<int64_t>(dims[i] - start[i], 0, sizes[i]);
      base_ += stride * start[i];
      stride *= dims[i];
      if (start[i] != 0 || sizes[i] != dims[i]) break;
    }
    if (i == SIZE_MAX) return;
    while (i-- > 0) {
      outer_.push_back({sizes[i], std::clamp<int64_t>(dims[i] - start[i], 0, sizes[i]), stride});
      base_ += stride * start[i];
      count_ *= sizes[i];
      stride *= dims[i];
    }
  }

  int64_t count() const { return count_; }
  int64_t row() const { return row_; }  // elements

  // visit(global, local, length) for the rows [first, end): `length` elements at flat index
  // `global` of the array are those at flat index `local` of the box. What sticks out of the array
  // is left out.
  template <typename Visit>
  void ForEach(int64_t first, int64_t end, Visit visit) const {
    if (valid_ == 0) return;
    std::vector<int64_t> index(outer_.size());
    int64_t global = base_, rest = first, outside = 0;
    for (size_t i = 0; i < outer_.size(); ++i) {
      index[i] = rest % outer_[i].size;
      rest /= outer_[i].size;
      global += index[i] * outer_[i].stride;
      outside += index[i] >= outer_[i].valid;
    }
    for (int64_t r = first; r < end; ++r) {
      if (outside == 0) visit(global, r * row_, valid_);
      for (size_t i = 0; i < outer_.size(); ++i) {
        global += outer_[i].stride;
        ++index[i];
        outside += index[i] == outer_[i].valid;
        if (index[i] < outer_[i].size) break;
        global -= index[i] * outer_[i].stride;
        outside -= index[i] >= outer_[i].valid;
        outside += outer_[i].valid == 0;
        index[i] = 0;
      }
    }
  }

 private:
  struct Outer {
    int64_t size, valid, stride;
  };
  std::vector<Outer> outer_;  // dims around the rows, innermost first
  int64_t base_ = 0, count_ = 1, row_ = 1, valid_ = 1;
};

template <typename Visit>
void ForEachRow(std::span<const int64_t> start, std::span<const int64_t> sizes,
                std::span<const int64_t> dims, Visit visit) {
  const BoxRows rows(start, sizes, dims);
  rows.ForEach(0, rows.count(), visit);
}

// visit(global, local, count) for the runs of elements of a box that belong to a part of it.
template <typename Visit>
void ForEachRunOfPart(const BoxRows& rows, int64_t part, int64_t parts, Visit visit) {
  const int64_t all = rows.count() * rows.row();
  if (all == 0) return;
  const int64_t begin = all * part / parts, end = all * (part + 1) / parts;
  rows.ForEach(begin / rows.row(), (end + rows.row() - 1) / rows.row(),
               [&](int64_t global, int64_t local, int64_t length) {
                 const int64_t first = std::max(local, begin);
                 const int64_t count = std::min(local + length, end) - first;
                 if (count > 0) visit(global + first - local, first, count);
               });
}

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ARRAYS_ARRAY_ROWS_H_
