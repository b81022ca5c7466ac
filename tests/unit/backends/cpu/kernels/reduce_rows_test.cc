// Which reductions have a kernel that folds rows; their results are the reference tests'.
#include "backends/cpu/kernels/reduce_rows.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <complex>
#include <vector>

namespace gshard::cpu {

TEMPLATE_TEST_CASE("rows of complex numbers are summed, nothing else", "[kernels][reduce]", float,
                   double) {
  const DType type = sizeof(TestType) == 4 ? DType::kC64 : DType::kC128;
  CHECK(FindReduceRows(Opcode::kMultiply, type) == nullptr);
  CHECK(FindReduceRows(Opcode::kMaximum, type) == nullptr);
  const ReduceRowsFunction sum = FindReduceRows(Opcode::kAdd, type);
  REQUIRE(sum != nullptr);
  using Complex = std::complex<TestType>;
  const Complex in[] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}};
  Complex sums[] = {{100, 0}, {0, 100}};
  sum(in, 2, 2, 3, sums);  // the first two of each row of three
  CHECK(sums[0] == Complex{104, 6});
  CHECK(sums[1] == Complex{16, 118});
}

TEST_CASE("whole vectors of a row are added as vectors", "[kernels][reduce]") {
  // Ones behind 2^24: added to it one by one they are lost.
  const ReduceRowsFunction sum = FindReduceRows(Opcode::kAdd, DType::kF32);
  for (const int64_t n : {16, 32, 48, 64}) {
    CAPTURE(n);
    std::vector<float> row(static_cast<size_t>(n), 0.0f);
    row[0] = 16777216;
    std::fill(row.begin() + n / 2, row.end(), 1.0f);
    float result = 0;
    sum(row.data(), n, 1, n, &result);
    CHECK(result >= 16777216 + static_cast<float>(n / 4));
  }
}

}  // namespace gshard::cpu
