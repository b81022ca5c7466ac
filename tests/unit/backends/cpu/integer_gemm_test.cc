// Integer products against one element at a time, wrapping: small values go in pairs, or through
// floats.
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "backends/cpu/kernels/gemm.h"

namespace gshard::cpu {
namespace {

template <typename T>
void CheckProduct(int64_t m, int64_t n, int64_t k, T low, T range, bool columns_first) {
  INFO(m << " x " << n << " x " << k << ", from " << low << " on, " << range);
  std::mt19937_64 random(static_cast<uint64_t>(m * 31 + n));
  const auto fill = [&](int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values) value = static_cast<T>(low + static_cast<T>(random()) % range);
    return values;
  };
  std::vector<T> a = fill(m * k), b = fill(k * n), c(static_cast<size_t>(m * n), T{7});
  // The ends of the range, side by side.
  a[0] = b[0] = low;
  a[1] = b[1] = static_cast<T>(low + range - 1);
  const int64_t b_row = columns_first ? 1 : n, b_column = columns_first ? k : 1;
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  std::vector<T> expected(c.size(), T{0});
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) {
        expected[at(i * n + j)] += a[at(i * k + p)] * b[at(p * b_row + j * b_column)];
      }
    }
  }
  IntegerGemm(m, n, k, MatrixView<T>{a.data(), k, 1}, MatrixView<T>{b.data(), b_row, b_column},
              c.data(), n);
  CHECK(c == expected);
}

template <typename T>
void CheckRanges(int64_t m, int64_t n, int64_t k, bool columns_first) {
  CheckProduct<T>(m, n, k, static_cast<T>(-128), 256, columns_first);      // s8: pairs
  CheckProduct<T>(m, n, k, 0, 256, columns_first);                         // u8
  CheckProduct<T>(m, n, k, static_cast<T>(-32768), 65536, columns_first);  // s16: pairs, or doubles
  CheckProduct<T>(m, n, k, 0, 1 << 30, columns_first);                     // wraps: neither
}

TEST_CASE("integer products are exact in every range", "[integer_gemm]") {
  for (bool columns_first : {false, true}) {
    CheckRanges<uint32_t>(3, 5, 7, columns_first);
    CheckRanges<uint32_t>(33, 70, 300, columns_first);
    CheckRanges<uint32_t>(250, 17, 513, columns_first);
    CheckRanges<uint64_t>(33, 40, 300, columns_first);
  }
}

// Factors of 16 bits are multiplied in pairs along k, in panels; both ends of the range, whose pair
// of products is 2^31.
void CheckShort(int64_t m, int64_t n, int64_t k, bool columns_first, bool rows_first) {
  INFO(m << " x " << n << " x " << k << (columns_first ? ", b by columns" : "")
         << (rows_first ? ", a by columns" : ""));
  std::mt19937_64 random(static_cast<uint64_t>(m * 31 + n));
  const auto fill = [&](int64_t count) {
    std::vector<int16_t> values(static_cast<size_t>(count));
    for (int16_t& value : values) value = static_cast<int16_t>(random());
    for (size_t i = 0; i < values.size(); i += 3) values[i] = i % 2 == 0 ? INT16_MIN : INT16_MAX;
    return values;
  };
  const std::vector<int16_t> a = fill(m * k), b = fill(k * n);
  const MatrixView<int16_t> left{a.data(), rows_first ? 1 : k, rows_first ? m : 1};
  const MatrixView<int16_t> right{b.data(), columns_first ? 1 : n, columns_first ? k : 1};
  const int64_t c_row = n + 3;  // what lies between rows stays
  std::vector<uint32_t> c(static_cast<size_t>(m * c_row), 7), expected = c;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      uint32_t sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        const int32_t product = left.data[i * left.row + p * left.column] *
                                right.data[p * right.row + j * right.column];
        sum += static_cast<uint32_t>(product);
      }
      expected[static_cast<size_t>(i * c_row + j)] = sum;
    }
  }
  IntegerGemm(m, n, k, left, right, c.data(), c_row);
  CHECK(c == expected);
}

TEST_CASE("products of 16-bit integers", "[integer_gemm]") {
  for (bool columns_first : {false, true}) {
    for (bool rows_first : {false, true}) {
      CheckShort(1, 9, 40, columns_first, rows_first);
      CheckShort(3, 5, 7, columns_first, rows_first);
      CheckShort(7, 64, 512, columns_first, rows_first);
      CheckShort(13, 37, 1031, columns_first, rows_first);
      CheckShort(247, 270, 33, columns_first, rows_first);
    }
  }
}

TEST_CASE("the edge where floats stop being exact", "[integer_gemm]") {
  // 256 products of 256 * 256 are 2^24, the last exact sum; with one more it must be a double.
  for (uint32_t largest : {256u, 257u, 300u, 4096u, 92681u}) {
    const std::vector<uint32_t> a(64 * 256, largest), b(256 * 64, largest);
    std::vector<uint32_t> c(64 * 64);
    IntegerGemm(64, 64, 256, MatrixView<uint32_t>{a.data(), 256, 1},
                MatrixView<uint32_t>{b.data(), 64, 1}, c.data(), 64);
    CHECK(c == std::vector<uint32_t>(64 * 64, 256 * largest * largest));
  }
}

}  // namespace
}  // namespace gshard::cpu
