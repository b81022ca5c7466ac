#include "ir/tile_assignment.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

namespace gshard {
namespace {

using Ints = std::vector<int64_t>;

TileAssignment Iota(const Ints& dims, const Ints& reshape, const Ints& permutation) {
  return TileAssignment::Iota(dims, reshape, permutation);
}

TEST_CASE("iota arrays read as documented", "[ir][tile_assignment]") {
  CHECK(TileAssignment::Iota(Ints{2, 4}).ToList() == Ints{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(Iota({4, 2}, {2, 4}, {1, 0}).ToList() == Ints{0, 4, 1, 5, 2, 6, 3, 7});
  CHECK(Iota({2, 4}, {4, 2}, {1, 0}).ToList() == Ints{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK(Iota({2, 2, 2}, {2, 2, 2}, {0, 2, 1}).ToList() == Ints{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(Iota({4, 2}, {2, 2, 2}, {1, 0, 2}).ToList() == Ints{0, 1, 4, 5, 2, 3, 6, 7});
}

TEST_CASE("canonical iota text", "[ir][tile_assignment]") {
  CHECK(Iota({2, 4}, {2, 4}, {0, 1}).ToString() == "[2,4]<=[8]");
  CHECK(Iota({8}, {2, 2, 2}, {2, 0, 1}).ToString() == "[8]<=[4,2]T(1,0)");
  CHECK(Iota({60}, {3, 4, 5}, {1, 2, 0}).ToString() == "[60]<=[3,20]T(1,0)");
  CHECK(Iota({2, 4}, {1, 8}, {1, 0}).ToString() == "[2,4]<=[8]");
  CHECK(Iota({2, 2, 2}, {2, 2, 2}, {2, 1, 0}).ToString() == "[2,2,2]<=[2,2,2]T(2,1,0)");
  CHECK(TileAssignment::Iota(Ints{1, 1}).ToString() == "[1,1]<=[1]");
  CHECK(TileAssignment::List(Ints{2, 2}, {0, 3, 1, 2}).ToString() == "[2,2]0,3,1,2");
  CHECK(TileAssignment::Iota(Ints{2, 2}).ToString(true) == "[2,2]0,1,2,3");
}

TEST_CASE("lists that have an axis form are recognised", "[ir][tile_assignment]") {
  CHECK(TileAssignment::List(Ints{2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}) ==
        TileAssignment::Iota(Ints{2, 4}));
  CHECK(TileAssignment::List(Ints{4, 2}, {0, 4, 1, 5, 2, 6, 3, 7}) == Iota({4, 2}, {2, 4}, {1, 0}));
  CHECK(TileAssignment::List(Ints{6}, {0, 3, 1, 4, 2, 5}).has_axes());
  CHECK_FALSE(TileAssignment::List(Ints{6}, {0, 1, 2, 4, 3, 5}).has_axes());
  CHECK_FALSE(TileAssignment::List(Ints{4}, {3, 2, 1, 0}).has_axes());
  CHECK_FALSE(TileAssignment::List(Ints{4}, {1, 0, 2, 3}).has_axes());
  // Every permutation of six: canonical equality holds, and a recognised form gives the list back.
  Ints list = {0, 1, 2, 3, 4, 5};
  int with_axes = 0;
  do {
    const TileAssignment tiles = TileAssignment::List(Ints{6}, list);
    REQUIRE(tiles.ToList() == list);
    with_axes += tiles.has_axes() ? 1 : 0;
  } while (std::ranges::next_permutation(list).found);
  CHECK(with_axes == 3);  // [6], [2,3]T(1,0), [3,2]T(1,0)
}

TEST_CASE("dims that cut an axis unevenly have no per-dim view", "[ir][tile_assignment]") {
  const TileAssignment cut = TileAssignment::Iota(Ints{6, 2}).Reshape(Ints{12});
  CHECK(cut.Reshape(Ints{3, 4}).AxesByDim().has_value());
  CHECK_FALSE(Iota({2, 3}, {3, 2}, {1, 0}).AxesOfDim(5 % 2).value().empty());
  CHECK_FALSE(Iota({3, 2}, {3, 2}, {1, 0}).AxesByDim().has_value());
  CHECK(TileAssignment::Iota(Ints{6, 2}).AxesOfDim(0) == std::vector<DeviceAxis>{{6, 2}});
  CHECK(TileAssignment::Iota(Ints{6, 2}).AxesOfDim(1) == std::vector<DeviceAxis>{{2, 1}});
}

// --- against plain lists

struct Reference {
  Ints dims, list;
  size_t Flat(const Ints& coordinate) const {
    int64_t flat = 0;
    for (size_t i = 0; i < dims.size(); ++i) flat = flat * dims[i] + coordinate[i];
    return static_cast<size_t>(flat);
  }
  Ints Coordinate(int64_t flat) const {
    Ints coordinate(dims.size());
    for (size_t i = dims.size(); i-- > 0;) {
      coordinate[i] = flat % dims[i];
      flat /= dims[i];
    }
    return coordinate;
  }
};

Ints RandomFactors(std::mt19937& rng, int64_t n, bool ones) {
  Ints factors;
  while (n > 1) {
    Ints divisors;
    for (int64_t d = 2; d <= n; ++d) {
      if (n % d == 0) divisors.push_back(d);
    }
    factors.push_back(divisors[rng() % divisors.size()]);
    n /= factors.back();
  }
  if (ones) factors.insert(factors.begin() + static_cast<long>(rng() % (factors.size() + 1)), 1);
  std::ranges::shuffle(factors, rng);
  return factors;
}

TEST_CASE("operations agree with plain lists", "[ir][tile_assignment]") {
  std::mt19937 rng(7);
  const Ints counts = {1, 2, 4, 6, 8, 12, 16, 24};
  for (int trial = 0; trial < 4000; ++trial) {
    const int64_t n = counts[rng() % counts.size()];
    TileAssignment tiles;
    Reference reference;
    reference.dims = RandomFactors(rng, n, rng() % 2 == 0);
    if (rng() % 4 == 0) {
      Ints list(static_cast<size_t>(n));
      std::iota(list.begin(), list.end(), int64_t{0});
      std::ranges::shuffle(list, rng);
      tiles = TileAssignment::List(reference.dims, list);
      reference.list = list;
    } else {
      const Ints reshape = RandomFactors(rng, n, rng() % 3 == 0);
      Ints permutation(reshape.size());
      std::iota(permutation.begin(), permutation.end(), int64_t{0});
      std::ranges::shuffle(permutation, rng);
      tiles = TileAssignment::Iota(reference.dims, reshape, permutation);
      reference.list = tiles.ToList();
    }
    INFO(tiles.ToString());
    REQUIRE(TileAssignment::List(reference.dims, reference.list) == tiles);
    REQUIRE(TileAssignment::List(reference.dims, reference.list).Hash() == tiles.Hash());
    for (int64_t i = 0; i < n; ++i) {
      const int64_t device = reference.list[static_cast<size_t>(i)];
      REQUIRE(tiles.DeviceAtFlat(i) == device);
      REQUIRE(tiles.FlatIndexOf(device) == i);
      REQUIRE(tiles.DeviceAt(reference.Coordinate(i)) == device);
      REQUIRE(tiles.CoordinateOf(device) == reference.Coordinate(i));
    }
    // Axes of the dims spell the array.
    if (const auto by_dim = tiles.AxesByDim()) {
      std::vector<DeviceAxis> axes;
      for (const auto& part : *by_dim) axes.insert(axes.end(), part.begin(), part.end());
      REQUIRE(TileAssignment::FromAxes(reference.dims, axes) == tiles);
    }
    // Transpose.
    Ints permutation(reference.dims.size());
    std::iota(permutation.begin(), permutation.end(), int64_t{0});
    std::ranges::shuffle(permutation, rng);
    const TileAssignment transposed = tiles.Transpose(permutation);
    Reference target;
    for (int64_t p : permutation) target.dims.push_back(reference.dims[static_cast<size_t>(p)]);
    REQUIRE(Ints(transposed.dims().begin(), transposed.dims().end()) == target.dims);
    for (int64_t i = 0; i < n; ++i) {
      const Ints from = reference.Coordinate(i);
      Ints to;
      for (int64_t p : permutation) to.push_back(from[static_cast<size_t>(p)]);
      REQUIRE(transposed.DeviceAt(to) == reference.list[static_cast<size_t>(i)]);
    }
    // Reverse along a random subset.
    Ints reversed_dims;
    for (size_t i = 0; i < reference.dims.size(); ++i) {
      if (rng() % 2 == 0) reversed_dims.push_back(static_cast<int64_t>(i));
    }
    const TileAssignment reversed = tiles.Reverse(reversed_dims);
    for (int64_t i = 0; i < n; ++i) {
      Ints at = reference.Coordinate(i);
      for (int64_t d : reversed_dims) {
        const auto k = static_cast<size_t>(d);
        at[k] = reference.dims[k] - 1 - at[k];
      }
      REQUIRE(reversed.DeviceAt(at) == reference.list[static_cast<size_t>(i)]);
    }
    // Sorting the last dim.
    Ints sorted = reference.list;
    const int64_t last = reference.dims.empty() ? 1 : reference.dims.back();
    for (auto run = sorted.begin(); run != sorted.end(); run += last) std::sort(run, run + last);
    REQUIRE(tiles.SortLastDim().ToList() == sorted);
  }
}

TEST_CASE("Arrays over some of the devices", "[ir][tile_assignment]") {
  const TileAssignment tiles = TileAssignment::List(Ints{2, 2}, {5, 0, 1000000, 4});
  CHECK_FALSE(tiles.has_axes());
  CHECK(tiles.ToString() == "[2,2]5,0,1000000,4");
  CHECK(tiles.CoordinateOf(1000000) == Ints{1, 0});
  CHECK(tiles.FlatIndexOf(0) == 1);
  CHECK(tiles.Transpose(Ints{1, 0}).ToString() == "[2,2]5,1000000,0,4");
  CHECK(tiles.SortLastDim().ToString() == "[2,2]0,5,4,1000000");
  // An arithmetic series from 0, but not of all devices.
  CHECK_FALSE(TileAssignment::List(Ints{4}, {0, 2, 4, 6}).has_axes());
}

}  // namespace

}  // namespace gshard
