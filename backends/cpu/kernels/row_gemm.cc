// Register-blocked matrix product for small and stacked matrices.
//
// b is read in panels of a few vectors' width and 256 rows: in place when few rows of a use it,
// else packed on the stack. Every element is one chain of fused multiply-adds a chunk, whatever
// block it falls in, so its bits depend on its row and column only.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/row_gemm.cc"
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

constexpr int64_t kChunk = 256;     // rows of b in a panel
constexpr int64_t kRows = 6;        // rows of a block of c
constexpr int64_t kRowBlock = 480;  // rows of a whose chunk stays in L2 while panels pass

// A panel of b: element (p, j) at data[p * row + j].
template <typename T>
struct Panel {
  const T* data;
  int64_t row;
};

// Rows of left-hand sides whose columns, `chunk` of each, follow one another.
template <typename T>
struct Rows {
  const T* const* data;
  int64_t count, offset;
  int64_t row, column;
  int64_t chunk;

  Rows From(int64_t i) const { return {data, count, offset + i * row, row, column, chunk}; }
};

// c[i][0 .. width) (+)= sum over p of a(i, p) * panel(p, ..), for kR rows and kV vectors.
template <typename T, size_t kR, size_t kV>
void Block(const Rows<T>& a, Panel<T> panel, T* c, int64_t c_row, int64_t width, bool accumulate) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  V sum[kR][kV];
#pragma GCC unroll 12
  for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 12
    for (size_t v = 0; v < kV; ++v) sum[i][v] = hn::Zero(d);
  }
  const T* b = panel.data;
  const int64_t chunk = a.chunk, a_row = a.row, a_column = a.column, b_row = panel.row;
  for (int64_t s = 0; s < a.count; ++s) {
    const T* x = a.data[s] + a.offset;
    for (int64_t p = 0; p < chunk; ++p) {
      V row[kV];
#pragma GCC unroll 12
      for (size_t v = 0; v < kV; ++v) row[v] = hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 12
      for (size_t i = 0; i < kR; ++i) {
        const V factor = hn::Set(d, x[static_cast<int64_t>(i) * a_row]);
#pragma GCC unroll 12
        for (size_t v = 0; v < kV; ++v) sum[i][v] = hn::MulAdd(factor, row[v], sum[i][v]);
      }
      b += b_row;
      x += a_column;
    }
  }
  if (width == static_cast<int64_t>(kV * lanes)) {
#pragma GCC unroll 12
    for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 12
      for (size_t v = 0; v < kV; ++v) {
        T* out = c + static_cast<int64_t>(i) * c_row + v * lanes;
        hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, out), sum[i][v]) : sum[i][v], d, out);
      }
    }
    return;
  }
  HWY_ALIGN T buffer[kV * HWY_MAX_BYTES / sizeof(T)];
#pragma GCC unroll 12
  for (size_t i = 0; i < kR; ++i) {
#pragma GCC unroll 12
    for (size_t v = 0; v < kV; ++v) hn::Store(sum[i][v], d, buffer + v * lanes);
    T* out = c + static_cast<int64_t>(i) * c_row;
    for (int64_t j = 0; j < width; ++j) out[j] = accumulate ? out[j] + buffer[j] : buffer[j];
  }
}

template <typename T, size_t kV>
void BlockRows(int64_t m, const Rows<T>& a, Panel<T> panel, T* c, int64_t c_row, int64_t width,
               bool accumulate) {
  int64_t i = 0;
  if constexpr (kV == 1) {
    // More sums at once, against the latency of additions.
    for (; i + 2 * kRows <= m; i += 2 * kRows) {
      Block<T, 2 * kRows, kV>(a.From(i), panel, c + i * c_row, c_row, width, accumulate);
    }
  }
  for (; i + kRows <= m; i += kRows) {
    Block<T, kRows, kV>(a.From(i), panel, c + i * c_row, c_row, width, accumulate);
  }
  const Rows<T> rest = a.From(i);
  T* out = c + i * c_row;
  switch (m - i) {
    case 5:
      Block<T, 5, kV>(rest, panel, out, c_row, width, accumulate);
      break;
    case 4:
      Block<T, 4, kV>(rest, panel, out, c_row, width, accumulate);
      break;
    case 3:
      Block<T, 3, kV>(rest, panel, out, c_row, width, accumulate);
      break;
    case 2:
      Block<T, 2, kV>(rest, panel, out, c_row, width, accumulate);
      break;
    case 1:
      Block<T, 1, kV>(rest, panel, out, c_row, width, accumulate);
      break;
    default:
      break;
  }
}

// Columns [0, width) of b's rows to a dense panel, padded with zeros to `full` columns.
template <typename T>
void Pack(int64_t chunk, MatrixView<T> b, int64_t width, int64_t full, T* panel) {
  if (b.column == 1) {
    for (int64_t p = 0; p < chunk; ++p) {
      std::memcpy(panel + p * full, b.data + p * b.row, static_cast<size_t>(width) * sizeof(T));
      for (int64_t j = width; j < full; ++j) panel[p * full + j] = T{0};
    }
    return;
  }
  for (int64_t p0 = 0; p0 < chunk; p0 += 16) {
    const int64_t p1 = std::min(p0 + 16, chunk);
    for (int64_t j = 0; j < width; ++j) {
      for (int64_t p = p0; p < p1; ++p) panel[p * full + j] = b.data[p * b.row + j * b.column];
    }
    for (int64_t p = p0; p < p1; ++p) {
      for (int64_t j = width; j < full; ++j) panel[p * full + j] = T{0};
    }
  }
}

// One chunk of k for the columns from `begin` on, in panels of kV vectors as long as `n` columns
// fill them (or, with kTail, for whatever is left). `b` has as many matrices as `a`; its first row
// is at `b_offset`. Returns the first column not done.
template <typename T, size_t kV, bool kTail>
int64_t Panels(int64_t m, int64_t n, const Rows<T>& a, MatrixList<T> b, int64_t b_offset, T* c,
               int64_t c_row, int64_t begin, bool accumulate, T* packed) {
  const hn::ScalableTag<T> d;
  const int64_t full = static_cast<int64_t>(kV * hn::Lanes(d));
  // In place where packing would be for few rows, or would change nothing.
  bool in_place = b.column == 1 && (a.count == 1 ? m <= 2 * kRows || b.row == full : b.row == full);
  for (int64_t s = 1; s < a.count && in_place; ++s) {
    in_place = b.data[s] == b.data[s - 1] + a.chunk * full;
  }
  int64_t j = begin;
  for (; kTail ? j < n : j + full <= n; j += full) {
    const int64_t width = std::min(full, n - j);
    const int64_t offset = b_offset + j * b.column;
    Panel<T> panel{packed, full};
    if (in_place && width == full) {
      panel = {b.data[0] + offset, b.row};
    } else {
      for (int64_t s = 0; s < a.count; ++s) {
        const MatrixView<T> part{b.data[s] + offset, b.row, b.column};
        Pack(a.chunk, part, width, full, packed + s * a.chunk * full);
      }
    }
    BlockRows<T, kV>(m, a, panel, c + j, c_row, width, accumulate);
  }
  return std::min(j, n);
}

template <typename T>
void Run(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<T> a, MatrixList<T> b, T* c,
         int64_t c_row, bool accumulate) {
  if (k == 0 || count == 0) {
    for (int64_t i = 0; !accumulate && i < m; ++i) std::fill_n(c + i * c_row, n, T{0});
    return;
  }
  HWY_ALIGN T packed[static_cast<size_t>(kChunk) * 2 * HWY_MAX_BYTES / sizeof(T)];
  const int64_t together = std::max<int64_t>(kChunk / k, 1);  // matrices in a chunk
  for (int64_t i = 0; i < m; i += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, m - i);
    T* out = c + i * c_row;
    bool add = accumulate;
    for (int64_t s = 0; s < count; s += together) {
      for (int64_t p = 0; p < k; p += kChunk) {
        const Rows<T> a_part{
            a.data + s, std::min(together, count - s), i * a.row + p * a.column, a.row,
            a.column,   std::min(kChunk, k - p)};
        const MatrixList<T> b_part{b.data + s, b.row, b.column};
        const int64_t b_offset = p * b.row;
        int64_t j = 0;
        // Few rows wait on the latency of their sums: more columns at once, read in place.
        if (rows <= 3 && b.column == 1 && a_part.count == 1) {
          j = Panels<T, 4, false>(rows, n, a_part, b_part, b_offset, out, c_row, j, add, packed);
        }
        j = Panels<T, 2, false>(rows, n, a_part, b_part, b_offset, out, c_row, j, add, packed);
        j = Panels<T, 1, true>(rows, n, a_part, b_part, b_offset, out, c_row, j, add, packed);
        add = true;
      }
    }
  }
}

void RunFloat(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<float> a,
              MatrixList<float> b, float* c, int64_t c_row, bool accumulate) {
  Run<float>(count, m, n, k, a, b, c, c_row, accumulate);
}
void RunDouble(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<double> a,
               MatrixList<double> b, double* c, int64_t c_row, bool accumulate) {
  Run<double>(count, m, n, k, a, b, c, c_row, accumulate);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(RunFloat);
HWY_EXPORT(RunDouble);

void RowGemmSum(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<float> a,
                MatrixList<float> b, float* c, int64_t c_row, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(RunFloat)(count, m, n, k, a, b, c, c_row, accumulate);
}
void RowGemmSum(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<double> a,
                MatrixList<double> b, double* c, int64_t c_row, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(RunDouble)(count, m, n, k, a, b, c, c_row, accumulate);
}
void RowGemm(int64_t m, int64_t n, int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
             int64_t c_row) {
  RowGemmSum(1, m, n, k, {&a.data, a.row, a.column}, {&b.data, b.row, b.column}, c, c_row, false);
}
void RowGemm(int64_t m, int64_t n, int64_t k, MatrixView<double> a, MatrixView<double> b, double* c,
             int64_t c_row) {
  RowGemmSum(1, m, n, k, {&a.data, a.row, a.column}, {&b.data, b.row, b.column}, c, c_row, false);
}
}  // namespace gshard::cpu
#endif
