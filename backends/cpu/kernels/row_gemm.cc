// Products of small float matrices: row_gemm-inl.h has the loops.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

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

#include "backends/cpu/kernels/row_gemm-inl.h"
// Behind what it is built on.
#include "backends/cpu/kernels/packed_gemm-inl.h"

void RunFloat(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<float> a,
              MatrixList<float> b, ResultRows<float> c) {
  if (PrefersPacked<float>(count, m, n, k, c.accumulate)) {
    RunPacked(m, n, k, MatrixView<float>{a.data[0], a.row, a.column},
              MatrixView<float>{b.data[0], b.row, b.column}, c);
    return;
  }
  Run<float>(count, m, n, k, a, b, c);
}

void RunBf16(int64_t m, int64_t n, int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b, float* c,
             int64_t c_row) {
  RunPacked(m, n, k, a, b, ResultRows<float>{c, c_row});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(RunFloat);
HWY_EXPORT(RunBf16);

void RowGemmSum(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<float> a,
                MatrixList<float> b, ResultRows<float> c) {
  HWY_DYNAMIC_DISPATCH(RunFloat)(count, m, n, k, a, b, c);
}
void RowGemm(int64_t m, int64_t n, int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
             int64_t c_row) {
  RowGemmSum(1, m, n, k, {&a.data, a.row, a.column}, {&b.data, b.row, b.column}, {c, c_row});
}
void RowGemm(int64_t m, int64_t n, int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b, float* c,
             int64_t c_row) {
  HWY_DYNAMIC_DISPATCH(RunBf16)(m, n, k, a, b, c, c_row);
}
}  // namespace gshard::cpu
#endif
