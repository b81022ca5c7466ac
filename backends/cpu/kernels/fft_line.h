// The discrete Fourier transform of lines of any length.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_FFT_LINE_H_
#define GSHARD_BACKENDS_CPU_KERNELS_FFT_LINE_H_

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/kernels/fft_pass.h"

namespace gshard::cpu {

// X[j] = sum_k x[k] e^(-2 pi i jk/n), or with +i for the inverse (unscaled). Lengths made of small
// primes take Stockham's self-sorting mixed-radix algorithm (Van Loan, "Computational frameworks
// for the FFT", 1.7); others go through a convolution of a power-of-two length (Bluestein, 1970).
// Everything is computed in f64. Immutable; Run is thread-safe.
class FftLine {
 public:
  using Complex = std::complex<double>;

  FftLine(int64_t length, bool inverse);

  // Transforms `count` lines in place: element k of line l is at [k * distance + l], `distance`
  // being `count` or more. A line's bits do not depend on the others. `room` holds
  // RoomElements(count) more doubles.
  void Run(int64_t count, int64_t distance, SplitComplex lines, double* room) const;
  int64_t RoomElements(int64_t count) const;
  int64_t length() const { return length_; }

 private:
  void MixedRadix(int64_t count, int64_t distance, SplitComplex lines, double* room) const;
  void Bluestein(int64_t count, int64_t distance, SplitComplex lines, double* room) const;

  int64_t length_;
  double sign_;  // of the exponent
  std::vector<int64_t> radices_;
  std::vector<double> root_real_, root_imag_;  // e^(sign 2 pi i k/n)
  // Bluestein: chirp e^(sign pi i k^2/n), and the transform of its conjugate, padded and wrapped.
  std::vector<Complex> chirp_, filter_;
  std::unique_ptr<FftLine> forward_, backward_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_FFT_LINE_H_
