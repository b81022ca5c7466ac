// Walks over the indices of a box in row-major order, keeping several strided offsets up to date.
#ifndef GSHARD_BACKENDS_CPU_ARRAYS_INDEX_SPACE_H_
#define GSHARD_BACKENDS_CPU_ARRAYS_INDEX_SPACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/diagnostic.h"

namespace gshard::cpu {

template <size_t kOffsets>
class IndexSpace {
 public:
  using Strides = std::array<int64_t, kOffsets>;
  struct Dim {
    int64_t size;
    Strides strides;
  };

  // Dims are added outermost first; neighbours that step alike are merged.
  void Add(int64_t size, const Strides& strides) {
    count_ *= size;
    if (size == 1) return;
    if (!dims_.empty()) {
      Dim& outer = dims_.back();
      bool merges = true;
      for (size_t k = 0; k < kOffsets; ++k) {
        merges = merges && outer.strides[k] == strides[k] * size;
      }
      if (merges) {
        outer = {outer.size * size, strides};
        return;
      }
    }
    dims_.push_back({size, strides});
    CheckInternal(dims_.size() <= kMaxRank, "rank of an index space");
  }

  int64_t count() const { return count_; }
  const std::vector<Dim>& dims() const { return dims_; }
  void RemoveInnermost() {
    count_ = dims_.back().size == 0 ? 0 : count_ / dims_.back().size;
    dims_.pop_back();
  }

  class Iterator {
   public:
    // At index number `start`; the space must outlive the iterator and not be empty.
    Iterator(const IndexSpace& space, int64_t start) : dims_(space.dims_) {
      for (size_t i = dims_.size(); i-- > 0;) {
        index_[i] = start % dims_[i].size;
        start /= dims_[i].size;
        for (size_t k = 0; k < kOffsets; ++k) offsets_[k] += index_[i] * dims_[i].strides[k];
      }
    }
    int64_t offset(size_t k) const { return offsets_[k]; }
    void Next() {
      for (size_t i = dims_.size(); i-- > 0;) {
        const Dim& dim = dims_[i];
        for (size_t k = 0; k < kOffsets; ++k) offsets_[k] += dim.strides[k];
        if (++index_[i] < dim.size) return;
        for (size_t k = 0; k < kOffsets; ++k) offsets_[k] -= dim.size * dim.strides[k];
        index_[i] = 0;
      }
    }

   private:
    const std::vector<Dim>& dims_;
    std::array<int64_t, 32> index_;
    std::array<int64_t, kOffsets> offsets_{};
  };

 private:
  static constexpr size_t kMaxRank = 32;
  std::vector<Dim> dims_;
  int64_t count_ = 1;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ARRAYS_INDEX_SPACE_H_
