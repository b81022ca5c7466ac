// Matrix products: OpenBLAS where matrices are large, our own register-blocked loops where small.
//
// The order in which an element's products are added must not depend on how work is cut. RowGemm
// guarantees that for any grouping of rows. BlasGemm does not (its code for edges differs), so its
// callers always cut an instance at the same rows. OpenBLAS is held to one thread; parallelism is
// the executor's.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_GEMM_H_
#define GSHARD_BACKENDS_CPU_KERNELS_GEMM_H_

#include <complex>
#include <cstdint>

namespace gshard::cpu {

// Element (i, j) is at data[i * row + j * column].
template <typename T>
struct MatrixView {
  const T* data;
  int64_t row, column;
};

// c (m x n, rows at distance c_row, columns adjacent) = a (m x k) * b (k x n).
// float, double: any strides. Products are added in order of k in chunks of 256.
void RowGemm(int64_t m, int64_t n, int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
             int64_t c_row);
void RowGemm(int64_t m, int64_t n, int64_t k, MatrixView<double> a, MatrixView<double> b, double* c,
             int64_t c_row);

// The same through OpenBLAS: IsBlasOperand must hold for a and b.
void BlasGemm(int64_t m, int64_t n, int64_t k, MatrixView<float> a, MatrixView<float> b, float* c,
              int64_t c_row);
void BlasGemm(int64_t m, int64_t n, int64_t k, MatrixView<double> a, MatrixView<double> b,
              double* c, int64_t c_row);
void BlasGemm(int64_t m, int64_t n, int64_t k, MatrixView<std::complex<float>> a,
              MatrixView<std::complex<float>> b, std::complex<float>* c, int64_t c_row);
void BlasGemm(int64_t m, int64_t n, int64_t k, MatrixView<std::complex<double>> a,
              MatrixView<std::complex<double>> b, std::complex<double>* c, int64_t c_row);

// Integers, wrapping; any strides.
void IntegerGemm(int64_t m, int64_t n, int64_t k, MatrixView<uint32_t> a, MatrixView<uint32_t> b,
                 uint32_t* c, int64_t c_row);
void IntegerGemm(int64_t m, int64_t n, int64_t k, MatrixView<uint64_t> a, MatrixView<uint64_t> b,
                 uint64_t* c, int64_t c_row);

// One of the strides is 1 and rows (columns) do not overlap; dims of size 1 may have any stride.
bool IsBlasOperand(int64_t rows, int64_t columns, int64_t row, int64_t column);

// Below this many multiplications (or rows) RowGemm is the better choice.
bool PrefersRowGemm(int64_t m, int64_t n, int64_t k);

// Holds OpenBLAS to one thread; called before its first use, idempotent.
void LimitBlasThreads();

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_GEMM_H_
