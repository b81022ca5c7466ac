// Products of bf16 and of 8-bit integers by the processor's own instructions for them (AMX, AVX-512
// BF16, VNNI), through oneDNN.
//
// The library is loaded when the first such product is planned: it would take longer to load than
// many programs to run. Without it, or where the processor has no such instructions, other kernels
// take these products, as floats and as pairs of 16-bit integers.
//
// The order in which an element's products are added follows from the shape and strides of a call
// alone: each call is done by the calling thread. Callers cut a product of floats the same way
// every time, as for OpenBLAS.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_ONEDNN_H_
#define GSHARD_BACKENDS_CPU_KERNELS_ONEDNN_H_

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/gemm.h"

namespace gshard::cpu {

// Does oneDNN have a faster way for these factors than there is for f32? Thread-safe.
bool HasBf16Products();
bool HasInt8Products();  // exact ones: without VNNI sums of pairs would saturate

// Below so many multiplications a call costs more than it saves.
inline constexpr int64_t kWorthOneDnn = 1 << 16;

// c (m x n, rows at distance c_row, columns adjacent) = a (m x k) * b (k x n), products summed in
// f32; IsBlasOperand must hold for a and b; m, n, k > 0. Subnormal factors and sums count as zero.
void OneDnnGemm(int64_t m, int64_t n, int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b, float* c,
                int64_t c_row);

struct Int8View {
  const std::byte* data;
  int64_t row, column;
  bool is_signed;
};
// The same modulo 2^32.
void OneDnnGemm(int64_t m, int64_t n, int64_t k, Int8View a, Int8View b, uint32_t* c,
                int64_t c_row);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_ONEDNN_H_
