// Products of a matrix of adjacent columns and a vector: eight rows at a time (four where a
// register holds no more floats) are transposed in registers, four columns after four, so that each
// row has a lane of its own. Many products of a row and a column each: a lane of its own for each
// of them, too.
#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/row_dots.cc"
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

constexpr int64_t kChunk = 128;  // RowGemm's

// One sum a lane, of `count` pairs of rows that begin at a and b.
template <typename T>
HWY_INLINE void SumPairs(int64_t count, int64_t k, DotRows<T> a, DotRows<T> b, T* y) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> offsets;
  using Offset = hn::TFromD<decltype(offsets)>;
  constexpr size_t kMaxLanes = HWY_MAX_BYTES / sizeof(T);
  HWY_ALIGN Offset left[kMaxLanes] = {}, right[kMaxLanes] = {};
  for (int64_t i = 0; i < count; ++i) {
    left[i] = static_cast<Offset>(i * a.row);
    right[i] = static_cast<Offset>(i * b.row);
  }
  const auto of_a = hn::Load(offsets, left), of_b = hn::Load(offsets, right);
  auto sum = hn::Zero(d);
  for (int64_t begin = 0; begin < k; begin += kChunk) {
    auto chunk = hn::Zero(d);
    for (int64_t p = begin; p < std::min(begin + kChunk, k); ++p) {
      chunk = hn::MulAdd(hn::GatherIndex(d, a.data + p * a.column, of_a),
                         hn::GatherIndex(d, b.data + p * b.column, of_b), chunk);
    }
    sum = begin == 0 ? chunk : hn::Add(sum, chunk);
  }
  HWY_ALIGN T sums[kMaxLanes];
  hn::Store(sum, d, sums);
  std::copy_n(sums, count, y);
}

template <typename T>
void RunPairs(int64_t count, int64_t k, DotRows<T> a, DotRows<T> b, T* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t i = 0; i < count; i += lanes) {
    SumPairs(std::min(lanes, count - i), k, a, b, y + i);
    a.data += lanes * a.row;
    b.data += lanes * b.row;
  }
}
void RunPairsF32(int64_t count, int64_t k, DotRows<float> a, DotRows<float> b, float* y) {
  RunPairs(count, k, a, b, y);
}
void RunPairsF64(int64_t count, int64_t k, DotRows<double> a, DotRows<double> b, double* y) {
  RunPairs(count, k, a, b, y);
}

#if HWY_TARGET == HWY_SCALAR
int64_t RunDots(int64_t, int64_t, const float*, int64_t, const float*, int64_t, float*) {
  return 0;
}
#else
constexpr int64_t kTogether = HWY_MAX_BYTES < 32 ? 4 : 8;
using Rows = hn::FixedTag<float, kTogether>;
using Four = hn::FixedTag<float, 4>;
using Lanes = hn::Vec<Rows>;

// Four columns of row i and, where registers hold eight floats, of row i + 4 behind them.
HWY_INLINE Lanes LoadRows(const float* a, int64_t a_row, int64_t i) {
  const Four four;
#if HWY_MAX_BYTES < 32
  return hn::LoadU(four, a + i * a_row);
#else
  return hn::Combine(Rows(), hn::LoadU(four, a + (i + 4) * a_row), hn::LoadU(four, a + i * a_row));
#endif
}

// The sums of columns [begin, end) of kTogether rows.
HWY_INLINE Lanes SumChunk(const float* a, int64_t a_row, const float* x, int64_t x_row,
                          int64_t begin, int64_t end) {
  const Rows d;
  const hn::RepartitionToWide<Rows> pairs;
  Lanes sum = hn::Zero(d);
  int64_t p = begin;
  for (; p + 4 <= end; p += 4) {
    const Lanes r0 = LoadRows(a + p, a_row, 0), r1 = LoadRows(a + p, a_row, 1),
                r2 = LoadRows(a + p, a_row, 2), r3 = LoadRows(a + p, a_row, 3);
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
    const auto add = [&](int64_t column, auto values) {
      const Lanes factor = hn::Set(d, x[(p + column) * x_row]);
      sum = hn::MulAdd(hn::BitCast(d, values), factor, sum);
    };
    add(0, hn::InterleaveLower(pairs, low01, low23));
    add(1, hn::InterleaveUpper(pairs, low01, low23));
    add(2, hn::InterleaveLower(pairs, high01, high23));
    add(3, hn::InterleaveUpper(pairs, high01, high23));
  }
  for (; p < end; ++p) {
    HWY_ALIGN float column[kTogether];
    for (int64_t i = 0; i < kTogether; ++i) column[i] = a[i * a_row + p];
    sum = hn::MulAdd(hn::Load(d, column), hn::Set(d, x[p * x_row]), sum);
  }
  return sum;
}

int64_t RunDots(int64_t m, int64_t k, const float* a, int64_t a_row, const float* x, int64_t x_row,
                float* y) {
  const Rows d;
  int64_t i = 0;
  for (; i + kTogether <= m; i += kTogether, a += kTogether * a_row) {
    Lanes sum = SumChunk(a, a_row, x, x_row, 0, std::min(kChunk, k));
    for (int64_t p = kChunk; p < k; p += kChunk) {
      sum = hn::Add(sum, SumChunk(a, a_row, x, x_row, p, std::min(p + kChunk, k)));
    }
    hn::StoreU(sum, d, y + i);
  }
  return i;
}
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(RunDots);
HWY_EXPORT(RunPairsF32);
HWY_EXPORT(RunPairsF64);

void RowDots(int64_t m, int64_t k, const float* a, int64_t a_row, const float* x, int64_t x_row,
             float* y) {
  const int64_t done = HWY_DYNAMIC_DISPATCH(RunDots)(m, k, a, a_row, x, x_row, y);
  if (done == m) return;
  RowGemm(m - done, 1, k, MatrixView<float>{a + done * a_row, a_row, 1},
          MatrixView<float>{x, x_row, 1}, y + done, 1);
}

void PairDots(int64_t count, int64_t k, DotRows<float> a, DotRows<float> b, float* y) {
  HWY_DYNAMIC_DISPATCH(RunPairsF32)(count, k, a, b, y);
}
void PairDots(int64_t count, int64_t k, DotRows<double> a, DotRows<double> b, double* y) {
  HWY_DYNAMIC_DISPATCH(RunPairsF64)(count, k, a, b, y);
}
}  // namespace gshard::cpu
#endif
