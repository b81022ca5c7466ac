// Batch norm, linear algebra and Fourier transforms against the reference evaluator.
#include <catch2/catch.hpp>

#include "tests/unit/backends/cpu/ops/random_case.h"

namespace gshard::cpu::testing {

TEST_CASE("random batch norm", "[kernels][reference]") {
  for (const std::string& type : kFloats) {
    RunCases(6, [&](Dice& dice) {
      const Index dims = dice.Sizes(3, 2, 6);
      const size_t feature = static_cast<size_t>(dice.Roll(0, 2));
      const std::string x = ShapeText(type, dims), v = ShapeText(type, {dims[feature]});
      Case test;
      test.parameters = {x, v, v, v, v, x};
      test.body = fmt::format(
          "  s = {1} abs(p4)\n  a = ({0}, {1}, {1}) batch-norm-training(p0, p1, p2), epsilon=0.25, "
          "feature_index={2}\n  b = {0} batch-norm-inference(p0, p1, p2, p3, s), epsilon=0.25, "
          "feature_index={2}\n  c = ({0}, {1}, {1}) batch-norm-grad(p0, p1, p3, s, p5), "
          "epsilon=0.25, feature_index={2}\n  ROOT r = tuple(a, b, c)",
          x, v, feature);
      test.ulps = 64;
      test.relative_to_largest = true;
      return test;
    });
  }
}

TEST_CASE("random linear algebra and fft", "[kernels][reference]") {
  for (const std::string type : {"f32", "f64", "c64", "c128"}) {
    RunCases(8, [&](Dice& dice) {
      const int64_t batch = dice.Roll(1, 3), n = dice.Roll(1, 6), m = dice.Roll(1, 4);
      const bool left = dice.Flip(), lower = dice.Flip();
      const Index b = left ? Index{batch, n, m} : Index{batch, m, n};
      const std::string a = ShapeText(type, {batch, n, n});
      Case test;
      test.parameters = {a, ShapeText(type, b)};
      // Diagonally dominant, Hermitian for cholesky: imaginary parts of the diagonal are ignored.
      test.body = fmt::format(
          "  i = s32[{1},{1}] iota(), iota_dimension=0\n  j = s32[{1},{1}] iota(), "
          "iota_dimension=1\n  e = pred[{1},{1}] compare(i, j), direction=EQ\n  d = {3}[{1},{1}] "
          "convert(e)\n  k = {3}[] constant({4})\n  kb = {3}[{1},{1}] broadcast(k), "
          "dimensions={{}}\n  dk = {3}[{1},{1}] multiply(d, kb)\n  db = {0} broadcast(dk), "
          "dimensions={{1,2}}\n  z = {0} add(p0, db)\n  c = {0} cholesky(z), lower={5}\n  ROOT r = "
          "tuple(c, t)",
          a, n, m, type, type[0] == 'c' ? "(64, 0)" : "64", lower);
      const std::string solve = fmt::format(
          "  t = {} triangular-solve(z, p1), left_side={}, lower={}, unit_diagonal={}, "
          "transpose_a={}\n",
          ShapeText(type, b), left, dice.Flip(), false,
          dice.Pick<std::string>({"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}));
      test.body.insert(test.body.find("  ROOT"), solve);
      test.ulps = 64;
      test.relative_to_largest = true;
      return test;
    });
  }
  for (const bool single : {true, false}) {
    RunCases(12, [&](Dice& dice) {
      const std::string real = single ? "f32" : "f64", complex = single ? "c64" : "c128";
      const int64_t rank = dice.Roll(1, 3);
      Index dims = dice.Sizes(rank + 1, 1, 9);
      Index half = dims;
      half.back() = half.back() / 2 + 1;
      const Index length(dims.begin() + 1, dims.end());
      Case test;
      test.parameters = {ShapeText(complex, dims), ShapeText(real, dims), ShapeText(complex, half)};
      test.body = fmt::format(
          "  a = {0} fft(p0), fft_type=FFT, fft_length={{{3}}}\n  b = {0} fft(p0), fft_type=IFFT, "
          "fft_length={{{3}}}\n  c = {2} fft(p1), fft_type=RFFT, fft_length={{{3}}}\n  d = {1} "
          "fft(p2), fft_type=IRFFT, fft_length={{{3}}}\n  ROOT r = tuple(a, b, c, d)",
          ShapeText(complex, dims), ShapeText(real, dims), ShapeText(complex, half), List(length));
      test.ulps = 16;
      test.relative_to_largest = true;
      return test;
    });
  }
}

}  // namespace gshard::cpu::testing
