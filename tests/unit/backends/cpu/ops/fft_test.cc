// Vectors of docs/semantics.md; the definition summed directly for many lengths.
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {

TEST_CASE("fft vectors", "[kernels][fft]") {
  CheckVectors(R"(
    x = c64[4] constant({(1,0),(2,0),(3,0),(4,0)})
    f = c64[4] fft(x), fft_type=FFT, fft_length={4}
    i = c64[4] fft(f), fft_type=IFFT, fft_length={4}
    q = f64[2,4] constant({{1,2,3,4},{4,3,2,1}})
    h = c128[2,3] fft(q), fft_type=RFFT, fft_length={4}
    g = c64[3] constant({(10,7),(-2,2),(-2,5)})
    k = f32[4] fft(g), fft_type=IRFFT, fft_length={4}
    ef = c64[4] constant({(10,0),(-2,2),(-2,0),(-2,-2)})
    eh = c128[2,3] constant({{(10,0),(-2,2),(-2,0)},{(10,0),(2,-2),(2,0)}})
    ek = f32[4] constant({1,2,3,4})
    ROOT r = tuple(f, i, h, k, ef, x, eh, ek))",
               "", 4);
}

namespace {

using Complex = std::complex<double>;

// Element j of a line is scattered but fixed.
Complex Sample(int64_t i) {
  return {std::sin(static_cast<double>(3 * i + 1)), std::cos(static_cast<double>(7 * i * i + 2))};
}

Array ComplexInput(const Instruction* parameter) {
  Array array = Garbage(parameter->shape());
  for (int64_t i = 0; i < array.shape->element_count(); ++i) {
    const Complex value = Sample(i);
    std::memcpy(array.bytes.data() + i * 16, &value, 16);
  }
  return array;
}

}  // namespace

TEST_CASE("fft of all kinds of lengths", "[kernels][fft]") {
  for (const int64_t n : {1, 2, 3, 5, 6, 8, 12, 16, 31, 37, 60, 64, 74, 97, 128, 210, 961, 1009}) {
    INFO("length " << n);
    const auto module = Parse(fmt::format(
        "HloModule m\nENTRY e {{\n x = c128[2,{0}] parameter(0)\n f = c128[2,{0}] fft(x), "
        "fft_type=FFT, fft_length={{{0}}}\n i = c128[2,{0}] fft(f), fft_type=IFFT, "
        "fft_length={{{0}}}\n ROOT r = tuple(f, i)\n}}\n",
        n));
    const Array x = ComplexInput(module->entry()->parameters()[0]);
    const Leaves results = Evaluate(*module, {{x}});
    const double limit = 1e-13 * static_cast<double>(n + 10);
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t j = 0; j < n; j += 1 + n / 50) {
        Complex sum = 0;
        for (int64_t k = 0; k < n; ++k) {
          const double angle =
              -2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
          sum += Sample(row * n + k) * std::polar(1.0, angle);
        }
        REQUIRE(std::abs(sum - ElementAsComplex(results[0].AsLiteral(), row * n + j)) < limit);
        REQUIRE(std::abs(Sample(row * n + j) -
                         ElementAsComplex(results[1].AsLiteral(), row * n + j)) < limit);
      }
    }
  }
}

// Real transforms over three dims keep half of what the complex one gives, and go back.
TEST_CASE("real fft over several dims", "[kernels][fft]") {
  for (const int64_t last : {6, 7, 20}) {
    INFO("last dim " << last);
    const auto module = Parse(fmt::format(
        R"(HloModule m
ENTRY e {{
  x = f64[2,3,4,{0}] parameter(0)
  z = f64[] constant(0)
  zs = f64[2,3,4,{0}] broadcast(z), dimensions={{}}
  c = c128[2,3,4,{0}] complex(x, zs)
  full = c128[2,3,4,{0}] fft(c), fft_type=FFT, fft_length={{3,4,{0}}}
  kept = c128[2,3,4,{1}] slice(full), slice={{[0:2],[0:3],[0:4],[0:{1}]}}
  half = c128[2,3,4,{1}] fft(x), fft_type=RFFT, fft_length={{3,4,{0}}}
  back = f64[2,3,4,{0}] fft(half), fft_type=IRFFT, fft_length={{3,4,{0}}}
  ROOT r = tuple(kept, half, back)
}}
)",
        last, last / 2 + 1));
    Array x = Garbage(module->entry()->parameters()[0]->shape());
    for (int64_t i = 0; i < x.shape->element_count(); ++i) {
      const double value = Sample(i).real();
      std::memcpy(x.bytes.data() + i * 8, &value, 8);
    }
    const Leaves results = Evaluate(*module, {{x}});
    for (int64_t i = 0; i < results[0].shape->element_count(); ++i) {
      REQUIRE(std::abs(ElementAsComplex(results[0].AsLiteral(), i) -
                       ElementAsComplex(results[1].AsLiteral(), i)) < 1e-12);
    }
    for (int64_t i = 0; i < x.shape->element_count(); ++i) {
      REQUIRE(std::abs(results[2].at(i) - x.at(i)) < 1e-13);
    }
  }
}

// Even lengths go through complex lines of half of them; eleven lines are not all taken together.
TEST_CASE("real fft of even lengths", "[kernels][fft]") {
  for (const int64_t n : {2, 4, 6, 10, 16, 62, 74, 250, 1024}) {
    INFO("length " << n);
    const auto module = Parse(fmt::format(
        R"(HloModule m
ENTRY e {{
  x = f64[11,{0}] parameter(0)
  z = f64[] constant(0)
  zs = f64[11,{0}] broadcast(z), dimensions={{}}
  c = c128[11,{0}] complex(x, zs)
  full = c128[11,{0}] fft(c), fft_type=FFT, fft_length={{{0}}}
  kept = c128[11,{1}] slice(full), slice={{[0:11],[0:{1}]}}
  half = c128[11,{1}] fft(x), fft_type=RFFT, fft_length={{{0}}}
  back = f64[11,{0}] fft(kept), fft_type=IRFFT, fft_length={{{0}}}
  ROOT r = tuple(kept, half, back)
}}
)",
        n, n / 2 + 1));
    Array x = Garbage(module->entry()->parameters()[0]->shape());
    for (int64_t i = 0; i < x.shape->element_count(); ++i) {
      const double value = Sample(i).real();
      std::memcpy(x.bytes.data() + i * 8, &value, 8);
    }
    const Leaves results = Evaluate(*module, {{x}});
    const double limit = 1e-14 * static_cast<double>(n + 10);
    for (int64_t i = 0; i < results[0].shape->element_count(); ++i) {
      REQUIRE(std::abs(ElementAsComplex(results[0].AsLiteral(), i) -
                       ElementAsComplex(results[1].AsLiteral(), i)) < limit);
    }
    for (int64_t i = 0; i < x.shape->element_count(); ++i) {
      REQUIRE(std::abs(results[2].at(i) - x.at(i)) < 1e-13);
    }
  }
}

// As numpy.fft.rfft: no rounding, no NaN, no sign in what is zero for every signal.
TEST_CASE("bins of a real fft that are real", "[kernels][fft]") {
  for (const int64_t n : {1, 2, 7, 12, 37, 64, 74}) {
    INFO("length " << n);
    const int64_t bins = n / 2 + 1;
    const auto module =
        Parse(fmt::format("HloModule m\nENTRY e {{\n x = f64[3,{0}] parameter(0)\n "
                          "ROOT f = c128[3,{1}] fft(x), fft_type=RFFT, fft_length={{{0}}}\n}}\n",
                          n, bins));
    Array x = Garbage(module->entry()->parameters()[0]->shape());
    for (int64_t i = 0; i < 3 * n; ++i) {
      // The rows: numbers, their negatives, and one with a NaN and an infinity.
      double value = Sample(i % n).real() * (i / n == 1 ? -1 : 1);
      if (i == 2 * n) value = std::numeric_limits<double>::quiet_NaN();
      if (i == 3 * n - 1 && n > 1) value = std::numeric_limits<double>::infinity();
      std::memcpy(x.bytes.data() + i * 8, &value, 8);
    }
    const Leaves results = Evaluate(*module, {{x}});
    for (int64_t row = 0; row < 3; ++row) {
      for (const int64_t bin : {int64_t{0}, n / 2}) {
        if (2 * bin != n && bin != 0) continue;
        INFO("row " << row << " bin " << bin);
        const Complex value = ElementAsComplex(results[0].AsLiteral(), row * bins + bin);
        CHECK(value.imag() == 0);
        CHECK(!std::signbit(value.imag()));
        CHECK(std::isnan(value.real()) == (row == 2));
      }
    }
  }
}

}  // namespace gshard::cpu::testing
