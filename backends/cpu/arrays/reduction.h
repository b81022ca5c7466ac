// Geometry and loops of reductions over some dims of dense arrays.
#ifndef GSHARD_BACKENDS_CPU_ARRAYS_REDUCTION_H_
#define GSHARD_BACKENDS_CPU_ARRAYS_REDUCTION_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/arrays/strided.h"
#include "ir/diagnostic.h"

namespace gshard::cpu {

// Which elements each result element is made of. Dims are merged, outermost first.
struct ReductionGeometry {
  struct Dim {
    int64_t size, stride;
  };
  ReductionGeometry(std::span<const int64_t> dims, std::span<const int64_t> reduced_dims);

  std::vector<Dim> kept, reduced;
  int64_t kept_count = 1, reduced_count = 1;
  // The innermost dim of the operand is a kept one (or there is none that is reduced).
  bool columns = false;
};

// Offsets of a box of indices in row-major order, one after another.
class OffsetIterator {
 public:
  explicit OffsetIterator(std::span<const ReductionGeometry::Dim> dims, int64_t start = 0)
      : dims_(dims) {
    CheckInternal(dims.size() <= kMaxRank, "rank of an offset iterator");
    for (size_t i = dims.size(); i-- > 0;) {
      index_[i] = start % dims[i].size;
      start /= dims[i].size;
      offset_ += index_[i] * dims[i].stride;
    }
  }
  int64_t offset() const { return offset_; }
  void Next() {
    for (size_t i = dims_.size(); i-- > 0;) {
      offset_ += dims_[i].stride;
      if (++index_[i] < dims_[i].size) return;
      offset_ -= dims_[i].size * dims_[i].stride;
      index_[i] = 0;
    }
  }

 private:
  static constexpr size_t kMaxRank = 64;
  std::span<const ReductionGeometry::Dim> dims_;
  std::array<int64_t, kMaxRank> index_;
  int64_t offset_ = 0;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ARRAYS_REDUCTION_H_
