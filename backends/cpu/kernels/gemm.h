// Matrix products: OpenBLAS where matrices are large, our own register-blocked loops where small.
//
// The order in which an element's products are added must not depend on how work is cut. RowGemm
// guarantees that for any grouping of rows. BlasGemm does not (its code for edges differs), so its
// callers always cut an instance at the same rows and columns. OpenBLAS is held to one thread;
// parallelism is the executor's.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_GEMM_H_
#define GSHARD_BACKENDS_CPU_KERNELS_GEMM_H_

#include <complex>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "ir/diagnostic.h"
#include "ir/dtype.h"

namespace gshard::cpu {

// Element (i, j) is at data[i * row + j * column].
template <typename T>
struct MatrixView {
  const T* data;
  int64_t row, column;
};

// A result: rows of adjacent elements, at a distance of `row`.
template <typename T>
struct ResultRows {
  T* data;
  int64_t row;
  bool accumulate = false;  // the product is added to what is there
};

// c (m x n, rows at distance c_row, columns adjacent) = a (m x k) * b (k x n).
// float, double: any strides. Products are added in order of k in chunks of 128.
void RowGemm(int64_t m, int64_t n, int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
             int64_t c_row);
void RowGemm(int64_t m, int64_t n, int64_t k, MatrixView<double> a, MatrixView<double> b, double* c,
             int64_t c_row);

// A bf16 by its bits.
struct Bf16 {
  uint16_t bits;
};
// RowGemm of the factors as floats, bit for bit; k > 0.
void RowGemm(int64_t m, int64_t n, int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b, float* c,
             int64_t c_row);
// Is that faster than OpenBLAS on factors that are converted first?
bool PrefersPackedBf16(int64_t m, int64_t n, int64_t k);

// RowGemm of a matrix of adjacent columns and one column, the same bits in less time:
// y (m) = a (m x k, rows at distance a_row) * x (elements at distance x_row).
void RowDots(int64_t m, int64_t k, const float* a, int64_t a_row, const float* x, int64_t x_row,
             float* y);

// Rows at a distance of `row`, their elements at one of `column`.
template <typename T>
struct DotRows {
  const T* data;
  int64_t row, column;
  // PairDots counts the elements between rows in as many bits as an element has.
  static bool MayLie(int64_t row) {
    return std::abs(row) < std::numeric_limits<int32_t>::max() / 64;
  }
};
// y[i] = the product of row i of `a` and row i of `b`, of k elements: each the bits of RowGemm.
void PairDots(int64_t count, int64_t k, DotRows<float> a, DotRows<float> b, float* y);
void PairDots(int64_t count, int64_t k, DotRows<double> a, DotRows<double> b, double* y);

// Many matrices of the same shape and strides.
template <typename T>
struct MatrixList {
  const T* const* data;
  int64_t row, column;
};
// c = the sum of `count` products a[i] * b[i]: one product with the matrices side by side along k.
// How the matrices are divided among calls does not show in the bits.
void RowGemmSum(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<float> a,
                MatrixList<float> b, ResultRows<float> c);
void RowGemmSum(int64_t count, int64_t m, int64_t n, int64_t k, MatrixList<double> a,
                MatrixList<double> b, ResultRows<double> c);

// One product through OpenBLAS: IsBlasOperand must hold for a and b.
void BlasGemm(int64_t m, int64_t n, int64_t k, MatrixView<float> a, MatrixView<float> b,
              ResultRows<float> c);
void BlasGemm(int64_t m, int64_t n, int64_t k, MatrixView<double> a, MatrixView<double> b,
              ResultRows<double> c);
void BlasGemm(int64_t m, int64_t n, int64_t k, MatrixView<std::complex<float>> a,
              MatrixView<std::complex<float>> b, ResultRows<std::complex<float>> c);
void BlasGemm(int64_t m, int64_t n, int64_t k, MatrixView<std::complex<double>> a,
              MatrixView<std::complex<double>> b, ResultRows<std::complex<double>> c);

// Integers, wrapping; any strides. Small values (s8, s16, most s32) take ShortGemm, or are
// multiplied as floats, exactly (integer_gemm.cc).
void IntegerGemm(int64_t m, int64_t n, int64_t k, MatrixView<uint32_t> a, MatrixView<uint32_t> b,
                 uint32_t* c, int64_t c_row);
void IntegerGemm(int64_t m, int64_t n, int64_t k, MatrixView<int16_t> a, MatrixView<int16_t> b,
                 uint32_t* c, int64_t c_row);
void IntegerGemm(int64_t m, int64_t n, int64_t k, MatrixView<uint64_t> a, MatrixView<uint64_t> b,
                 uint64_t* c, int64_t c_row);
// Only where all factors are between -2^15 and 2^15 - 1, as signed numbers; k > 0.
void ShortGemm(int64_t m, int64_t n, int64_t k, MatrixView<int16_t> a, MatrixView<int16_t> b,
               uint32_t* c, int64_t c_row);
void ShortGemm(int64_t m, int64_t n, int64_t k, MatrixView<uint32_t> a, MatrixView<uint32_t> b,
               uint32_t* c, int64_t c_row);

// Whichever of these takes the type and keeps rows independent of their grouping (complex:
// OpenBLAS, which takes IsBlasOperand views only).
template <typename T>
void RowwiseGemm(int64_t m, int64_t n, int64_t k, MatrixView<T> a, MatrixView<T> b, T* c,
                 int64_t c_row) {
  if constexpr (std::is_integral_v<T>) {
    IntegerGemm(m, n, k, a, b, c, c_row);
  } else if constexpr (std::is_floating_point_v<T>) {
    RowGemm(m, n, k, a, b, c, c_row);
  } else {
    BlasGemm(m, n, k, a, b, {c, c_row});
  }
}

// Calls f with a value of the C++ type of an accumulation type.
template <typename F>
void WithAccumulationType(DType type, F&& f) {
  switch (type) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kC64:
      return f(std::complex<float>{});
    case DType::kC128:
      return f(std::complex<double>{});
    case DType::kU32:
      return f(uint32_t{});
    case DType::kU64:
      return f(uint64_t{});
    default:
      throw InternalError("accumulation type of a product");
  }
}

// One of the strides is 1 and rows (columns) do not overlap; dims of size 1 may have any stride.
bool IsBlasOperand(int64_t rows, int64_t columns, int64_t row, int64_t column);

// Below this many multiplications RowGemm is the better choice, and of few rows.
bool PrefersRowGemm(int64_t m, int64_t n, int64_t k);

// Holds OpenBLAS to the calling thread and ends its own; called before its first use, idempotent.
void LimitBlasThreads();

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_GEMM_H_
