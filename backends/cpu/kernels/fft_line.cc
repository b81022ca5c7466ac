// Mixed-radix passes, and Bluestein's algorithm on top of them.
#include "backends/cpu/kernels/fft_line.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace gshard::cpu {
namespace {

using Complex = FftLine::Complex;

Complex Root(int64_t k, int64_t n, double sign) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  return {std::cos(angle), sign * std::sin(angle)};
}

// The radices of `n`, empty if it has a prime factor that is too large.
std::vector<int64_t> Factorize(int64_t n) {
  std::vector<int64_t> radices;
  for (; n % 4 == 0; n /= 4) radices.push_back(4);
  for (int64_t radix = 2; radix <= kLargestRadix; ++radix) {
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  }
  if (n > 1) radices.clear();
  return radices;
}

// Rows [0, rows) of `count` elements times a factor each. Plain products: std::complex's own look
// after infinities.
void Scale(int64_t rows, int64_t count, const std::vector<Complex>& factors, SplitComplex from,
           SplitComplex to) {
  for (int64_t k = 0; k < rows; ++k) {
    const double real = factors[static_cast<size_t>(k)].real();
    const double imag = factors[static_cast<size_t>(k)].imag();
    for (int64_t i = k * count; i < (k + 1) * count; ++i) {
      const double a = from.real[i], b = from.imag[i];
      to.real[i] = a * real - b * imag;
      to.imag[i] = a * imag + b * real;
    }
  }
}

}  // namespace

FftLine::FftLine(int64_t length, bool inverse) : length_(length), sign_(inverse ? 1 : -1) {
  if (length <= 1) return;
  radices_ = Factorize(length);
  if (!radices_.empty()) {
    for (int64_t k = 0; k < length; ++k) {
      const Complex root = Root(k, length, sign_);
      root_real_.push_back(root.real());
      root_imag_.push_back(root.imag());
    }
    return;
  }
  int64_t padded = 1;
  while (padded < 2 * length - 1) padded *= 2;
  forward_ = std::make_unique<FftLine>(padded, false);
  backward_ = std::make_unique<FftLine>(padded, true);
  std::vector<double> real(static_cast<size_t>(padded)), imag(static_cast<size_t>(padded));
  int64_t square = 0;  // k^2 mod 2n
  for (int64_t k = 0; k < length; ++k) {
    chirp_.push_back(Root(square, 2 * length, sign_));
    square = (square + 2 * k + 1) % (2 * length);
    const Complex value = std::conj(chirp_.back()) / static_cast<double>(padded);
    for (const int64_t at : {k, (padded - k) % padded}) {
      real[static_cast<size_t>(at)] = value.real();
      imag[static_cast<size_t>(at)] = value.imag();
    }
  }
  std::vector<double> room(static_cast<size_t>(forward_->RoomElements(1)));
  forward_->Run(1, {real.data(), imag.data()}, room.data());
  for (size_t k = 0; k < real.size(); ++k) filter_.emplace_back(real[k], imag[k]);
}

int64_t FftLine::RoomElements(int64_t count) const {
  if (forward_ == nullptr) return 2 * count * length_;
  return 2 * count * forward_->length() + forward_->RoomElements(count);
}

void FftLine::Run(int64_t count, SplitComplex lines, double* room) const {
  if (length_ <= 1) return;
  if (forward_ == nullptr) {
    MixedRadix(count, lines, room);
  } else {
    Bluestein(count, lines, room);
  }
}

void FftLine::MixedRadix(int64_t count, SplitComplex lines, double* room) const {
  const int64_t elements = count * length_;
  SplitComplex from = lines, to{room, room + elements};
  int64_t stride = 1;
  for (const int64_t radix : radices_) {
    RunFftPass({.radix = radix,
                .groups = length_ / (radix * stride),
                .stride = stride,
                .lines = count,
                .n = length_,
                .sign = sign_,
                .root_real = root_real_.data(),
                .root_imag = root_imag_.data()},
               from, to);
    stride *= radix;
    std::swap(from, to);
  }
  if (from.real == lines.real) return;
  std::copy_n(from.real, elements, lines.real);
  std::copy_n(from.imag, elements, lines.imag);
}

// jk = (j^2 + k^2 - (j-k)^2) / 2 makes the transform a convolution with a chirp.
void FftLine::Bluestein(int64_t count, SplitComplex lines, double* room) const {
  const int64_t padded = forward_->length();
  const SplitComplex work{room, room + padded * count};
  double* inner = room + 2 * padded * count;
  Scale(length_, count, chirp_, lines, work);
  for (double* part : {work.real, work.imag}) {
    std::fill_n(part + length_ * count, (padded - length_) * count, 0.0);
  }
  forward_->Run(count, work, inner);
  Scale(padded, count, filter_, work, work);
  backward_->Run(count, work, inner);
  Scale(length_, count, chirp_, work, lines);
}

}  // namespace gshard::cpu
