// The worklist is a set with neighbour search: compared with std::set over random operations.
#include "core/propagation/worklist.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace gshard {
namespace {

TEST_CASE("A worklist finds the next and the previous member", "[propagation]") {
  for (uint32_t size : {1u, 64u, 65u, 4096u, 5000u, 300000u}) {
    std::mt19937 random(size);
    std::uniform_int_distribution<uint32_t> position(0, size - 1);
    Worklist list(size);
    std::set<uint32_t> expected;
    for (int step = 0; step < 2000; ++step) {
      uint32_t p = position(random);
      if (random() % 2 == 0) {
        list.Add(p);
        expected.insert(p);
      } else {
        list.Remove(p);
        expected.erase(p);
      }
      uint32_t q = position(random);
      auto next = expected.lower_bound(q);
      REQUIRE(list.Next(q) == (next == expected.end() ? Worklist::kNone : *next));
      auto after = expected.upper_bound(q);
      REQUIRE(list.Previous(q) ==
              (after == expected.begin() ? Worklist::kNone : *std::prev(after)));
    }
    REQUIRE(list.empty() == expected.empty());
  }
}

TEST_CASE("An empty worklist and its ends", "[propagation]") {
  Worklist list(70);
  CHECK(list.empty());
  CHECK(list.Next(0) == Worklist::kNone);
  CHECK(list.Previous(69) == Worklist::kNone);
  list.Add(0);
  list.Add(69);
  CHECK(list.Next(1) == 69);
  CHECK(list.Next(70) == Worklist::kNone);
  CHECK(list.Previous(68) == 0);
}

}  // namespace
}  // namespace gshard
