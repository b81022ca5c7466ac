// Minimum cuts against every cut of small random graphs.
#include "core/pipeline/plan/minimum_cut.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

namespace gshard::pipeline {

TEST_CASE("No cut is smaller, and none as small has less on the source's side") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const int n = 2 + static_cast<int>(random() % 6);
    FlowNetwork network;
    for (int i = 0; i < n; ++i) network.AddNode();
    std::vector<std::vector<int64_t>> capacity(static_cast<size_t>(n),
                                               std::vector<int64_t>(static_cast<size_t>(n), 0));
    for (int edges = static_cast<int>(random() % 14); edges > 0; --edges) {
      int from = static_cast<int>(random()) % n, to = static_cast<int>(random()) % n;
      from = std::abs(from), to = std::abs(to);
      if (from == to) continue;
      int64_t size = 1 + static_cast<int64_t>(random() % 5);
      network.AddEdge(from, to, size);
      capacity[static_cast<size_t>(from)][static_cast<size_t>(to)] += size;
    }
    auto cut = [&](auto&& on_source_side) {
      int64_t sum = 0;
      for (int a = 0; a < n; ++a) {
        for (int b = 0; b < n; ++b) {
          if (on_source_side(a) && !on_source_side(b)) {
            sum += capacity[static_cast<size_t>(a)][static_cast<size_t>(b)];
          }
        }
      }
      return sum;
    };
    const std::vector<bool> side = network.SourceSide(0, n - 1);
    REQUIRE(side.front());
    REQUIRE_FALSE(side.back());
    const int64_t found = cut([&](int i) { return side[static_cast<size_t>(i)]; });
    const long size = std::count(side.begin(), side.end(), true);
    for (unsigned subset = 0; subset < (1u << n); ++subset) {
      if ((subset & 1u) == 0 || (subset >> (n - 1) & 1u) != 0) continue;
      int64_t other = cut([&](int i) { return (subset >> i & 1u) != 0; });
      CHECK(found <= other);
      if (found == other) CHECK(size <= __builtin_popcount(subset));
    }
  }
}

}  // namespace gshard::pipeline
