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

Lines Transformed(const FftLine& fft, const Lines& lines) {
  const auto count = static_cast<int64_t>(lines.size());
  std::vector<double> real, imag;
  for (size_t k = 0; k < static_cast<size_t>(fft.length()); ++k) {
    for (const auto& line : lines) {
      real.push_back(line[k].real());
      imag.push_back(line[k].imag());
    }
  }
  std::vector<double> room(static_cast<size_t>(fft.RoomElements(count)));
  fft.Run(count, {real.data(), imag.data()}, room.data());
  Lines results = lines;
  for (size_t at = 0; at < real.size(); ++at) {
    results[at % lines.size()][at / lines.size()] = {real[at], imag[at]};
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
      const Lines together = Transformed(fft, lines);
      for (size_t l = 0; l < lines.size(); ++l) {
        CHECK(Transformed(fft, {lines[l]})[0] == together[l]);
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
