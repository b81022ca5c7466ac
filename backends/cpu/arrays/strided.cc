// Strided copies: rows by memcpy or strided loops, transpositions in cache-sized blocks.
#include "backends/cpu/arrays/strided.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "ir/diagnostic.h"

namespace gshard::cpu {
namespace {

struct Element16 {
  uint64_t low, high;
};

// Calls f with a value of the unsigned type of that size.
template <typename F>
void WithElementType(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      f(uint8_t{});
      return;
    case 2:
      f(uint16_t{});
      return;
    case 4:
      f(uint32_t{});
      return;
    case 8:
      f(uint64_t{});
      return;
    case 16:
      f(Element16{});
      return;
    default:
      throw InternalError("element size of a strided copy");
  }
}

template <typename T>
void CopyRow(const T* source, int64_t source_stride, T* target, int64_t target_stride, int64_t n) {
  if (target_stride == 1) {
    if (source_stride == 1) {
      std::memcpy(target, source, static_cast<size_t>(n) * sizeof(T));
    } else if (source_stride == 0) {
      std::fill_n(target, n, *source);
    } else {
      for (int64_t i = 0; i < n; ++i) target[i] = source[i * source_stride];
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) target[i * target_stride] = source[i * source_stride];
}

// `rows` dense rows of kRow elements, from rows that are dense (kStep 1) or one element (kStep 0).
template <typename T, int64_t kRow, int64_t kStep>
void CopyShortRows(const T* source, int64_t source_row, T* target, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i, source += source_row, target += kRow) {
    for (int64_t j = 0; j < kRow; ++j) target[j] = source[j * kStep];
  }
}

// The same for lengths that are worth a loop of their own: nothing is called for each row. False:
// not one of them.
template <typename T, int64_t kStep>
bool CopyShortRows(int64_t row, const T* source, int64_t source_row, T* target, int64_t rows) {
  switch (row) {
    case 2:
      CopyShortRows<T, 2, kStep>(source, source_row, target, rows);
      return true;
    case 3:
      CopyShortRows<T, 3, kStep>(source, source_row, target, rows);
      return true;
    case 4:
      CopyShortRows<T, 4, kStep>(source, source_row, target, rows);
      return true;
    case 8:
      CopyShortRows<T, 8, kStep>(source, source_row, target, rows);
      return true;
    case 16:
      CopyShortRows<T, 16, kStep>(source, source_row, target, rows);
      return true;
    default:
      return false;
  }
}

// One row again and again: each copy doubles what is there.
template <typename T>
void RepeatRow(const T* source, int64_t row, T* target, int64_t rows) {
  std::memcpy(target, source, static_cast<size_t>(row) * sizeof(T));
  for (int64_t done = row; done < row * rows;) {
    const int64_t n = std::min(done, row * rows - done);
    std::memcpy(target + done, target, static_cast<size_t>(n) * sizeof(T));
    done += n;
  }
}

// `rows` rows of a view, of `row` elements at distance `step` each; target dense.
template <typename T>
void CopyRows(const T* source, int64_t source_row, int64_t row, int64_t step, T* target,
              int64_t rows) {
  if (source_row == 0 && step == 1) return RepeatRow(source, row, target, rows);
  if (step == 0 && CopyShortRows<T, 0>(row, source, source_row, target, rows)) return;
  if (step == 1 && CopyShortRows<T, 1>(row, source, source_row, target, rows)) return;
  for (int64_t i = 0; i < rows; ++i) {
    CopyRow(source + i * source_row, step, target + i * row, int64_t{1}, row);
  }
}

// target[i * target_i + j] = source[i + j * source_j] of four by four elements, in registers.
void TransposeQuad(const uint32_t* source, int64_t source_j, uint32_t* target, int64_t target_i) {
  using Quad = uint32_t __attribute__((vector_size(16)));
  std::array<Quad, 4> s;
  for (size_t j = 0; j < 4; ++j) {
    std::memcpy(&s[j], source + static_cast<int64_t>(j) * source_j, sizeof(Quad));
  }
  const Quad low01 = __builtin_shufflevector(s[0], s[1], 0, 4, 1, 5);
  const Quad low23 = __builtin_shufflevector(s[2], s[3], 0, 4, 1, 5);
  const Quad high01 = __builtin_shufflevector(s[0], s[1], 2, 6, 3, 7);
  const Quad high23 = __builtin_shufflevector(s[2], s[3], 2, 6, 3, 7);
  const std::array<Quad, 4> t = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                                 __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                                 __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                                 __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (size_t i = 0; i < 4; ++i) {
    std::memcpy(target + static_cast<int64_t>(i) * target_i, &t[i], sizeof(Quad));
  }
}

// The same of `side` by `side` elements.
template <int64_t side, typename T>
void TransposeBlock(const T* source, int64_t source_j, T* target, int64_t target_i) {
  if constexpr (sizeof(T) == sizeof(uint32_t)) {
    static_assert(std::is_same_v<T, uint32_t> && side % 4 == 0);
    for (int64_t i = 0; i < side; i += 4) {
      for (int64_t j = 0; j < side; j += 4) {
        TransposeQuad(source + i + j * source_j, source_j, target + i * target_i + j, target_i);
      }
    }
    return;
  }
  std::array<T, static_cast<size_t>(side * side)> block;
  for (int64_t j = 0; j < side; ++j) {
    std::memcpy(block.data() + j * side, source + j * source_j, side * sizeof(T));
  }
  for (int64_t i = 0; i < side; ++i) {
    for (int64_t j = 0; j < side; ++j) {
      target[i * target_i + j] = block[static_cast<size_t>(j * side + i)];
    }
  }
}

// The same of any number: i contiguous in the source, j in the target.
template <typename T>
void TransposeBlocks(const T* source, int64_t source_j, T* target, int64_t target_i, int64_t n_i,
                     int64_t n_j) {
  // A block of lines of both sides stays in L1 whatever the strides are.
  constexpr int64_t kSide = 64 / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kBlock = kSide < 8 ? 8 : kSide;
  int64_t j0 = 0;
  for (; j0 + kBlock <= n_j; j0 += kBlock) {
    int64_t i0 = 0;
    for (; i0 + kBlock <= n_i; i0 += kBlock) {
      TransposeBlock<kBlock>(source + i0 + j0 * source_j, source_j, target + i0 * target_i + j0,
                             target_i);
    }
    for (; i0 < n_i; ++i0) {
      for (int64_t j = j0; j < j0 + kBlock; ++j)
        target[i0 * target_i + j] = source[i0 + j * source_j];
    }
  }
  for (int64_t i = 0; i < n_i; ++i) {
    for (int64_t j = j0; j < n_j; ++j) target[i * target_i + j] = source[i + j * source_j];
  }
}

}  // namespace

std::vector<int64_t> RowMajorStrides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

int64_t Product(std::span<const int64_t> values) {
  int64_t product = 1;
  for (int64_t value : values) product *= value;
  return product;
}

StridedCopy::StridedCopy(std::vector<StridedDim> dims, int64_t element_bytes)
    : element_bytes_(element_bytes), count_(1) {
  for (const StridedDim& dim : dims) {
    count_ *= dim.size;
    if (dim.size != 1) dims_.push_back(dim);
  }
  if (count_ == 0) {
    dims_.clear();
    return;
  }
  // Target order, outermost first; then merge neighbours that are contiguous on both sides.
  std::stable_sort(dims_.begin(), dims_.end(), [](const StridedDim& a, const StridedDim& b) {
    return std::abs(a.target) > std::abs(b.target);
  });
  std::vector<StridedDim> merged;
  for (const StridedDim& dim : dims_) {
    if (!merged.empty()) {
      StridedDim& outer = merged.back();
      if (outer.source == dim.source * dim.size && outer.target == dim.target * dim.size) {
        outer = {outer.size * dim.size, dim.source, dim.target};
        continue;
      }
    }
    merged.push_back(dim);
  }
  dims_ = std::move(merged);
  if (dims_.empty()) dims_.push_back({1, 1, 1});
  // The dim that is contiguous in the source goes next to the innermost one: a blocked transpose.
  inner_ = 1;
  const size_t last = dims_.size() - 1;
  if (dims_.size() >= 2) {
    inner_ = 2;
    if (std::abs(dims_[last].source) != 1 && dims_[last].source != 0) {
      for (size_t i = 0; i < last; ++i) {
        if (dims_[i].source == 1) {
          std::rotate(dims_.begin() + static_cast<std::ptrdiff_t>(i),
                      dims_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                      dims_.begin() + static_cast<std::ptrdiff_t>(last));
          if (i == 0) outermost_ = last - 1;
          break;
        }
      }
    }
  }
}

void StridedCopy::RunInner(int64_t rows, const std::byte* source, std::byte* target) const {
  const size_t last = dims_.size() - 1;
  const StridedDim& row = dims_[last];
  const int64_t row_size = SizeOf(last, rows);
  WithElementType(element_bytes_, [&](auto tag) {
    using T = decltype(tag);
    const T* s = reinterpret_cast<const T*>(source);
    T* t = reinterpret_cast<T*>(target);
    if (inner_ == 1) {
      CopyRow(s, row.source, t, row.target, row_size);
      return;
    }
    const StridedDim& column = dims_[last - 1];
    const int64_t column_size = SizeOf(last - 1, rows);
    if (column.source == 1 && row.target == 1 && row.source != 0) {
      TransposeBlocks(s, row.source, t, column.target, column_size, row_size);
      return;
    }
    if (row.target == 1 && column.target == row_size) {
      CopyRows(s, column.source, row_size, row.source, t, column_size);
      return;
    }
    for (int64_t i = 0; i < column_size; ++i) {
      CopyRow(s + i * column.source, row.source, t + i * column.target, row.target, row_size);
    }
  });
}

void StridedCopy::RunOuter(size_t depth, int64_t rows, const std::byte* source,
                           std::byte* target) const {
  if (depth + inner_ == dims_.size()) {
    RunInner(rows, source, target);
    return;
  }
  const StridedDim& dim = dims_[depth];
  const int64_t size = SizeOf(depth, rows);
  for (int64_t i = 0; i < size; ++i) {
    RunOuter(depth + 1, rows, source + i * dim.source * element_bytes_,
             target + i * dim.target * element_bytes_);
  }
}

void StridedCopy::Run(const std::byte* source, std::byte* target) const {
  if (count_ > 0) RunOuter(0, dims_[outermost_].size, source, target);
}

void StridedCopy::RunRows(int64_t begin, int64_t rows, const std::byte* source,
                          std::byte* target) const {
  if (count_ == 0 || rows == 0) return;
  RunOuter(0, rows, source + begin * dims_[outermost_].source * element_bytes_, target);
}

StridedView::StridedView(std::span<const int64_t> dims, std::span<const int64_t> strides,
                         int64_t offset, int64_t element_bytes)
    : offset_(offset), element_bytes_(element_bytes), count_(Product(dims)) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (!sizes_.empty() && strides_.back() == strides[i] * dims[i]) {
      sizes_.back() *= dims[i];
      strides_.back() = strides[i];
      continue;
    }
    sizes_.push_back(dims[i]);
    strides_.push_back(strides[i]);
  }
  if (sizes_.empty()) {
    sizes_.push_back(1);
    strides_.push_back(1);
  }
  dense_ = offset == 0 && sizes_.size() == 1 && strides_[0] == 1;
}

void StridedView::Read(const std::byte* source, int64_t first, int64_t count,
                       std::byte* target) const {
  if (count <= 0) return;
  constexpr size_t kMaxRank = 64;
  std::array<int64_t, kMaxRank> index;
  const size_t rank = sizes_.size();
  CheckInternal(rank <= kMaxRank, "rank of a strided view");
  int64_t position = offset_;
  int64_t rest = first;
  for (size_t i = rank; i-- > 0;) {
    index[i] = rest % sizes_[i];
    rest /= sizes_[i];
    position += index[i] * strides_[i];
  }
  const size_t last = rank - 1;
  const int64_t row = sizes_[last], step = strides_[last];
  WithElementType(element_bytes_, [&](auto tag) {
    using T = decltype(tag);
    const T* s = reinterpret_cast<const T*>(source);
    T* t = reinterpret_cast<T*>(target);
    // What is left of a row that was begun; then as many rows as follow one another in the next
    // dim, again and again; then a part of a row.
    int64_t left = count;
    while (left > 0) {
      const int64_t at = index[last];
      int64_t rows = 1;
      if (at > 0 || left < row || rank == 1) {
        const int64_t n = std::min(left, row - at);
        CopyRow(s + position, step, t, int64_t{1}, n);
        t += n;
        left -= n;
        position -= at * step;
        index[last] = 0;
      } else {
        rows = std::min(left / row, sizes_[last - 1] - index[last - 1]);
        CopyRows(s + position, strides_[last - 1], row, step, t, rows);
        t += rows * row;
        left -= rows * row;
      }
      // Over `rows` rows, which end within the next dim or with it.
      for (size_t i = last; i-- > 0; rows = 1) {
        position += rows * strides_[i];
        index[i] += rows;
        if (index[i] < sizes_[i]) break;
        position -= sizes_[i] * strides_[i];
        index[i] = 0;
      }
    }
  });
}

void FillElements(std::byte* target, const std::byte* element, int64_t element_bytes, int64_t n) {
  WithElementType(element_bytes, [&](auto tag) {
    using T = decltype(tag);
    T value;
    std::memcpy(&value, element, sizeof(T));
    std::fill_n(reinterpret_cast<T*>(target), n, value);
  });
}

void GatherStrided(std::byte* target, const std::byte* source, int64_t stride,
                   int64_t element_bytes, int64_t n) {
  WithElementType(element_bytes, [&](auto tag) {
    using T = decltype(tag);
    CopyRow(reinterpret_cast<const T*>(source), stride, reinterpret_cast<T*>(target), int64_t{1},
            n);
  });
}

}  // namespace gshard::cpu
