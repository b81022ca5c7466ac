#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {

TEST_CASE("cholesky", "[kernels][linalg]") {
  CheckVectors(R"(
    a = f32[2,2,2] constant({{{4,99},{2,5}},{{1,99},{2,1}}})
    l = f32[2,2,2] cholesky(a), lower=true
    b = f64[2,2] constant({{4,2},{-7,5}})
    u = f64[2,2] cholesky(b)
    c = c64[2,2] constant({{(4,0),(9,9)},{(2,2),(6,0)}})
    lc = c64[2,2] cholesky(c), lower=true
    d = c128[2,2] constant({{(4,0),(2,-2)},{(9,9),(6,0)}})
    uc = c128[2,2] cholesky(d), lower=false
    h = bf16[2,2] constant({{4,0},{2,5}})
    lh = bf16[2,2] cholesky(h), lower=true
    el = f32[2,2,2] constant({{{2,0},{1,2}},{{nan,nan},{nan,nan}}})
    eu = f64[2,2] constant({{2,1},{0,2}})
    elc = c64[2,2] constant({{(2,0),(0,0)},{(1,1),(2,0)}})
    euc = c128[2,2] constant({{(2,0),(1,-1)},{(0,0),(2,0)}})
    elh = bf16[2,2] constant({{2,0},{1,2}})
    ROOT r = tuple(l, u, lc, uc, lh, el, eu, elc, euc, elh))",
               "", 2);
}

TEST_CASE("cholesky of singular, indefinite and not-a-number matrices is NaN",
          "[kernels][linalg]") {
  CheckVectors(R"(
    a = f32[3,2,2] constant({{{0,0},{0,0}},{{nan,0},{0,1}},{{1,0},{nan,1}}})
    l = f32[3,2,2] cholesky(a), lower=true
    n = f32[] constant(nan)
    e = f32[3,2,2] broadcast(n), dimensions={}
    ROOT r = tuple(l, e))");
}

// Every combination: the solution put back gives the right-hand side. The triangle that is not to
// be read holds garbage.
TEST_CASE("triangular-solve", "[kernels][linalg]") {
  for (const std::string type : {"f32", "f64", "c64", "c128", "f16"}) {
    const bool complex = type[0] == 'c';
    const auto number = [&](double re, double im) {
      return complex ? fmt::format("({}, {})", re, im) : fmt::format("{}", re);
    };
    for (const bool left : {true, false}) {
      for (const bool lower : {true, false}) {
        for (const bool unit : {true, false}) {
          for (const std::string transpose : {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}) {
            INFO(type << " left=" << left << " lower=" << lower << " unit=" << unit << " "
                      << transpose);
            // [3,3] triangle of powers of two and small numbers: exact in f16.
            std::complex<double> a[3][3];
            std::string text;
            for (int i = 0; i < 3; ++i) {
              text += i == 0 ? "{" : ", {";
              for (int j = 0; j < 3; ++j) {
                const bool inside = lower ? j <= i : j >= i;
                a[i][j] = {i == j ? (i == 1 ? -2.0 : 1.0) : i + 2.0 * j - 2,
                           complex && i != j ? j - 2.0 * i : 0.0};
                const std::complex<double> shown =
                    inside && !(unit && i == j) ? a[i][j] : std::complex<double>(77, 0);
                text += (j == 0 ? "" : ", ") + number(shown.real(), shown.imag());
                if (!inside) a[i][j] = 0;
                if (unit && i == j) a[i][j] = 1;
              }
              text += "}";
            }
            const int rows = left ? 3 : 2, columns = left ? 2 : 3;
            std::string b_text;
            for (int i = 0; i < rows; ++i) {
              b_text += i == 0 ? "{" : ", {";
              for (int j = 0; j < columns; ++j) {
                b_text += (j == 0 ? "" : ", ") + number(1 + i * columns + j, complex ? i - j : 0);
              }
              b_text += "}";
            }
            const auto module = Parse(fmt::format(
                "HloModule m\nENTRY e {{\n a = {0}[2,3,3] constant({{ {{{1}}}, {{{1}}} }})\n b = "
                "{0}[2,{2},{3}] constant({{ {{{4}}}, {{{4}}} }})\n ROOT x = {0}[2,{2},{3}] "
                "triangular-solve(a, b), left_side={5}, lower={6}, unit_diagonal={7}, "
                "transpose_a={8}\n}}\n",
                type, text, rows, columns, b_text, left, lower, unit, transpose));
            const Array x = Evaluate(*module)[0];
            const auto op = [&](int i, int k) {
              if (transpose == "NO_TRANSPOSE") return a[i][k];
              return transpose == "TRANSPOSE" ? a[k][i] : std::conj(a[k][i]);
            };
            for (int batch = 0; batch < 2; ++batch) {
              for (int i = 0; i < rows; ++i) {
                for (int j = 0; j < columns; ++j) {
                  std::complex<double> sum = 0;
                  for (int k = 0; k < 3; ++k) {
                    const int at = left ? k * columns + j : i * columns + k;
                    const std::complex<double> value =
                        ElementAsComplex(x.AsLiteral(), batch * 6 + at);
                    sum += left ? op(i, k) * value : value * op(k, j);
                  }
                  const std::complex<double> wanted(1 + i * columns + j, complex ? i - j : 0);
                  REQUIRE(std::abs(sum - wanted) < (type == "f16" ? 1e-1 : 1e-4));
                }
              }
            }
          }
        }
      }
    }
  }
}

// What BLAS makes of it depends on the processor: OPENBLAS_CORETYPE=Haswell solves blocks by their
// inverses.
TEST_CASE("an entry that is not a number spoils only unknowns that follow from it",
          "[kernels][linalg]") {
  constexpr int n = 4;
  for (const std::string type : {"f32", "c64"}) {
    const std::string nan = type == "c64" ? "(nan, 0)" : "nan",
                      one = type == "c64" ? "(1, 0)" : "1";
    for (const bool left : {true, false}) {
      for (const bool lower : {true, false}) {
        for (const std::string transpose : {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}) {
          for (int at = 0; at < n * n; ++at) {
            const int row = at / n, column = at % n;
            std::string a, b;
            for (int i = 0; i < n; ++i) {
              a += i == 0 ? "{" : ", {";
              b += i == 0 ? "{" : ", {";
              for (int j = 0; j < n; ++j) {
                a += (j == 0 ? "" : ", ") + (i * n + j == at ? nan : one);
                b += (j == 0 ? "" : ", ") + one;
              }
              a += "}";
              b += "}";
            }
            INFO(type << " left=" << left << " lower=" << lower << " " << transpose << " {" << a);
            const auto module = Parse(fmt::format(
                "HloModule m\nENTRY e {{\n a = {0}[4,4] constant({{ {1} }})\n b = {0}[4,4] "
                "constant({{ {2} }})\n ROOT x = {0}[4,4] triangular-solve(a, b), left_side={3}, "
                "lower={4}, unit_diagonal=true, transpose_a={5}\n}}\n",
                type, a, b, left, lower, transpose));
            const Array x = Evaluate(*module)[0];
            // The equation that the entry is in, and the way in which unknowns are found.
            const bool by_columns = (transpose != "NO_TRANSPOSE") == left;
            const int equation = by_columns ? column : row;
            const bool is_read = lower ? column < row : column > row;
            const bool forward = lower != by_columns;
            for (int k = 0; k < n * n; ++k) {
              const int unknown = left ? k / n : k % n;
              const bool follows = is_read && (forward ? unknown >= equation : unknown <= equation);
              CHECK(std::isnan(ElementAsComplex(x.AsLiteral(), k).real()) == follows);
            }
          }
        }
      }
    }
  }
}

}  // namespace gshard::cpu::testing
