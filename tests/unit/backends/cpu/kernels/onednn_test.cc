// Products of 8-bit integers and of bf16 through oneDNN against one element at a time.
#include "backends/cpu/kernels/onednn.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace gshard::cpu {
namespace {

struct Layout {
  int64_t m, n, k;
  bool lhs_transposed, rhs_transposed;
  int64_t c_row() const { return n + 3; }  // what lies between rows stays
  size_t a(int64_t i, int64_t p) const {
    return static_cast<size_t>(lhs_transposed ? p * m + i : i * k + p);
  }
  size_t b(int64_t p, int64_t j) const {
    return static_cast<size_t>(rhs_transposed ? j * k + p : p * n + j);
  }
};

template <typename A, typename B, typename C>
void AddProducts(const Layout& x, const std::vector<A>& a, const std::vector<B>& b,
                 std::vector<C>& c) {
  for (int64_t i = 0; i < x.m; ++i) {
    for (int64_t j = 0; j < x.n; ++j) {
      C sum{0};
      for (int64_t p = 0; p < x.k; ++p) {
        sum += static_cast<C>(a[x.a(i, p)]) * static_cast<C>(b[x.b(p, j)]);
      }
      c[static_cast<size_t>(i * x.c_row() + j)] = sum;
    }
  }
}

template <typename T>
Int8View ViewOf(const std::vector<T>& values, bool transposed, int64_t rows, int64_t columns) {
  return {reinterpret_cast<const std::byte*>(values.data()), transposed ? 1 : columns,
          transposed ? rows : 1, std::is_signed_v<T>};
}

// One in `ends` elements is the least or the largest of its type; 1: nothing else is.
template <typename A, typename B>
void CheckIntegers(const Layout& x, int ends) {
  CAPTURE(x.m, x.n, x.k, x.lhs_transposed, x.rhs_transposed, ends, std::is_signed_v<A>,
          std::is_signed_v<B>);
  std::mt19937 random(static_cast<uint32_t>(x.m * 31 + x.n));
  const auto fill = [&]<typename T>(std::vector<T>& values) {
    for (T& value : values) {
      value = static_cast<T>(random());
      if (random() % static_cast<uint32_t>(ends) != 0) continue;
      value = random() % 4 == 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
      if (!std::is_signed_v<T>) value = static_cast<T>(~value);
    }
  };
  std::vector<A> a(static_cast<size_t>(x.m * x.k));
  std::vector<B> b(static_cast<size_t>(x.k * x.n));
  fill(a);
  fill(b);
  std::vector<uint32_t> c(static_cast<size_t>(x.m * x.c_row()), 7), expected = c;
  AddProducts(x, a, b, expected);
  OneDnnGemm(x.m, x.n, x.k, ViewOf(a, x.lhs_transposed, x.m, x.k),
             ViewOf(b, x.rhs_transposed, x.k, x.n), c.data(), x.c_row());
  CHECK(c == expected);
}

void CheckAllSigns(const Layout& x, int ends) {
  CheckIntegers<int8_t, int8_t>(x, ends);
  CheckIntegers<uint8_t, int8_t>(x, ends);
  CheckIntegers<int8_t, uint8_t>(x, ends);
  CheckIntegers<uint8_t, uint8_t>(x, ends);
}

float ToFloat(Bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

struct Bf16Product {
  Layout layout;
  std::vector<Bf16> a, b;

  std::vector<float> Run() const {
    const auto& [m, n, k, lhs_transposed, rhs_transposed] = layout;
    std::vector<float> c(static_cast<size_t>(m * layout.c_row()), 7);
    OneDnnGemm(m, n, k, MatrixView<Bf16>{a.data(), lhs_transposed ? 1 : k, lhs_transposed ? m : 1},
               MatrixView<Bf16>{b.data(), rhs_transposed ? 1 : n, rhs_transposed ? k : 1}, c.data(),
               layout.c_row());
    return c;
  }
};
Bf16Product MakeProduct(const Layout& layout, bool whole_numbers) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  Bf16Product x{layout, std::vector<Bf16>(static_cast<size_t>(layout.m * layout.k)),
                std::vector<Bf16>(static_cast<size_t>(layout.k * layout.n))};
  for (auto* values : {&x.a, &x.b}) {
    for (Bf16& value : *values) {
      const float f = whole_numbers ? static_cast<float>(random() % 15) - 7 : normal(random);
      value.bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(f) >> 16);
    }
  }
  return x;
}

}  // namespace

TEST_CASE("products of 8-bit integers through oneDNN are exact", "[onednn]") {
  if (!HasInt8Products()) return;  // no VNNI, or no oneDNN
  for (const bool left : {false, true}) {
    for (const bool right : {false, true}) {
      for (const int ends : {1, 5}) {
        CheckAllSigns({1, 9, 40, left, right}, ends);
        CheckAllSigns({9, 1, 41, left, right}, ends);
        CheckAllSigns({3, 5, 7, left, right}, ends);
        CheckAllSigns({33, 65, 129, left, right}, ends);
        CheckAllSigns({7, 17, 1031, left, right}, ends);  // sums beyond what a float holds
      }
    }
  }
}

TEST_CASE("sums of 8-bit integers wrap in oneDNN", "[onednn]") {
  if (!HasInt8Products()) return;
  CheckAllSigns({2, 16, 140000, false, false}, 1);
}

TEST_CASE("products of bf16 through oneDNN", "[onednn]") {
  // Without instructions for bf16 oneDNN has other ways, slower ones, where it has VNNI.
  if (!HasBf16Products() && !HasInt8Products()) return;
  for (const bool left : {false, true}) {
    for (const bool right : {false, true}) {
      for (const Layout& layout : {Layout{1, 9, 40, left, right}, Layout{9, 1, 41, left, right},
                                   Layout{33, 65, 129, left, right},
                                   Layout{3, 2051, 40, left, right}}) {  // in several calls
        CAPTURE(layout.m, layout.n, layout.k, left, right);
        const Bf16Product x = MakeProduct(layout, true);
        std::vector<float> expected(static_cast<size_t>(layout.m * layout.c_row()), 7), a, b;
        for (const Bf16 value : x.a) a.push_back(ToFloat(value));
        for (const Bf16 value : x.b) b.push_back(ToFloat(value));
        AddProducts(layout, a, b, expected);
        CHECK(x.Run() == expected);
      }
    }
  }
}

TEST_CASE("a thread's products have the bits of another's", "[onednn]") {
  if (!HasBf16Products() && !HasInt8Products()) return;
  const Bf16Product x = MakeProduct({130, 200, 700, false, true}, false);
  const std::vector<float> expected = x.Run();
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = x.Run(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    CHECK(std::memcmp(result.data(), expected.data(), expected.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("more shapes than a thread remembers", "[onednn]") {
  if (!HasInt8Products()) return;
  for (int round = 0; round < 2; ++round) {
    for (int64_t m = 1; m < 40; ++m) CheckIntegers<int8_t, int8_t>({m, 16, 8, false, false}, 3);
  }
}

}  // namespace gshard::cpu
