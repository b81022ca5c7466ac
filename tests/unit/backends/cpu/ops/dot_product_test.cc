// Products in parts: blocks of columns between threads, and sums over many instances. Elements are
// small whole numbers, so that every order of addition gives the same bits.
#include "backends/cpu/ops/dot_product.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "backends/cpu/memory/memory.h"
#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu {
namespace {

struct Sizes {
  int64_t m, n, k;
  bool transposed;  // the rhs is stored n x k
};

template <typename T>
std::vector<T> WholeNumbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 15) - 7);
  return values;
}

DotProduct Make(const Sizes& s, DType type) {
  static const std::vector<int64_t> none, first = {0}, second = {1};
  const std::vector<int64_t> lhs = {s.m, s.k};
  const std::vector<int64_t> rhs =
      s.transposed ? std::vector<int64_t>{s.n, s.k} : std::vector<int64_t>{s.k, s.n};
  return DotProduct({type, lhs, none, second}, {type, rhs, none, s.transposed ? second : first},
                    type);
}

template <typename T>
const std::byte* Bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}
template <typename T>
std::byte* Bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

template <typename T>
void AddProduct(const Sizes& s, const std::vector<T>& lhs, const std::vector<T>& rhs,
                std::vector<T>& sum) {
  const int64_t row = s.transposed ? 1 : s.n, column = s.transposed ? s.k : 1;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t p = 0; p < s.k; ++p) {
      const T factor = lhs[static_cast<size_t>(i * s.k + p)];
      for (int64_t j = 0; j < s.n; ++j) {
        sum[static_cast<size_t>(i * s.n + j)] +=
            factor * rhs[static_cast<size_t>(p * row + j * column)];
      }
    }
  }
}

template <typename T>
void CheckSum(DType type, const Sizes& s, int64_t count, bool accumulate) {
  CAPTURE(s.m, s.n, s.k, s.transposed, count, accumulate);
  const DotProduct product = Make(s, type);
  REQUIRE(product.CanSum());
  std::vector<std::vector<T>> lhs, rhs;
  std::vector<const std::byte*> lhs_items, rhs_items;
  std::vector<T> sum = WholeNumbers<T>(s.m * s.n, 99), expected(sum.size());
  if (accumulate) expected = sum;
  for (int64_t i = 0; i < count; ++i) {
    lhs.push_back(WholeNumbers<T>(s.m * s.k, static_cast<uint32_t>(2 * i)));
    rhs.push_back(WholeNumbers<T>(s.k * s.n, static_cast<uint32_t>(2 * i + 1)));
    AddProduct(s, lhs.back(), rhs.back(), expected);
    lhs_items.push_back(Bytes(std::as_const(lhs.back())));
    rhs_items.push_back(Bytes(std::as_const(rhs.back())));
  }
  BumpScratch scratch;
  product.RunSum(count, lhs_items.data(), rhs_items.data(), accumulate, Bytes(sum), scratch);
  CHECK(sum == expected);
}

// One lhs times the rhs of several instances at once.
template <typename T>
void CheckWidened(DType type, const Sizes& s, int64_t count) {
  CAPTURE(s.m, s.n, s.k, s.transposed, count);
  const DotProduct product = Make(s, type);
  REQUIRE(product.CanWiden());
  const std::vector<T> lhs = WholeNumbers<T>(s.m * s.k, 50);
  std::vector<std::vector<T>> rhs;
  std::vector<const std::byte*> items;
  const int64_t size = s.m * s.n, gap = 3;
  std::vector<T> results(static_cast<size_t>(count * (size + gap)), T{-1}), expected = results;
  for (int64_t i = 0; i < count; ++i) {
    rhs.push_back(WholeNumbers<T>(s.k * s.n, static_cast<uint32_t>(i)));
    items.push_back(Bytes(std::as_const(rhs.back())));
    std::vector<T> one(static_cast<size_t>(size));
    AddProduct(s, lhs, rhs.back(), one);
    std::copy(one.begin(), one.end(), expected.begin() + i * (size + gap));
  }
  BumpScratch scratch;
  product.RunWidened(count, Bytes(lhs), items.data(), Bytes(results),
                     (size + gap) * static_cast<int64_t>(sizeof(T)), scratch);
  CHECK(results == expected);
}

}  // namespace

TEST_CASE("shares of a product make up the product", "[cpu][dot]") {
  for (const Sizes& s : {Sizes{64, 1030, 4096, false}, Sizes{128, 1100, 2048, true}}) {
    CAPTURE(s.m, s.n, s.k, s.transposed);
    const DotProduct product = Make(s, DType::kF32);
    REQUIRE(product.ShareCount() > 1);
    const auto lhs = WholeNumbers<float>(s.m * s.k, 1), rhs = WholeNumbers<float>(s.k * s.n, 2);
    const auto size = static_cast<size_t>(s.m * s.n);
    std::vector<float> expected(size), whole(size, -1), shared(size, -1);
    AddProduct(s, lhs, rhs, expected);
    BumpScratch scratch;
    product.Run(Bytes(lhs), Bytes(rhs), Bytes(whole), scratch);
    for (int64_t share = product.ShareCount(); share-- > 0;) {
      product.RunShare(share, Bytes(lhs), Bytes(rhs), Bytes(shared), scratch);
    }
    CHECK(whole == expected);
    CHECK(shared == expected);
  }
}

TEST_CASE("shares of a product have the bits of the product", "[cpu][dot]") {
  const Sizes s{96, 1000, 3001, false};
  const DotProduct product = Make(s, DType::kF32);
  REQUIRE(product.ShareCount() > 1);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> lhs(static_cast<size_t>(s.m * s.k)), rhs(static_cast<size_t>(s.k * s.n));
  for (float& x : lhs) x = normal(random);
  for (float& x : rhs) x = normal(random);
  std::vector<float> whole(static_cast<size_t>(s.m * s.n)), shared = whole;
  BumpScratch scratch;
  product.Run(Bytes(std::as_const(lhs)), Bytes(std::as_const(rhs)), Bytes(whole), scratch);
  for (int64_t share = 0; share < product.ShareCount(); ++share) {
    product.RunShare(share, Bytes(std::as_const(lhs)), Bytes(std::as_const(rhs)), Bytes(shared),
                     scratch);
  }
  CHECK(std::memcmp(whole.data(), shared.data(), whole.size() * sizeof(float)) == 0);
}

// s8, u8, pred: large ones have their own instructions.
template <typename A, typename B>
void CheckSmallIntegers(DType left, DType right, const Sizes& s) {
  CAPTURE(DTypeName(left), DTypeName(right), s.m, s.n, s.k, s.transposed);
  static const std::vector<int64_t> none, first = {0}, second = {1};
  const std::vector<int64_t> lhs_dims = {s.m, s.k};
  const std::vector<int64_t> rhs_dims =
      s.transposed ? std::vector<int64_t>{s.n, s.k} : std::vector<int64_t>{s.k, s.n};
  const DotProduct product({left, lhs_dims, none, second},
                           {right, rhs_dims, none, s.transposed ? second : first}, DType::kS32);
  std::mt19937 random(5);
  std::vector<A> lhs(static_cast<size_t>(s.m * s.k));
  std::vector<B> rhs(static_cast<size_t>(s.k * s.n));
  for (A& x : lhs) x = static_cast<A>(left == DType::kPred ? random() % 2 : random());
  for (B& x : rhs) x = static_cast<B>(right == DType::kPred ? random() % 2 : random());
  const auto size = static_cast<size_t>(s.m * s.n);
  std::vector<int32_t> expected(size), whole(size, -1), shared(size, -1), ranges(size, -1);
  AddProduct(s, std::vector<int32_t>(lhs.begin(), lhs.end()),
             std::vector<int32_t>(rhs.begin(), rhs.end()), expected);
  BumpScratch scratch;
  product.Run(Bytes(std::as_const(lhs)), Bytes(std::as_const(rhs)), Bytes(whole), scratch);
  CHECK(whole == expected);
  for (int64_t share = product.ShareCount(); share-- > 0;) {
    product.RunShare(share, Bytes(std::as_const(lhs)), Bytes(std::as_const(rhs)), Bytes(shared),
                     scratch);
  }
  CHECK(shared == expected);
  for (int64_t row = 0; row < product.rows(); row += product.row_granule()) {
    const int64_t end = std::min(row + product.row_granule(), product.rows());
    product.RunRows(row, end, Bytes(std::as_const(lhs)), Bytes(std::as_const(rhs)),
                    Bytes(ranges) + row * s.n * 4, scratch);
  }
  CHECK(ranges == expected);
}

TEST_CASE("products of 8-bit integers, whole and in parts", "[cpu][dot]") {
  for (const Sizes& s :
       {Sizes{3, 5, 7, true}, Sizes{40, 50, 60, false}, Sizes{70, 1, 1031, false},
        Sizes{1, 70, 1031, true}, Sizes{530, 300, 530, true}, Sizes{300, 530, 530, false}}) {
    CheckSmallIntegers<int8_t, int8_t>(DType::kS8, DType::kS8, s);
    CheckSmallIntegers<uint8_t, int8_t>(DType::kU8, DType::kS8, s);
    CheckSmallIntegers<int8_t, uint8_t>(DType::kS8, DType::kU8, s);
    CheckSmallIntegers<uint8_t, uint8_t>(DType::kU8, DType::kPred, s);
  }
}

// bf16 and narrower floats, with whole numbers: exact in any order.
TEST_CASE("products of bf16, whole and in parts", "[cpu][dot]") {
  for (const Sizes& s :
       {Sizes{64, 80, 96, false}, Sizes{700, 300, 530, true}, Sizes{300, 700, 530, false}}) {
    CAPTURE(s.m, s.n, s.k, s.transposed);
    static const std::vector<int64_t> none, first = {0}, second = {1};
    const std::vector<int64_t> lhs_dims = {s.m, s.k};
    const std::vector<int64_t> rhs_dims =
        s.transposed ? std::vector<int64_t>{s.n, s.k} : std::vector<int64_t>{s.k, s.n};
    const DotProduct product({DType::kBF16, lhs_dims, none, second},
                             {DType::kBF16, rhs_dims, none, s.transposed ? second : first},
                             DType::kF32);
    const auto lhs = WholeNumbers<float>(s.m * s.k, 1), rhs = WholeNumbers<float>(s.k * s.n, 2);
    const auto to_bf16 = [](const std::vector<float>& values) {
      std::vector<uint16_t> bits;
      for (const float value : values) {
        bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
      }
      return bits;
    };
    const std::vector<uint16_t> a = to_bf16(lhs), b = to_bf16(rhs);
    const auto size = static_cast<size_t>(s.m * s.n);
    std::vector<float> expected(size), whole(size, -1), shared(size, -1), ranges(size, -1);
    AddProduct(s, lhs, rhs, expected);
    BumpScratch scratch;
    product.Run(Bytes(a), Bytes(b), Bytes(whole), scratch);
    CHECK(whole == expected);
    for (int64_t share = product.ShareCount(); share-- > 0;) {
      product.RunShare(share, Bytes(a), Bytes(b), Bytes(shared), scratch);
    }
    CHECK(shared == expected);
    for (int64_t row = 0; row < product.rows(); row += product.row_granule()) {
      const int64_t end = std::min(row + product.row_granule(), product.rows());
      product.RunRows(row, end, Bytes(a), Bytes(b), Bytes(ranges) + row * s.n * 4, scratch);
    }
    CHECK(ranges == expected);
  }
}

TEST_CASE("products of little work and products that end converted have one share", "[cpu][dot]") {
  CHECK(Make({64, 1024, 64, false}, DType::kF32).ShareCount() == 1);
  CHECK(Make({64, 1024, 4096, false}, DType::kBF16).ShareCount() == 1);
  CHECK(Make({64, 1024, 4096, false}, DType::kS32).ShareCount() == 1);
}

TEST_CASE("sums of products", "[cpu][dot]") {
  for (const bool transposed : {false, true}) {
    for (const int64_t m : {1, 3, 7, 13}) {
      for (const int64_t n : {1, 5, 16, 63, 64, 65, 130, 200}) {
        for (const int64_t k : {1, 2, 17, 257, 300}) {
          const Sizes s{m, n, k, transposed};
          CheckSum<float>(DType::kF32, s, 3, (m + n + k) % 2 == 0);
          CheckSum<double>(DType::kF64, s, 2, (m + n + k) % 2 == 1);
        }
      }
    }
  }
}

TEST_CASE("sums of products: many instances, and products for OpenBLAS", "[cpu][dot]") {
  for (const bool accumulate : {false, true}) {
    CheckSum<float>(DType::kF32, {5, 70, 3, false}, 40, accumulate);
    CheckSum<float>(DType::kF32, {70, 90, 20, true}, 33, accumulate);
    CheckSum<float>(DType::kF32, {130, 67, 65, false}, 5, accumulate);
    CheckSum<double>(DType::kF64, {129, 100, 80, true}, 3, accumulate);
    CheckSum<float>(DType::kF32, {65, 1025, 4100, false}, 2, accumulate);
  }
}

TEST_CASE("one lhs times many", "[cpu][dot]") {
  for (const bool transposed : {false, true}) {
    CheckWidened<float>(DType::kF32, {12, 5, 7, transposed}, 4);
    CheckWidened<double>(DType::kF64, {9, 3, 11, transposed}, 3);
  }
}

TEST_CASE("sums of products whose operands are packed", "[cpu][dot]") {
  // Contracted dims apart from each other: sum of a[p,i,q] b[p,j,q].
  const int64_t m = 6, n = 5, k = 3, k2 = 4;
  static const std::vector<int64_t> none, outer = {0, 2}, lhs_dims = {k, m, k2},
                                          rhs_dims = {k, n, k2};
  const DotProduct product({DType::kF32, lhs_dims, none, outer},
                           {DType::kF32, rhs_dims, none, outer}, DType::kF32);
  REQUIRE(product.CanSum());
  const auto a = WholeNumbers<float>(k * m * k2, 1), b = WholeNumbers<float>(k * m * k2, 2);
  const auto c = WholeNumbers<float>(k * n * k2, 3), d = WholeNumbers<float>(k * n * k2, 4);
  // An operand that is met again at once is packed once.
  const std::vector<const std::vector<float>*> lhs = {&a, &a, &b}, rhs = {&c, &d, &d};
  std::vector<const std::byte*> lhs_items, rhs_items;
  std::vector<float> sum(static_cast<size_t>(m * n)), expected(sum.size());
  for (size_t s = 0; s < lhs.size(); ++s) {
    lhs_items.push_back(Bytes(*lhs[s]));
    rhs_items.push_back(Bytes(*rhs[s]));
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          for (int64_t q = 0; q < k2; ++q) {
            expected[static_cast<size_t>(i * n + j)] +=
                (*lhs[s])[static_cast<size_t>((p * m + i) * k2 + q)] *
                (*rhs[s])[static_cast<size_t>((p * n + j) * k2 + q)];
          }
        }
      }
    }
  }
  BumpScratch scratch;
  product.RunSum(3, lhs_items.data(), rhs_items.data(), false, Bytes(sum), scratch);
  CHECK(sum == expected);
}

TEST_CASE("rows of a range of a product", "[cpu][dot]") {
  static const std::vector<int64_t> none, batch = {0}, first = {0}, second = {1}, third = {2};
  const std::vector<int64_t> lhs = {300, 7}, rhs = {7, 5};
  const auto granule = [&](DType left, DType right) {
    return DotProduct({left, lhs, none, second}, {right, rhs, none, first}, DType::kF32)
        .row_granule();
  };
  CHECK(granule(DType::kF32, DType::kF32) == 1);
  // What is converted for every range serves many rows.
  CHECK(granule(DType::kBF16, DType::kF32) == 150);
  CHECK(granule(DType::kF32, DType::kBF16) == 150);
  // Of a batch: whole products.
  const std::vector<int64_t> two = {2, 300, 7}, others = {2, 7, 5};
  CHECK(DotProduct({DType::kF32, two, batch, third}, {DType::kF32, others, batch, second},
                   DType::kF32)
            .row_granule() == 300);
}

TEST_CASE("a range of a batch packs its own products only", "[cpu][dot]") {
  // Two dims are contracted that do not lie beside each other.
  constexpr int64_t kBatch = 8, kRows = 5, kColumns = 3;
  const std::vector<int64_t> batch = {0}, contracting = {1, 3};
  const std::vector<int64_t> left = {kBatch, 2, kRows, 4}, right = {kBatch, 2, kColumns, 4};
  const DotProduct product({DType::kF32, left, batch, contracting},
                           {DType::kF32, right, batch, contracting}, DType::kF32);
  REQUIRE(product.row_granule() == kRows);
  const auto lhs = WholeNumbers<float>(Product(left), 1);
  const auto rhs = WholeNumbers<float>(Product(right), 2);
  std::vector<float> whole(kBatch * kRows * kColumns), parts(whole.size());
  testing::GarbageScratch all, own;
  product.Run(Bytes(lhs), Bytes(rhs), Bytes(whole), all);
  REQUIRE(all.bytes() == sizeof(float) * (lhs.size() + rhs.size()));
  for (int64_t first = 0; first < product.rows(); first += 2 * kRows) {
    product.RunRows(first, first + 2 * kRows, Bytes(lhs), Bytes(rhs),
                    Bytes(parts) + first * kColumns * static_cast<int64_t>(sizeof(float)), own);
  }
  CHECK(parts == whole);
  CHECK(own.bytes() == all.bytes());
}

}  // namespace gshard::cpu
