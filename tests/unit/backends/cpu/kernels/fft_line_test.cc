#include "backends/cpu/kernels/fft_line.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <vector>

namespace gshard::cpu {
namespace {

using Lines = std::vector<std::vector<std::complex<double>>>;

// `gap` elements lie between an element of the last line and the next one of the first.
Lines Transformed(const FftLine& fft, const Lines& lines, size_t gap) {
  const size_t count = lines.size(), distance = count + gap;
  const auto length = static_cast<size_t>(fft.length());
  std::vector<double> real(length * distance, 7), imag(length * distance, 8);
  for (size_t k = 0; k < length; ++k) {
    for (size_t l = 0; l < count; ++l) {
      real[k * distance + l] = lines[l][k].real();
      imag[k * distance + l] = lines[l][k].imag();
    }
  }
  const auto side_by_side = static_cast<int64_t>(count);
  std::vector<double> room(static_cast<size_t>(fft.RoomElements(side_by_side)));
  fft.Run(side_by_side, static_cast<int64_t>(distance), {real.data(), imag.data()}, room.data());
  Lines results = lines;
  for (size_t k = 0; k < length; ++k) {
    for (size_t l = 0; l < count; ++l) {
      results[l][k] = {real[k * distance + l], imag[k * distance + l]};
    }
    for (size_t l = count; l < distance; ++l) CHECK(real[k * distance + l] == 7);
  }
  return results;
}

std::complex<double> ByDefinition(const std::vector<std::complex<double>>& x, size_t j,
                                  double sign) {
  const size_t n = x.size();
  std::complex<double> sum = 0;
  for (size_t k = 0; k < n; ++k) {
    const double turns = static_cast<double>(j * k % n) / static_cast<double>(n);
    sum += x[k] * std::polar(1.0, sign * 2 * std::numbers::pi * turns);
  }
  return sum;
}

TEST_CASE("lines of all lengths are transformed, one or many, with the same bits", "[fft]") {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0, 1);
  // Powers of two, products of small primes, primes that take Bluestein's way.
  for (const size_t n : std::vector<size_t>{1, 2, 3, 4, 8, 12, 15, 30, 31, 37, 49, 64, 97, 256}) {
    for (const bool inverse : {false, true}) {
      const FftLine fft(static_cast<int64_t>(n), inverse);
      Lines lines(11, std::vector<std::complex<double>>(n));
      for (auto& line : lines) {
        for (auto& x : line) x = {normal(random), normal(random)};
      }
      const Lines together = Transformed(fft, lines, 0);
      CHECK(Transformed(fft, lines, 5) == together);
      for (size_t l = 0; l < lines.size(); ++l) {
        CHECK(Transformed(fft, {lines[l]}, 0)[0] == together[l]);
      }
      for (size_t j = 0; j < n; ++j) {
        const std::complex<double> expected = ByDefinition(lines[3], j, inverse ? 1 : -1);
        CHECK(std::abs(together[3][j] - expected) < 1e-11);
      }
    }
  }
}

}  // namespace
}  // namespace gshard::cpu
