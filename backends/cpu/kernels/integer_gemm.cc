// Products of integer matrices, wrapping. Factors that fit 16 bits go to ShortGemm where sums have
// 32. Where the products of others are exact as floats, and sums of a chunk of them, those are done
// by RowGemm, chunk by chunk.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/gemm.h"

namespace gshard::cpu {
namespace {

template <typename T, typename Sum>
void ScalarGemm(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b, Sum* c,
                int64_t c_row) {
  for (int64_t i = 0; i < m; ++i) {
    Sum* out = c + i * c_row;
    std::fill_n(out, n, Sum{0});
    if (b.column == 1) {
      for (int64_t p = 0; p < k; ++p) {
        const auto factor = static_cast<Sum>(a.data[i * a.row + p * a.column]);
        const T* row = b.data + p * b.row;
        for (int64_t j = 0; j < n; ++j) out[j] += factor * static_cast<Sum>(row[j]);
      }
      continue;
    }
    for (int64_t j = 0; j < n; ++j) {
      const T* column = b.data + j * b.column;
      const T* row = a.data + i * a.row;
      Sum sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += static_cast<Sum>(row[p * a.column]) * static_cast<Sum>(column[p * b.row]);
      }
      out[j] = sum;
    }
  }
}

// The least and the largest value, taken as signed; they lie around zero.
struct ValueRange {
  int64_t low = 0, high = 0;

  bool FitsShort() const { return low >= INT16_MIN && high <= INT16_MAX; }
  double Magnitude() const {
    return std::max(-static_cast<double>(low), static_cast<double>(high));
  }
};
template <typename T>
ValueRange RangeOf(int64_t rows, int64_t columns, MatrixView<T> x) {
  // Along adjacent elements.
  if (x.row == 1) {
    std::swap(rows, columns);
    std::swap(x.row, x.column);
  }
  using Signed = std::make_signed_t<T>;
  Signed low = 0, high = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const T* row = x.data + i * x.row;
    for (int64_t j = 0; j < columns; ++j) {
      const auto value = static_cast<Signed>(row[j * x.column]);
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  return {low, high};
}

// Dense rows of `columns` elements.
template <typename T, typename F>
void ToFloats(int64_t rows, int64_t columns, MatrixView<T> x, F* to) {
  using Signed = std::make_signed_t<T>;
  for (int64_t i = 0; i < rows; ++i, to += columns) {
    const T* row = x.data + i * x.row;
    for (int64_t j = 0; j < columns; ++j) {
      to[j] = static_cast<F>(static_cast<Signed>(row[j * x.column]));
    }
  }
}

constexpr int64_t kRows = 240, kColumns = 512, kDepth = 256;  // of blocks that stay in L2

// `F` holds every sum of kDepth products exactly.
template <typename F, typename T>
void FloatGemm(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
               int64_t c_row) {
  using Sum = std::conditional_t<std::is_same_v<F, float>, int32_t, int64_t>;
  const auto left = std::make_unique_for_overwrite<F[]>(kRows * kDepth);
  const auto right = std::make_unique_for_overwrite<F[]>(kDepth * kColumns);
  const auto sums = std::make_unique_for_overwrite<F[]>(kRows * kColumns);
  for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * c_row, n, T{0});
  for (int64_t p = 0; p < k; p += kDepth) {
    const int64_t depth = std::min(kDepth, k - p);
    for (int64_t j = 0; j < n; j += kColumns) {
      const int64_t columns = std::min(kColumns, n - j);
      const MatrixView<T> block{b.data + p * b.row + j * b.column, b.row, b.column};
      ToFloats(depth, columns, block, right.get());
      for (int64_t i = 0; i < m; i += kRows) {
        const int64_t rows = std::min(kRows, m - i);
        const MatrixView<T> strip{a.data + i * a.row + p * a.column, a.row, a.column};
        ToFloats(rows, depth, strip, left.get());
        RowGemm(rows, columns, depth, MatrixView<F>{left.get(), depth, 1},
                MatrixView<F>{right.get(), columns, 1}, sums.get(), columns);
        for (int64_t r = 0; r < rows; ++r) {
          T* out = c + (i + r) * c_row + j;
          const F* sum = sums.get() + r * columns;
          for (int64_t s = 0; s < columns; ++s) out[s] += static_cast<T>(static_cast<Sum>(sum[s]));
        }
      }
    }
  }
}

// Packing, or looking at all values, pays.
bool IsLarge(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kWorthPacking = 1 << 14;
  return m > 1 && n > 1 && m * n * k >= kWorthPacking;
}

template <typename T>
void Multiply(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
              int64_t c_row) {
  constexpr double kExactFloat = 0x1p24, kExactDouble = 0x1p53;
  if (IsLarge(m, n, k)) {
    const ValueRange left = RangeOf(m, k, a), right = RangeOf(k, n, b);
    if constexpr (std::is_same_v<T, uint32_t>) {
      if (left.FitsShort() && right.FitsShort()) return ShortGemm(m, n, k, a, b, c, c_row);
    }
    const double most =
        left.Magnitude() * right.Magnitude() * static_cast<double>(std::min(k, kDepth));
    if (most <= kExactFloat) return FloatGemm<float>(m, n, k, a, b, c, c_row);
    if (most <= kExactDouble) return FloatGemm<double>(m, n, k, a, b, c, c_row);
  }
  ScalarGemm(m, n, k, a, b, c, c_row);
}

}  // namespace

void IntegerGemm(int64_t m, int64_t n, int64_t k, MatrixView<uint32_t> a, MatrixView<uint32_t> b,
                 uint32_t* c, int64_t c_row) {
  Multiply(m, n, k, a, b, c, c_row);
}
void IntegerGemm(int64_t m, int64_t n, int64_t k, MatrixView<int16_t> a, MatrixView<int16_t> b,
                 uint32_t* c, int64_t c_row) {
  if (IsLarge(m, n, k)) return ShortGemm(m, n, k, a, b, c, c_row);
  ScalarGemm(m, n, k, a, b, c, c_row);
}
void IntegerGemm(int64_t m, int64_t n, int64_t k, MatrixView<uint64_t> a, MatrixView<uint64_t> b,
                 uint64_t* c, int64_t c_row) {
  Multiply(m, n, k, a, b, c, c_row);
}

}  // namespace gshard::cpu
