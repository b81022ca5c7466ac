// Products of small double matrices: row_gemm-inl.h has the loops.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "backends/cpu/kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/row_gemm_f64.cc"
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

void RunDouble(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<double> a,
               MatrixList<double> b, ResultRows<double> c) {
  if (PrefersPacked<double>(count, m, n, k, c.accumulate)) {
    RunPacked(m, n, k, MatrixView<double>{a.data[0], a.row, a.column},
              MatrixView<double>{b.data[0], b.row, b.column}, c);
    return;
  }
  Run<double>(count, m, n, k, a, b, c);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(RunDouble);

void RowGemmSum(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<double> a,
                MatrixList<double> b, ResultRows<double> c) {
  HWY_DYNAMIC_DISPATCH(RunDouble)(count, m, n, k, a, b, c);
}
void RowGemm(int64_t m, int64_t n, int64_t k, MatrixView<double> a, MatrixView<double> b, double* c,
             int64_t c_row) {
  RowGemmSum(1, m, n, k, {&a.data, a.row, a.column}, {&b.data, b.row, b.column}, {c, c_row});
}
}  // namespace gshard::cpu
#endif
