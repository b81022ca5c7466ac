// Products whose operands end where memory ends: nothing beyond them is read. And the bits of
// elements, however a product is done.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/gemm.h"

namespace gshard::cpu {
namespace {

// Room whose end is followed by a page that nobody may touch.
class Guarded {
 public:
  Guarded() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* data = mmap(nullptr, kPages * page_ + page_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(data != MAP_FAILED);
    data_ = static_cast<std::byte*>(data);
    REQUIRE(mprotect(data_ + kPages * page_, page_, PROT_NONE) == 0);
  }
  ~Guarded() { munmap(data_, kPages * page_ + page_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  // The last `count` values there.
  template <typename T>
  T* Last(int64_t count) {
    return reinterpret_cast<T*>(data_ + kPages * page_) - count;
  }

 private:
  static constexpr size_t kPages = 8;
  size_t page_;
  std::byte* data_ = nullptr;
};

template <typename T>
void CheckProducts() {
  Guarded left, right, result;
  for (int64_t n = 1; n <= 70; ++n) {
    for (const int64_t m : {1, 2, 3, 7}) {
      for (const int64_t k : {1, 2, 9}) {
        T* a = left.Last<T>(m * k);
        T* b = right.Last<T>(k * n);
        T* c = result.Last<T>(m * n);
        for (int64_t i = 0; i < m * k; ++i) a[i] = static_cast<T>(i % 7 - 3);
        for (int64_t i = 0; i < k * n; ++i) b[i] = static_cast<T>(i % 5 - 2);
        std::fill_n(c, m * n, T{99});
        RowGemm(m, n, k, MatrixView<T>{a, k, 1}, MatrixView<T>{b, n, 1}, c, n);
        bool right_sums = true;
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            T sum = 0;
            for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
            right_sums = right_sums && c[i * n + j] == sum;
          }
        }
        CAPTURE(m, n, k);
        REQUIRE(right_sums);
      }
    }
  }
}

// m x k and k x n, either of them stored by columns.
template <typename T>
struct Operands {
  Operands(int64_t rows, int64_t columns, int64_t depth, bool a_columns, bool b_columns)
      : m(rows), n(columns), k(depth), a_by_columns(a_columns), b_by_columns(b_columns) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (auto* values : {&a, &b}) {
      values->resize(static_cast<size_t>((values == &a ? m : n) * k));
      for (T& value : *values) value = static_cast<T>(normal(random));
    }
  }
  MatrixView<T> Left(int64_t row) const {
    return {a.data() + row * (a_by_columns ? 1 : k), a_by_columns ? 1 : k, a_by_columns ? m : 1};
  }
  MatrixView<T> Right() const { return {b.data(), b_by_columns ? 1 : n, b_by_columns ? k : 1}; }
  // `rows` rows a call.
  std::vector<T> Multiply(int64_t rows) const {
    std::vector<T> c(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m; i += rows) {
      RowGemm(std::min(rows, m - i), n, k, Left(i), Right(), c.data() + i * n, n);
    }
    return c;
  }

  int64_t m, n, k;
  bool a_by_columns, b_by_columns;
  std::vector<T> a, b;
};

// Few rows read the right-hand side in place, many pack both.
template <typename T>
void CheckGroupings() {
  for (const bool a_columns : {false, true}) {
    for (const bool b_columns : {false, true}) {
      CAPTURE(a_columns, b_columns);
      // More than a strip of columns and a part of k, and neither a multiple of anything.
      const Operands<T> x(61, 537, 1171, a_columns, b_columns);
      const std::vector<T> whole = x.Multiply(61);
      CHECK(x.Multiply(5) == whole);
      CHECK(x.Multiply(1) == whole);
      CHECK(x.Multiply(30) == whole);
      const Operands<T> flat(523, 541, 35, a_columns, b_columns);
      CHECK(flat.Multiply(5) == flat.Multiply(523));
    }
  }
}

TEST_CASE("A row has the same bits whatever rows are beside it", "[kernels]") {
  CheckGroupings<float>();
  CheckGroupings<double>();
}

TEST_CASE("Sums of one product go on from what is there", "[kernels]") {
  const Operands<double> x(60, 500, 700, false, false);
  std::vector<double> c(static_cast<size_t>(x.m * x.n), 2.5);
  const double *a = x.a.data(), *b = x.b.data();
  RowGemmSum(1, x.m, x.n, x.k, MatrixList<double>{&a, x.k, 1}, MatrixList<double>{&b, x.n, 1},
             {c.data(), x.n, true});
  const std::vector<double> product = x.Multiply(60);
  bool near = true;
  for (size_t i = 0; i < c.size(); ++i) near = near && std::abs(c[i] - 2.5 - product[i]) < 1e-11;
  CHECK(near);
}

TEST_CASE("Products of bf16 have the bits of those of floats", "[kernels]") {
  for (const bool a_columns : {false, true}) {
    for (const bool b_columns : {false, true}) {
      CAPTURE(a_columns, b_columns);
      Operands<float> x(67, 549, 1171, a_columns, b_columns);
      std::vector<Bf16> a, b;
      for (const auto& [floats, halves] : {std::pair(&x.a, &a), std::pair(&x.b, &b)}) {
        for (float& value : *floats) {
          const uint32_t bits = std::bit_cast<uint32_t>(value) & 0xffff0000;
          value = std::bit_cast<float>(bits);
          halves->push_back({static_cast<uint16_t>(bits >> 16)});
        }
      }
      std::vector<float> c(static_cast<size_t>(x.m * x.n));
      RowGemm(x.m, x.n, x.k, MatrixView<Bf16>{a.data(), x.Left(0).row, x.Left(0).column},
              MatrixView<Bf16>{b.data(), x.Right().row, x.Right().column}, c.data(), x.n);
      CHECK(c == x.Multiply(1));
    }
  }
}

TEST_CASE("Products read nothing beyond their operands", "[kernels]") {
  CheckProducts<float>();
  CheckProducts<double>();
}

}  // namespace
}  // namespace gshard::cpu
