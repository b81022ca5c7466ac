// Mixed-radix passes, and Bluestein's algorithm on top of them.
#include "backends/cpu/kernels/fft_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace gshard::cpu {
namespace {

using Complex = FftLine::Complex;

constexpr int64_t kLargestRadix = 31;  // longer primes cost less through Bluestein

// Plain products: std::complex's own look after infinities.
inline Complex Times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
inline Complex TimesI(Complex a, double sign) { return {-sign * a.imag(), sign * a.real()}; }

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

// One pass: `groups` transforms of length `radix` interleaved with stride `stride`; see Stockham.
//   in  [radix][groups][stride]   (groups: n / (radix * done), stride: what earlier passes did)
//   out [groups][radix][stride]
void Pass(int64_t radix, int64_t groups, int64_t stride, const Complex* in, Complex* out,
          const std::vector<Complex>& roots, double sign) {
  const int64_t n = static_cast<int64_t>(roots.size());
  std::array<Complex, kLargestRadix> twiddles, values;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t r = 0; r < radix; ++r) {
      twiddles[static_cast<size_t>(r)] = roots[static_cast<size_t>(g * r * stride % n)];
    }
    for (int64_t s = 0; s < stride; ++s) {
      const auto load = [&](int64_t r) { return in[(r * groups + g) * stride + s]; };
      const auto store = [&](int64_t r, Complex value) {
        out[(g * radix + r) * stride + s] = Times(value, twiddles[static_cast<size_t>(r)]);
      };
      if (radix == 2) {
        const Complex a = load(0), b = load(1);
        store(0, a + b);
        store(1, a - b);
        continue;
      }
      if (radix == 4) {
        const Complex a = load(0) + load(2), b = load(0) - load(2);
        const Complex c = load(1) + load(3), d = TimesI(load(1) - load(3), sign);
        store(0, a + c);
        store(1, b + d);
        store(2, a - c);
        store(3, b - d);
        continue;
      }
      for (int64_t r = 0; r < radix; ++r) values[static_cast<size_t>(r)] = load(r);
      for (int64_t j = 0; j < radix; ++j) {
        Complex sum = values[0];
        for (int64_t r = 1; r < radix; ++r) {
          sum += Times(values[static_cast<size_t>(r)],
                       roots[static_cast<size_t>(j * r % radix * (n / radix))]);
        }
        store(j, sum);
      }
    }
  }
}

}  // namespace

FftLine::FftLine(int64_t length, bool inverse) : length_(length), sign_(inverse ? 1 : -1) {
  if (length <= 1) return;
  radices_ = Factorize(length);
  if (!radices_.empty()) {
    for (int64_t k = 0; k < length; ++k) roots_.push_back(Root(k, length, sign_));
    return;
  }
  int64_t padded = 1;
  while (padded < 2 * length - 1) padded *= 2;
  forward_ = std::make_unique<FftLine>(padded, false);
  backward_ = std::make_unique<FftLine>(padded, true);
  filter_.assign(static_cast<size_t>(padded), 0);
  int64_t square = 0;  // k^2 mod 2n
  for (int64_t k = 0; k < length; ++k) {
    chirp_.push_back(Root(square, 2 * length, sign_));
    square = (square + 2 * k + 1) % (2 * length);
    const Complex value = std::conj(chirp_.back()) / static_cast<double>(padded);
    filter_[static_cast<size_t>(k)] = value;
    if (k > 0) filter_[static_cast<size_t>(padded - k)] = value;
  }
  std::vector<Complex> room(static_cast<size_t>(forward_->RoomElements()));
  forward_->Run(filter_.data(), room.data());
}

int64_t FftLine::RoomElements() const {
  return forward_ == nullptr ? length_ : forward_->length() + forward_->RoomElements();
}

void FftLine::Run(Complex* line, Complex* room) const {
  if (length_ <= 1) return;
  if (forward_ == nullptr) {
    MixedRadix(line, room);
  } else {
    Bluestein(line, room);
  }
}

void FftLine::MixedRadix(Complex* line, Complex* room) const {
  Complex* from = line;
  Complex* to = room;
  int64_t stride = 1;
  for (const int64_t radix : radices_) {
    Pass(radix, length_ / (radix * stride), stride, from, to, roots_, sign_);
    stride *= radix;
    std::swap(from, to);
  }
  if (from != line) std::copy_n(from, length_, line);
}

// jk = (j^2 + k^2 - (j-k)^2) / 2 makes the transform a convolution with a chirp.
void FftLine::Bluestein(Complex* line, Complex* room) const {
  const int64_t padded = forward_->length();
  Complex* work = room;
  Complex* inner = room + padded;
  for (int64_t k = 0; k < length_; ++k) work[k] = Times(line[k], chirp_[static_cast<size_t>(k)]);
  std::fill_n(work + length_, padded - length_, Complex{0, 0});
  forward_->Run(work, inner);
  for (int64_t k = 0; k < padded; ++k) work[k] = Times(work[k], filter_[static_cast<size_t>(k)]);
  backward_->Run(work, inner);
  for (int64_t k = 0; k < length_; ++k) line[k] = Times(work[k], chirp_[static_cast<size_t>(k)]);
}

}  // namespace gshard::cpu
