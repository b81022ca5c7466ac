#include "backends/cpu/kernels/real_fft_line.h"

#include <cmath>
#include <numbers>

namespace gshard::cpu {

RealFftLine::RealFftLine(int64_t length, bool inverse)
    : half_(length / 2, inverse), inverse_(inverse) {
  for (int64_t k = 0; k <= length / 4; ++k) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
    root_real_.push_back(std::cos(angle));
    root_imag_.push_back(inverse ? std::sin(angle) : -std::sin(angle));
  }
}

void RealFftLine::Run(int64_t count, int64_t row, SplitComplex lines, double* room) const {
  const int64_t distance = PartDistance(half_.length() * count);
  const SplitComplex parts{room, room + distance};
  if (inverse_) {
    FromBins(count, row, lines, parts);
  } else {
    FromSignal(count, row, lines, parts);
  }
  half_.Run(count, count, parts, room + 2 * distance);
  if (inverse_) {
    ToSignal(count, row, parts, lines);
  } else {
    ToBins(count, row, parts, lines);
  }
}

void RealFftLine::FromSignal(int64_t count, int64_t row, SplitComplex lines,
                             SplitComplex parts) const {
  for (int64_t k = 0; k < half_.length(); ++k) {
    for (int64_t l = 0; l < count; ++l) {
      const double* pair = lines.real + l * row + 2 * k;
      parts.real[k * count + l] = pair[0];
      parts.imag[k * count + l] = pair[1];
    }
  }
}

void RealFftLine::ToSignal(int64_t count, int64_t row, SplitComplex parts,
                           SplitComplex lines) const {
  for (int64_t k = 0; k < half_.length(); ++k) {
    for (int64_t l = 0; l < count; ++l) {
      double* pair = lines.real + l * row + 2 * k;
      pair[0] = parts.real[k * count + l];
      pair[1] = parts.imag[k * count + l];
    }
  }
}

// Bins k and h - k follow from the same two elements.
void RealFftLine::ToBins(int64_t count, int64_t row, SplitComplex parts, SplitComplex lines) const {
  const int64_t h = half_.length();
  for (int64_t k = 0; 2 * k <= h; ++k) {
    const int64_t mirror = h - k;
    const double *ar = parts.real + k * count, *ai = parts.imag + k * count;
    const double *br = parts.real + mirror % h * count, *bi = parts.imag + mirror % h * count;
    const double wr = root_real_[static_cast<size_t>(k)], wi = root_imag_[static_cast<size_t>(k)];
    double real[kMaxLines], imag[kMaxLines], mirror_real[kMaxLines], mirror_imag[kMaxLines];
    for (int64_t l = 0; l < count; ++l) {
      const double even_real = 0.5 * (ar[l] + br[l]), even_imag = 0.5 * (ai[l] - bi[l]);
      const double odd_real = 0.5 * (ai[l] + bi[l]), odd_imag = 0.5 * (br[l] - ar[l]);
      const double turned_real = wr * odd_real - wi * odd_imag;
      const double turned_imag = wr * odd_imag + wi * odd_real;
      real[l] = even_real + turned_real;
      imag[l] = even_imag + turned_imag;
      mirror_real[l] = even_real - turned_real;
      mirror_imag[l] = turned_imag - even_imag;
    }
    for (int64_t l = 0; l < count; ++l) {
      lines.real[l * row + mirror] = mirror_real[l];
      lines.imag[l * row + mirror] = mirror_imag[l];
      lines.real[l * row + k] = real[l];
      lines.imag[l * row + k] = imag[l];
    }
  }
}

// Z[k] = X[k] + conj X[h-k] + i w^k (X[k] - conj X[h-k]); of h - k the same two terms, conjugated.
void RealFftLine::FromBins(int64_t count, int64_t row, SplitComplex lines,
                           SplitComplex parts) const {
  const int64_t h = half_.length();
  for (int64_t k = 0; 2 * k <= h; ++k) {
    const int64_t mirror = h - k;
    const double wr = root_real_[static_cast<size_t>(k)], wi = root_imag_[static_cast<size_t>(k)];
    for (int64_t l = 0; l < count; ++l) {
      const int64_t a = l * row + k, b = l * row + mirror;
      const double ai = k == 0 ? 0 : lines.imag[a], bi = k == 0 ? 0 : lines.imag[b];
      const double even_real = lines.real[a] + lines.real[b], even_imag = ai - bi;
      const double odd_real = lines.real[a] - lines.real[b], odd_imag = ai + bi;
      const double turned_real = -(wr * odd_imag + wi * odd_real);
      const double turned_imag = wr * odd_real - wi * odd_imag;
      parts.real[k * count + l] = even_real + turned_real;
      parts.imag[k * count + l] = even_imag + turned_imag;
      if (k == 0 || mirror == k) continue;
      parts.real[mirror * count + l] = even_real - turned_real;
      parts.imag[mirror * count + l] = turned_imag - even_imag;
    }
  }
}

}  // namespace gshard::cpu
