#include "backends/cpu/io/index_values.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

namespace gshard::cpu {
namespace {

std::vector<int32_t> Drawn(const IndexValues& values, int64_t count, int64_t draw = 0,
                           uint64_t seed = 0) {
  std::vector<int32_t> drawn(static_cast<size_t>(count));
  values.Fill(seed, 3, draw, 0, count, reinterpret_cast<std::byte*>(drawn.data()));
  return drawn;
}

IndexInput Of(std::vector<IndexRange> ranges) {
  IndexInput input;
  input.ranges = std::move(ranges);
  return input;
}

TEST_CASE("indices reach every edge and lie a little beyond both ends", "[cpu]") {
  const std::vector<int64_t> dims{32, 1};
  const IndexValues values(Of({{0, 63, true, 64}}), DType::kS32, dims);
  CHECK(values.WantedDraws() == 1);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::set<int32_t> inside;
    int below = 0, above = 0;
    for (int32_t value : Drawn(values, 32, 0, seed)) {
      if (value >= 0 && value < 64) inside.insert(value);
      below += value < 0;
      above += value > 63;
      CHECK((value >= -8 && value < 72));
    }
    // The first and the last row of each tile.
    for (int32_t tile = 0; tile < 8; ++tile) {
      CHECK(inside.contains(8 * tile));
      CHECK(inside.contains(8 * tile + 7));
    }
    CHECK(below == 1);
    CHECK(above == 1);
  }
}

TEST_CASE("many indices reach every value about equally often", "[cpu]") {
  const std::vector<int64_t> dims{4096};
  const IndexValues values(Of({{5, 20, false}}), DType::kS32, dims);
  std::map<int32_t, int> counts;
  for (int32_t value : Drawn(values, 4096)) ++counts[value];
  CHECK(counts.size() == 16);
  CHECK(counts.begin()->first == 5);
  for (const auto& [value, count] : counts) CHECK(count == 256);
}

TEST_CASE("a scalar reaches every edge and both ends in as many draws as it wants", "[cpu]") {
  const IndexValues values(Of({{0, 63, true, 64}}), DType::kS32, {});
  REQUIRE(values.WantedDraws() == 20);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::set<int32_t> drawn;
    for (int64_t draw = 0; draw < values.WantedDraws(); ++draw) {
      drawn.insert(Drawn(values, 1, draw, seed)[0]);
    }
    for (int32_t tile = 0; tile < 8; ++tile) {
      CHECK(drawn.contains(8 * tile));
      CHECK(drawn.contains(8 * tile + 7));
    }
    CHECK(*drawn.begin() < 0);
    CHECK(*drawn.rbegin() > 63);
  }
  // Of a slice of 6 rows of 50 on up to 8 devices: tiles of 7, 13 and 25.
  const IndexValues slices(Of({{0, 44, true, 50}}), DType::kS32, {});
  REQUIRE(slices.WantedDraws() <= IndexValues::kMaxWanted);
  // Also where not all edges are wanted, both ends are.
  const IndexValues from_end(Of({{-64, 63, true, 64}}), DType::kS32, {});
  REQUIRE(from_end.WantedDraws() == IndexValues::kMaxWanted);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::set<int32_t> drawn;
    for (int64_t draw = 0; draw < from_end.WantedDraws(); ++draw) {
      drawn.insert(Drawn(from_end, 1, draw, seed)[0]);
    }
    CHECK(*drawn.begin() < -64);
    CHECK(*drawn.rbegin() > 63);
    CHECK(drawn.size() >= 22);
  }
  // Two branches and what is beyond them take four.
  const IndexValues branches(Of({{0, 1, true}}), DType::kS32, {});
  CHECK(branches.WantedDraws() == 4);
  const IndexValues either(Of({{0, 1, false}}), DType::kPred, {});
  CHECK(either.WantedDraws() == 2);
}

TEST_CASE("components of index vectors have their own ranges", "[cpu]") {
  IndexInput input = Of({{0, 99, false}, {200, 209, false}});
  input.component_dim = 0;
  const std::vector<int64_t> dims{2, 50};
  const IndexValues values(input, DType::kS32, dims);
  const std::vector<int32_t> drawn = Drawn(values, 100);
  for (size_t i = 0; i < 50; ++i) {
    CHECK((drawn[i] >= 0 && drawn[i] < 100));
    CHECK((drawn[50 + i] >= 200 && drawn[50 + i] < 210));
  }
  // Of other dims: one range for all.
  const std::vector<int64_t> others{4};
  CHECK(IndexValues(input, DType::kS32, others).ranges() ==
        std::vector<IndexRange>{{0, 209, false}});
}

TEST_CASE("what is promised of indices holds", "[cpu]") {
  const std::vector<int64_t> dims{40};
  IndexInput input = Of({{0, 63, true}});
  input.is_distinct = true;
  for (int64_t draw = 0; draw < 5; ++draw) {
    const auto drawn = Drawn(IndexValues(input, DType::kS32, dims), 40, draw);
    const std::set<int32_t> distinct(drawn.begin(), drawn.end());
    CHECK(distinct.size() == 40);
    CHECK((*distinct.begin() >= 0 && *distinct.rbegin() < 64));
  }
  input.is_distinct = false;
  input.is_sorted = true;
  for (int64_t count : {40, 100}) {
    const std::vector<int64_t> sorted_dims{count};
    const auto drawn = Drawn(IndexValues(input, DType::kS32, sorted_dims), count);
    CHECK(std::ranges::is_sorted(drawn));
    CHECK(drawn.front() < 8);
    CHECK(drawn.back() >= 56);
  }
}

TEST_CASE("values fit their type and depend on their place only", "[cpu]") {
  const std::vector<int64_t> dims{200};
  const IndexValues small(Of({{-4, 300, true}}), DType::kU8, dims);
  std::vector<uint8_t> bytes(200);
  small.Fill(0, 0, 0, 0, 200, reinterpret_cast<std::byte*>(bytes.data()));
  CHECK(small.ranges() == std::vector<IndexRange>{{0, 255, false}});
  const IndexValues values(Of({{0, 1000, true}}), DType::kS32, dims);
  const auto whole = Drawn(values, 200);
  std::vector<int32_t> part(50);
  values.Fill(0, 3, 0, 100, 50, reinterpret_cast<std::byte*>(part.data()));
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 100));
  CHECK(Drawn(values, 200, 0, 1) != whole);
  CHECK(Drawn(values, 200, 1) != whole);
}

}  // namespace
}  // namespace gshard::cpu
