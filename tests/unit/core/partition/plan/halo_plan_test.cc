// Halo plans: worked cases (docs/partitioning.md, "Halo exchange") and, for random requests, that
// what arrives is what is needed.
#include "core/partition/plan/halo_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>

#include "core/partition/scope/dim_range.h"

namespace gshard {
namespace {

// "d:low-high" per piece; own data as d = 0.
std::string Pieces(const HaloPlan& plan) {
  std::string text;
  for (const HaloPiece& piece : plan.pieces) {
    text += std::to_string(piece.distance) + ":" + std::to_string(piece.low) + "-" +
            std::to_string(piece.high) + " ";
  }
  return text;
}

std::string Receivers(const HaloPiece& piece) {
  std::string text;
  for (int64_t i : piece.receivers) text += std::to_string(i);
  return text;
}

TEST_CASE("A window of 3 over 16 elements: one from either side", "[partition]") {
  DimRange range{.size = 16, .scale = 4, .bias = -1, .length = 6, .end = 17};
  HaloPlan plan = PlanRange(range, 4, 64);
  CHECK(plan.form == HaloPlan::Form::kNeighbours);
  CHECK(Pieces(plan) == "-1:3-4 0:0-4 1:0-1 ");
  CHECK(Receivers(plan.pieces[0]) == "123");
  CHECK(Receivers(plan.pieces[2]) == "012");
  CHECK(plan.elements_received == 2);
}

TEST_CASE("Stride 2 over 11 elements: nobody needs its left neighbour", "[partition]") {
  // Windows of 3, padding 1_1: 6 outputs, 2 a shard; shard i reads positions 4i - 1 .. 4i + 3.
  DimRange range{.size = 11, .scale = 4, .bias = -1, .length = 5, .end = 12};
  HaloPlan plan = PlanRange(range, 4, 64);
  // Shard 2 reads 7..10 and has 6..8; shard 3 would read padding only.
  CHECK(Pieces(plan) == "0:0-3 1:0-2 ");
  CHECK(Receivers(plan.pieces[1]) == "012");
}

TEST_CASE("A slice whose boundaries drift", "[partition]") {
  // [3:31] of 32: shard i reads [3 + 7i, 10 + 7i).
  DimRange range{.size = 32, .scale = 7, .bias = 3, .length = 7, .first = 3, .end = 31};
  HaloPlan plan = PlanRange(range, 4, 64);
  CHECK(Pieces(plan) == "0:0-8 1:0-2 ");
  CHECK(plan.elements_received == 2);
}

TEST_CASE("A pad that moves boundaries", "[partition]") {
  // 10 elements, padding 2_4: tiles of 3 become tiles of 4.
  DimRange range{.size = 10, .scale = 4, .bias = -2, .length = 4, .end = 14};
  HaloPlan plan = PlanRange(range, 4, 64);
  CHECK(Pieces(plan) == "-1:2-3 0:0-3 1:0-1 ");
  // Shard 0 starts with padding, shard 3 has nothing else.
  CHECK(Receivers(plan.pieces[0]) == "1");
  CHECK(Receivers(plan.pieces[2]) == "2");
}

TEST_CASE("Tiles that grow exchange in one direction", "[partition]") {
  // f32[6,5] on 4 shards read as 30 elements: tiles of 10, wanted tiles of 8.
  HaloRequest request{.shards = 4, .tile = 10, .size = 30, .scale = 8, .width = 8};
  HaloPlan plan = PlanHalo(request);
  CHECK(Pieces(plan) == "-1:4-10 0:0-8 ");
  CHECK(Receivers(plan.pieces[0]) == "123");
}

TEST_CASE("A ring passes a shift on to the first shard", "[partition]") {
  HaloRequest request{
      .shards = 8, .tile = 2, .size = 16, .scale = 2, .bias = 1, .width = 2, .ring = true};
  HaloPlan plan = PlanHalo(request);
  CHECK(Pieces(plan) == "0:1-2 1:0-1 ");
  CHECK(Receivers(plan.pieces[1]) == "01234567");
}

TEST_CASE("Mirrored tiles are one permute", "[partition]") {
  // Reverse of 64 elements on 32 shards.
  HaloPlan mirror =
      PlanHalo({.shards = 32, .tile = 2, .size = 64, .scale = -2, .bias = 62, .width = 2});
  CHECK(mirror.form == HaloPlan::Form::kOneTile);
  CHECK(mirror.rounds.size() == 1);
  CHECK(mirror.rounds[0].pairs[3] == std::pair<int64_t, int64_t>(28, 3));
  CHECK(mirror.elements_received == 2);
  // 63 elements: tiles straddle.
  HaloPlan uneven =
      PlanHalo({.shards = 32, .tile = 2, .size = 63, .scale = -2, .bias = 61, .width = 2});
  CHECK(uneven.form != HaloPlan::Form::kOneTile);
}

TEST_CASE("One reader that begins before the tile gets the tile", "[partition]") {
  // Only the first of four tiles has data; shard 1 reads -2 .. 5.
  HaloPlan plan =
      PlanHalo({.shards = 4, .tile = 4, .size = 4, .scale = 8, .bias = -10, .width = 8});
  CHECK(plan.form == HaloPlan::Form::kOneTile);
  CHECK(Pieces(plan) == "0:0-4 ");
  CHECK(plan.elements_received == 4);
}

TEST_CASE("Halved tiles take as many rounds as a tile has readers", "[partition]") {
  // The first half of 64 elements, cut 32 ways again: every tile has two readers.
  HaloPlan half =
      PlanHalo({.shards = 32, .tile = 2, .size = 32, .scale = 1, .width = 1, .row_bytes = 256});
  CHECK(half.form == HaloPlan::Form::kRounds);
  CHECK(half.rounds.size() == 2);
  CHECK(half.elements_received == 2);
}

TEST_CASE("One edge that drifts is sent where it is wanted", "[partition]") {
  // [14:64:7] of 64: everybody reads one element, all but the last from the next tile.
  DimRange range{.size = 64, .scale = 7, .bias = 14, .length = 1, .first = 14, .end = 64};
  HaloPlan wide = PlanRange(range, 8, 1024);
  CHECK(wide.form == HaloPlan::Form::kRounds);
  CHECK(wide.elements_received == 1);
  // Seven elements of 4 bytes are not worth the arithmetic.
  CHECK(PlanRange(range, 8, 4).form == HaloPlan::Form::kNeighbours);
}

TEST_CASE("Whoever reads everything gathers", "[partition]") {
  DimRange range{.size = 64, .scale = 2, .bias = -63, .length = 65};
  CHECK(PlanRange(range, 32, 64).form == HaloPlan::Form::kGather);
}

TEST_CASE("Every element needed arrives", "[partition]") {
  std::mt19937 random(7);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int seen[4] = {0, 0, 0, 0};
  for (int trial = 0; trial < 4000; ++trial) {
    HaloRequest request;
    request.shards = pick(2, 24);
    request.tile = pick(1, 6);
    request.size = pick(0, request.shards * request.tile);
    request.begin = pick(0, 3) == 0 ? pick(0, request.size) : 0;
    request.divisor = pick(1, 3);
    request.scale = pick(-3 * request.tile, 3 * request.tile);
    request.bias = pick(-20, 30);
    request.width = pick(1, 12);
    request.row_bytes = static_cast<double>(int64_t{1} << pick(0, 12));
    HaloPlan plan = PlanHalo(request);
    ++seen[static_cast<int>(plan.form)];
    CAPTURE(trial, request.shards, request.tile, request.size, request.scale, request.bias,
            request.divisor, request.width);
    // Senders divide by the scale.
    if (plan.form == HaloPlan::Form::kRounds) REQUIRE(request.scale != 0);
    for (const HaloPiece& piece : plan.pieces) {
      REQUIRE(piece.low >= 0);
      REQUIRE(piece.high <= request.tile);
    }
    std::set<std::pair<int64_t, int64_t>> once;
    for (size_t t = 0; t < plan.rounds.size(); ++t) {
      for (auto [source, receiver] : plan.rounds[t].pairs) {
        REQUIRE(once.insert({2 * static_cast<int64_t>(t), source}).second);
        REQUIRE(once.insert({2 * static_cast<int64_t>(t) + 1, receiver}).second);
      }
      once.clear();
    }
    for (int64_t i = 0; i < request.shards; ++i) {
      int64_t begin = std::max(request.Start(i), request.begin);
      int64_t end = std::min(request.Start(i) + request.width, request.size);
      for (int64_t p = begin; p < end; ++p) {
        int64_t source = p / request.tile;
        if (plan.form == HaloPlan::Form::kNeighbours) {
          auto piece = std::find_if(plan.pieces.begin(), plan.pieces.end(),
                                    [&](const auto& x) { return x.distance == source - i; });
          REQUIRE(piece != plan.pieces.end());
          REQUIRE(piece->low <= p % request.tile);
          REQUIRE(p % request.tile < piece->high);
          REQUIRE(std::count(piece->receivers.begin(), piece->receivers.end(), i) == 1);
        } else if (plan.form == HaloPlan::Form::kRounds && source != i) {
          auto t = static_cast<size_t>(i + source) % plan.rounds.size();
          const HaloRound& round = plan.rounds[t];
          REQUIRE(std::count(round.pairs.begin(), round.pairs.end(), std::pair(source, i)) == 1);
          int64_t overlap =
              std::min(end, (source + 1) * request.tile) - std::max(begin, source * request.tile);
          REQUIRE(round.length >= overlap);
        } else if (plan.form == HaloPlan::Form::kOneTile) {
          const HaloRound& round = plan.rounds[0];
          REQUIRE(std::count(round.pairs.begin(), round.pairs.end(), std::pair(source, i)) == 1);
          REQUIRE(plan.pieces[0].low <= p % request.tile);
          REQUIRE(p % request.tile < plan.pieces[0].high);
          REQUIRE(request.Start(i) - source * request.tile ==
                  request.Start(round.pairs[0].second) - round.pairs[0].first * request.tile);
        }
      }
    }
  }
  CHECK(seen[0] > 100);
  CHECK(seen[1] > 100);
  CHECK(seen[2] > 20);
  CHECK(seen[3] > 100);
}

}  // namespace
}  // namespace gshard
