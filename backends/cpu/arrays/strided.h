// Dense data movement described by strides: the one engine under broadcast, transpose, slice, pad,
// concatenate, reverse, dynamic slices and packing for dots.
//
// Strides count elements and may be zero (source only) or negative; element sizes are 1, 2, 4, 8 or
// 16 bytes. Both classes are canonical after construction (size-1 dims dropped, mergeable dims
// merged), immutable and allocate nothing when run.
#ifndef GSHARD_BACKENDS_CPU_ARRAYS_STRIDED_H_
#define GSHARD_BACKENDS_CPU_ARRAYS_STRIDED_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/shape.h"

namespace gshard::cpu {

// Row-major strides of a dense array, in elements.
std::vector<int64_t> RowMajorStrides(std::span<const int64_t> dims);
int64_t Product(std::span<const int64_t> values);

struct StridedDim {
  int64_t size = 1;
  int64_t source = 0;  // stride in the source
  int64_t target = 0;  // stride in the target
};

// Copies a box of elements: target[t . i] = source[s . i] for every index i of the box.
class StridedCopy {
 public:
  StridedCopy() = default;
  // `dims` in any order. Targets of different indices must differ.
  StridedCopy(std::vector<StridedDim> dims, int64_t element_bytes);
  // Offsets in elements are the caller's: pass pointers to element (0, .., 0) of the box.
  void Run(const std::byte* source, std::byte* target) const;
  // The part with indices [begin, begin + rows) of the dim that is outermost in the target;
  // `target` points at the first of those rows. RowCount rows of RowElements elements make the box.
  void RunRows(int64_t begin, int64_t rows, const std::byte* source, std::byte* target) const;
  int64_t RowCount() const { return dims_.empty() ? 0 : dims_[outermost_].size; }
  int64_t RowElements() const { return dims_.empty() ? 0 : count_ / dims_[outermost_].size; }

  int64_t element_bytes() const { return element_bytes_; }
  int64_t count() const { return count_; }
  // The box is contiguous in source and target alike: Run is one memcpy.
  bool IsContiguous() const {
    return dims_.size() == 1 && dims_[0].source == 1 && dims_[0].target == 1;
  }

 private:
  void RunOuter(size_t depth, int64_t rows, const std::byte* source, std::byte* target) const;
  void RunInner(int64_t rows, const std::byte* source, std::byte* target) const;
  // Size of dims_[i] where only `rows` of the outermost dim are run.
  int64_t SizeOf(size_t i, int64_t rows) const { return i == outermost_ ? rows : dims_[i].size; }

  std::vector<StridedDim> dims_;  // outermost first; the last one or two are the inner loops
  int64_t element_bytes_ = 1;
  int64_t count_ = 0;
  size_t inner_ = 0;      // number of trailing dims that RunInner takes: 1, or 2
  size_t outermost_ = 0;  // index in dims_ of the dim that is outermost in the target
};

// An array read through strides in row-major order of its own dims: any range of it can be read.
class StridedView {
 public:
  StridedView() = default;
  StridedView(std::span<const int64_t> dims, std::span<const int64_t> strides, int64_t offset,
              int64_t element_bytes);
  // Elements [first, first + count) to `target`. `source` is the base of the viewed array.
  void Read(const std::byte* source, int64_t first, int64_t count, std::byte* target) const;
  // Rows of it lie contiguously in the source.
  bool HasContiguousRows() const { return strides_.back() == 1; }
  bool IsDense() const { return dense_; }  // reads the array as it lies (offset 0)
  int64_t count() const { return count_; }

 private:
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_ = 0;
  int64_t element_bytes_ = 1;
  int64_t count_ = 0;
  bool dense_ = false;
};

// n copies of one element.
void FillElements(std::byte* target, const std::byte* element, int64_t element_bytes, int64_t n);
// target[i] = source[i * stride].
void GatherStrided(std::byte* target, const std::byte* source, int64_t stride,
                   int64_t element_bytes, int64_t n);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ARRAYS_STRIDED_H_
