// One pass of Stockham's self-sorting FFT over interleaved lines, vectorised.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_FFT_PASS_H_
#define GSHARD_BACKENDS_CPU_KERNELS_FFT_PASS_H_

#include <cstdint>

namespace gshard::cpu {

constexpr int64_t kLargestRadix = 31;  // longer primes cost less through Bluestein

// Real and imaginary parts lie apart.
struct SplitComplex {
  double* real;
  double* imag;
};

// From one part of lines to the next, real to imaginary or operand to result: five lines of cache
// more than their elements. Lengths are powers of two, and parts at such distances would share few
// sets of the cache and have addresses that processors take for equal (of 12 bits).
constexpr int64_t PartDistance(int64_t elements) { return elements + 40; }

struct FftPass {
  int64_t radix;            // at most kLargestRadix
  int64_t groups;           // n / (radix * stride)
  int64_t stride;           // the product of earlier passes' radices
  int64_t lines;            // interleaved
  int64_t in_distance;      // from one element of a line to the next, at least `lines`; where it is
  int64_t out_distance;     // more, in the first pass only, or in the last one only
  int64_t n;                // of a line
  double sign;              // of the exponent
  const double* root_real;  // e^(sign 2 pi i k/n), 0 <= k < n
  const double* root_imag;
};

// in [radix][groups][stride][lines] to out [groups][radix][stride][lines]. An element's bits depend
// on its line only, not on the number of lines or the instruction set. Thread-safe.
void RunFftPass(const FftPass& pass, SplitComplex in, SplitComplex out);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_FFT_PASS_H_
