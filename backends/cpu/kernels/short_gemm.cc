// Products of matrices of 16-bit integers, modulo 2^32: the processor multiplies two pairs and adds
// the products in one instruction, which has twice the rate of floats.
//
// Both operands are packed as pairs of neighbours along k: rows of a, and panels of a few vectors'
// width of b. An odd k ends with a zero.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cpu/kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/short_gemm.cc"
#include "backends/cpu/kernels/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace gshard::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kPairs = 256;     // along k, in a panel: with two vectors' width it stays in L1
constexpr int64_t kStrip = 256;     // columns that are packed at a time
constexpr int64_t kLeftRows = 240;  // the same of rows; both stay in L2
constexpr size_t kVectors = 2;      // of a row of a panel
constexpr size_t kHeight = HWY_TARGET == HWY_AVX3 ? 14 : 6;  // rows of a block of sums

#if HWY_TARGET == HWY_SCALAR
constexpr size_t kLanes = 4;  // the compiler's
#else
constexpr size_t kLanes = HWY_LANES(int32_t);
#endif
constexpr int64_t kPanelWidth = static_cast<int64_t>(kVectors * kLanes);

// Elements p and p + 1 of a row of a, p even, side by side; rows of `pairs`.
template <typename T>
void PackLeft(int64_t rows, int64_t depth, MatrixView<T> a, int64_t pairs, int16_t* to) {
  for (int64_t i = 0; i < rows; ++i, to += 2 * pairs) {
    const T* row = a.data + i * a.row;
    if (a.column == 1) {
      for (int64_t p = 0; p < depth; ++p) to[p] = static_cast<int16_t>(row[p]);
    } else {
      for (int64_t p = 0; p < depth; ++p) to[p] = static_cast<int16_t>(row[p * a.column]);
    }
    if (depth % 2 != 0) to[depth] = 0;
  }
}

// Panels of `full` columns, one after another, each of `pairs` rows of pairs.
template <typename T>
void PackRight(int64_t depth, int64_t columns, MatrixView<T> b, int64_t pairs, int64_t full,
               int16_t* to) {
  for (int64_t begin = 0; begin < columns; begin += full, to += 2 * pairs * full) {
    const int64_t width = std::min(full, columns - begin);
    const T* from = b.data + begin * b.column;
    if (width < full || depth % 2 != 0) std::fill_n(to, 2 * pairs * full, int16_t{0});
    if (b.column == 1) {
      for (int64_t p = 0; p < pairs; ++p) {
        const T* even = from + 2 * p * b.row;
        const T* odd = from + std::min(2 * p + 1, depth - 1) * b.row;  // the last: times 0, if any
        int16_t* out = to + 2 * p * full;
        for (int64_t j = 0; j < width; ++j) {
          out[2 * j] = static_cast<int16_t>(even[j]);
          out[2 * j + 1] = static_cast<int16_t>(odd[j]);
        }
      }
      continue;
    }
    constexpr int64_t kBlock = 32;  // whose lines of the panel stay in L1 while columns pass
    for (int64_t p0 = 0; p0 < depth; p0 += kBlock) {
      const int64_t p1 = std::min(p0 + kBlock, depth);
      for (int64_t j = 0; j < width; ++j) {
        const T* column = from + j * b.column;
        for (int64_t p = p0; p < p1; ++p) {
          to[(p / 2 * full + j) * 2 + p % 2] = static_cast<int16_t>(column[p * b.row]);
        }
      }
    }
  }
}

// sums[i][0 .. kPanelWidth) = sum over pairs of a(i, p) * panel(p, ..), for kR rows.
template <size_t kR>
HWY_INLINE void SumPairs(int64_t pairs, const int16_t* a, const int16_t* panel, int32_t* sums) {
#if HWY_TARGET == HWY_SCALAR
  uint32_t sum[kR][kPanelWidth] = {};
  for (int64_t p = 0; p < pairs; ++p, panel += 2 * kPanelWidth) {
    for (size_t i = 0; i < kR; ++i) {
      const int16_t* pair = a + 2 * (static_cast<int64_t>(i) * pairs + p);
      for (int64_t j = 0; j < kPanelWidth; ++j) {
        sum[i][j] += static_cast<uint32_t>(pair[0] * panel[2 * j]) +
                     static_cast<uint32_t>(pair[1] * panel[2 * j + 1]);
      }
    }
  }
  __builtin_memcpy(sums, sum, sizeof sum);
#else
  const hn::ScalableTag<int32_t> d;
  const hn::Repartition<int16_t, decltype(d)> short_d;
  using V = hn::Vec<decltype(d)>;
  V sum[kR][kVectors], other[kR][kVectors];  // some instruction sets need two
#pragma GCC unroll 24
  for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 24
    for (size_t v = 0; v < kVectors; ++v) sum[i][v] = other[i][v] = hn::Zero(d);
  }
  for (int64_t p = 0; p < pairs; ++p, panel += 2 * kPanelWidth) {
    hn::Vec<decltype(short_d)> row[kVectors];
#pragma GCC unroll 24
    for (size_t v = 0; v < kVectors; ++v) row[v] = hn::LoadU(short_d, panel + 2 * v * kLanes);
#pragma GCC unroll 24
    for (size_t i = 0; i < kR; ++i) {
      int32_t pair;
      __builtin_memcpy(&pair, a + 2 * (static_cast<int64_t>(i) * pairs + p), sizeof pair);
      const auto factor = hn::BitCast(short_d, hn::Set(d, pair));
#pragma GCC unroll 24
      for (size_t v = 0; v < kVectors; ++v) {
        sum[i][v] = hn::ReorderWidenMulAccumulate(d, factor, row[v], sum[i][v], other[i][v]);
      }
    }
  }
#pragma GCC unroll 24
  for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 24
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(hn::RearrangeToOddPlusEven(sum[i][v], other[i][v]), d,
                 sums + (i * kVectors + v) * kLanes);
    }
  }
#endif
}

// c[i][0 .. width) (add: +)= these sums.
template <size_t kR>
HWY_INLINE void Block(int64_t pairs, const int16_t* a, const int16_t* panel, uint32_t* c,
                      int64_t c_row, int64_t width, bool add) {
  int32_t sums[kR * kPanelWidth];
  SumPairs<kR>(pairs, a, panel, sums);
  for (size_t i = 0; i < kR; ++i, c += c_row) {
    const int32_t* row = sums + i * kPanelWidth;
    for (int64_t j = 0; j < width; ++j) {
      c[j] = (add ? c[j] : 0) + static_cast<uint32_t>(row[j]);
    }
  }
}

// A packed panel of b: `pairs` pairs of rows, `width` columns of which are b's.
struct PairPanel {
  const int16_t* data;
  int64_t pairs, width;
};

// `count` blocks of `rows` rows, at most kR.
template <size_t kR>
void Blocks(int64_t count, int64_t rows, const int16_t* a, const PairPanel& panel,
            ResultRows<uint32_t> c) {
  if constexpr (kR > 1) {
    if (rows < static_cast<int64_t>(kR)) {
      return Blocks<kR - 1>(count, rows, a, panel, c);
    }
  }
  for (int64_t n = 0; n < count; ++n) {
    const int64_t i = n * static_cast<int64_t>(kR);
    Block<kR>(panel.pairs, a + 2 * i * panel.pairs, panel.data, c.data + i * c.row, c.row,
              panel.width, c.accumulate);
  }
}

// Rows dealt out evenly to as few blocks as registers allow.
void BlockRows(int64_t m, const int16_t* a, const PairPanel& panel, ResultRows<uint32_t> c) {
  const int64_t count = (m + static_cast<int64_t>(kHeight) - 1) / static_cast<int64_t>(kHeight);
  const int64_t rows = m / count, higher = m % count, i = higher * (rows + 1);
  if (higher > 0) Blocks<kHeight>(higher, rows + 1, a, panel, c);
  Blocks<kHeight>(count - higher, rows, a + 2 * i * panel.pairs, panel,
                  {c.data + i * c.row, c.row, c.accumulate});
}

template <typename T>
void Multiply(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b, uint32_t* c,
              int64_t c_row) {
  const int64_t full = kPanelWidth, most = std::min(kPairs, (k + 1) / 2);
  const int64_t strip = (std::min(kStrip, n) + full - 1) / full * full;
  const auto room = [&](int64_t rows) {
    return std::make_unique_for_overwrite<int16_t[]>(static_cast<size_t>(2 * rows * most));
  };
  const auto left = room(std::min(kLeftRows, m)), right = room(strip);
  for (int64_t p = 0; p < k; p += 2 * kPairs) {
    const int64_t depth = std::min(2 * kPairs, k - p), pairs = (depth + 1) / 2;
    for (int64_t j0 = 0; j0 < n; j0 += strip) {
      const int64_t columns = std::min(strip, n - j0);
      const MatrixView<T> block{b.data + p * b.row + j0 * b.column, b.row, b.column};
      PackRight(depth, columns, block, pairs, full, right.get());
      for (int64_t i = 0; i < m; i += kLeftRows) {
        const int64_t rows = std::min(kLeftRows, m - i);
        PackLeft(rows, depth, MatrixView<T>{a.data + i * a.row + p * a.column, a.row, a.column},
                 pairs, left.get());
        for (int64_t j = 0; j < columns; j += full) {
          BlockRows(rows, left.get(),
                    {right.get() + 2 * j * pairs, pairs, std::min(full, columns - j)},
                    {c + i * c_row + j0 + j, c_row, p > 0});
        }
      }
    }
  }
}

void MultiplyShort(int64_t m, int64_t n, int64_t k, MatrixView<int16_t> a, MatrixView<int16_t> b,
                   uint32_t* c, int64_t c_row) {
  Multiply(m, n, k, a, b, c, c_row);
}
void MultiplyWide(int64_t m, int64_t n, int64_t k, MatrixView<uint32_t> a, MatrixView<uint32_t> b,
                  uint32_t* c, int64_t c_row) {
  Multiply(m, n, k, a, b, c, c_row);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(MultiplyShort);
HWY_EXPORT(MultiplyWide);

void ShortGemm(int64_t m, int64_t n, int64_t k, MatrixView<int16_t> a, MatrixView<int16_t> b,
               uint32_t* c, int64_t c_row) {
  HWY_DYNAMIC_DISPATCH(MultiplyShort)(m, n, k, a, b, c, c_row);
}
void ShortGemm(int64_t m, int64_t n, int64_t k, MatrixView<uint32_t> a, MatrixView<uint32_t> b,
               uint32_t* c, int64_t c_row) {
  HWY_DYNAMIC_DISPATCH(MultiplyWide)(m, n, k, a, b, c, c_row);
}
}  // namespace gshard::cpu
#endif
