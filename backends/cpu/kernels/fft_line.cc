// Mixed-radix passes, and Bluestein's algorithm on top of them.
#include "backends/cpu/kernels/fft_line.h"

#include <algorithm>
#include <cmath>
#include <numbers>

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

// Element k of `count` lines times factor k, k < elements. Plain products: std::complex's own look
// after infinities.
void Scale(int64_t elements, int64_t count, const std::vector<Complex>& factors, SplitComplex from,
           int64_t from_distance, SplitComplex to, int64_t to_distance) {
  for (int64_t k = 0; k < elements; ++k) {
    const double real = factors[static_cast<size_t>(k)].real();
    const double imag = factors[static_cast<size_t>(k)].imag();
    const SplitComplex in{from.real + k * from_distance, from.imag + k * from_distance};
    const SplitComplex out{to.real + k * to_distance, to.imag + k * to_distance};
    for (int64_t l = 0; l < count; ++l) {
      const double a = in.real[l], b = in.imag[l];
      out.real[l] = a * real - b * imag;
      out.imag[l] = a * imag + b * real;
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
  forward_->Run(1, 1, {real.data(), imag.data()}, room.data());
  for (size_t k = 0; k < real.size(); ++k) filter_.emplace_back(real[k], imag[k]);
}

int64_t FftLine::RoomElements(int64_t count) const {
  if (forward_ == nullptr) return 4 * PartDistance(count * length_);
  return 2 * PartDistance(count * forward_->length()) + forward_->RoomElements(count);
}

void FftLine::Run(int64_t count, int64_t distance, SplitComplex lines, double* room) const {
  if (length_ <= 1) return;
  if (forward_ == nullptr) {
    MixedRadix(count, distance, lines, room);
  } else {
    Bluestein(count, distance, lines, room);
  }
}

void FftLine::MixedRadix(int64_t count, int64_t distance, SplitComplex lines, double* room) const {
  const int64_t part = PartDistance(count * length_);
  const SplitComplex rooms[] = {{room, room + part}, {room + 2 * part, room + 3 * part}};
  SplitComplex from = lines;
  int64_t from_distance = distance, stride = 1;
  for (size_t i = 0; i < radices_.size(); ++i) {
    // A pass cannot be in place: a single one goes through the room.
    const bool is_last = i + 1 == radices_.size() && i > 0;
    const SplitComplex to = is_last ? lines : rooms[i % 2];
    const int64_t to_distance = is_last ? distance : count;
    RunFftPass({.radix = radices_[i],
                .groups = length_ / (radices_[i] * stride),
                .stride = stride,
                .lines = count,
                .in_distance = from_distance,
                .out_distance = to_distance,
                .n = length_,
                .sign = sign_,
                .root_real = root_real_.data(),
                .root_imag = root_imag_.data()},
               from, to);
    stride *= radices_[i];
    from = to;
    from_distance = to_distance;
  }
  if (from.real == lines.real) return;
  for (int64_t k = 0; k < length_; ++k) {
    std::copy_n(from.real + k * count, count, lines.real + k * distance);
    std::copy_n(from.imag + k * count, count, lines.imag + k * distance);
  }
}

// jk = (j^2 + k^2 - (j-k)^2) / 2 makes the transform a convolution with a chirp.
void FftLine::Bluestein(int64_t count, int64_t distance, SplitComplex lines, double* room) const {
  const int64_t padded = forward_->length();
  const int64_t part = PartDistance(padded * count);
  const SplitComplex work{room, room + part};
  double* inner = room + 2 * part;
  Scale(length_, count, chirp_, lines, distance, work, count);
  for (double* half : {work.real, work.imag}) {
    std::fill_n(half + length_ * count, (padded - length_) * count, 0.0);
  }
  forward_->Run(count, count, work, inner);
  Scale(padded, count, filter_, work, count, work, count);
  backward_->Run(count, count, work, inner);
  Scale(length_, count, chirp_, work, count, lines, distance);
}

}  // namespace gshard::cpu
