// Calls into OpenBLAS.
#include "backends/cpu/kernels/gemm.h"

#include <cblas.h>
#include <hwy/targets.h>

#include <algorithm>

// Of the variants of OpenBLAS that have threads.
extern "C" int blas_thread_shutdown_() __attribute__((weak));

namespace gshard::cpu {
namespace {

struct BlasOperand {
  CBLAS_TRANSPOSE transpose;
  blasint leading;
};

// A row-major operand with adjacent columns, or with adjacent rows (transposed).
BlasOperand Describe(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  const bool plain = columns == 1 || column == 1;
  if (plain && (rows == 1 || row >= columns)) {
    // A single column that is not dense is a matrix of which only column 0 is used.
    return {CblasNoTrans, static_cast<blasint>(rows == 1 ? std::max<int64_t>(columns, 1) : row)};
  }
  return {CblasTrans, static_cast<blasint>(columns == 1 ? std::max<int64_t>(rows, 1) : column)};
}

}  // namespace

void LimitBlasThreads() {
  static const bool limited = [] {
    openblas_set_num_threads(1);
    // It started a thread per core when it was loaded: they poll for a tenth of a second before
    // they sleep, on the cores that run the plan.
    if (blas_thread_shutdown_ != nullptr) blas_thread_shutdown_();
    return true;
  }();
  (void)limited;
}

bool IsBlasOperand(int64_t rows, int64_t columns, int64_t row, int64_t column) {
  if (rows == 1 && (columns == 1 || column >= 1)) return true;
  if (columns == 1) return row >= 1;
  return (column == 1 && row >= columns) || (row == 1 && column >= rows);
}

namespace {
// Blocks of RowGemm that fill 32 registers are as fast as OpenBLAS on what is packed.
bool HasManyRegisters() { return (hwy::SupportedTargets() & HWY_AVX3) != 0; }
constexpr int64_t kInCache = 1 << 23;
}  // namespace

bool PrefersRowGemm(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kFewRows = 64, kHardlyAny = 6;
  return m * n * k <= kInCache || m < (HasManyRegisters() ? kFewRows : kHardlyAny);
}

bool PrefersPackedBf16(int64_t m, int64_t n, int64_t k) {
  // Of larger ones OpenBLAS's blocks are worth the copies.
  constexpr int64_t kRows = 6, kColumns = 128, kLarge = int64_t{1} << 31;
  const int64_t work = m * n * k;
  return m >= kRows && n >= kColumns && work > kInCache && work <= kLarge && HasManyRegisters();
}

// Fortran integers are 32 bits here; larger dims are cut by the callers' row blocks.
#define GSHARD_BLAS_GEMM(T, function, factor)                                                  \
  void BlasGemm(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b,             \
                ResultRows<T> c) {                                                             \
    const BlasOperand da = Describe(m, k, a.row, a.column);                                    \
    const BlasOperand db = Describe(k, n, b.row, b.column);                                    \
    const T one(1), kept = c.accumulate ? one : T(0);                                          \
    function(CblasRowMajor, da.transpose, db.transpose, static_cast<blasint>(m),               \
             static_cast<blasint>(n), static_cast<blasint>(k), factor one, a.data, da.leading, \
             b.data, db.leading, factor kept, c.data, static_cast<blasint>(c.row));            \
  }
GSHARD_BLAS_GEMM(float, cblas_sgemm, )
GSHARD_BLAS_GEMM(double, cblas_dgemm, )
GSHARD_BLAS_GEMM(std::complex<float>, cblas_cgemm, &)
GSHARD_BLAS_GEMM(std::complex<double>, cblas_zgemm, &)
#undef GSHARD_BLAS_GEMM

}  // namespace gshard::cpu
