// The discrete Fourier transform of real lines of even length, by a complex one of half the length.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_REAL_FFT_LINE_H_
#define GSHARD_BACKENDS_CPU_KERNELS_REAL_FFT_LINE_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/fft_line.h"

namespace gshard::cpu {

// With n = 2h, the elements in even and odd places are the parts of h complex ones; bins 0 .. h of
// the signal follow from their transform Z:
//   X[k] = E[k] + w^k O[k],  E[k] = (Z[k] + conj Z[h-k]) / 2,  O[k] = (Z[k] - conj Z[h-k]) / 2i
// Scaling and sign are FftLine's. A line's bits do not depend on the others. Immutable; Run is
// thread-safe.
class RealFftLine {
 public:
  // `length` is even. Inverse: from bins to the signal.
  RealFftLine(int64_t length, bool inverse);

  // At most kMaxLines lines in place, `row` elements from one to the next. The signal is in the
  // real parts; the imaginary ones of bins 0 and h are not looked at. `room` holds
  // RoomElements(count) doubles.
  void Run(int64_t count, int64_t row, SplitComplex lines, double* room) const;
  int64_t RoomElements(int64_t count) const {
    return 2 * PartDistance(half_.length() * count) + half_.RoomElements(count);
  }

  static constexpr int64_t kMaxLines = 8;

 private:
  void FromSignal(int64_t count, int64_t row, SplitComplex lines, SplitComplex parts) const;
  void ToBins(int64_t count, int64_t row, SplitComplex parts, SplitComplex lines) const;
  void FromBins(int64_t count, int64_t row, SplitComplex lines, SplitComplex parts) const;
  void ToSignal(int64_t count, int64_t row, SplitComplex parts, SplitComplex lines) const;

  FftLine half_;
  bool inverse_;
  std::vector<double> root_real_, root_imag_;  // w^k, 0 <= k <= h / 2
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_REAL_FFT_LINE_H_
