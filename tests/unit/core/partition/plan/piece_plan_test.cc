// Piecewise exchanges: no shard sends or receives twice in a round, and there are no more rounds
// than a shard has pieces to send or to receive.
#include "core/partition/plan/piece_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

namespace gshard {
namespace {

TEST_CASE("Two halves joined: two rounds, in both of which everybody sends", "[partition]") {
  // Two arrays of 16 on 4 shards: result shard i has elements 8i .. 8i+7 of the 32 joined ones.
  std::vector<PieceMove> moves;
  for (int64_t piece = 0; piece < 8; ++piece) {
    int64_t buffer = piece / 4, source = piece % 4;
    moves.push_back({source, piece / 2, buffer, 0, piece % 2 * 4, 4});
  }
  PiecePlan plan = PlanPieces(4, moves);
  REQUIRE(plan.own.size() == 1);
  CHECK(plan.own[0].moves.size() == 2);  // shards 0 and 3 keep a tile each
  CHECK(plan.rounds.size() == 2);
  CHECK(plan.elements_received == 8);
}

TEST_CASE("Long pieces share a round", "[partition]") {
  std::vector<PieceMove> moves = {
      {0, 1, 0, 0, 0, 1}, {0, 2, 0, 0, 0, 9}, {3, 1, 0, 0, 1, 9}, {3, 2, 0, 0, 9, 1}};
  PiecePlan plan = PlanPieces(4, moves);
  CHECK(plan.rounds.size() == 2);
  CHECK(plan.elements_received == 10);
}

TEST_CASE("Rounds are matchings, as few as there can be", "[partition]") {
  std::mt19937 random(11);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int trial = 0; trial < 500; ++trial) {
    int64_t shards = pick(1, 12);
    std::vector<PieceMove> moves;
    std::map<int64_t, size_t> sends, receives;
    size_t sent = 0, degree = 0;
    for (int64_t k = pick(0, 40); k > 0; --k) {
      PieceMove move{pick(0, shards - 1), pick(0, shards - 1), 0, 0, 0, pick(1, 9)};
      moves.push_back(move);
      if (move.source == move.target) continue;
      ++sent;
      degree = std::max({degree, ++sends[move.source], ++receives[move.target]});
    }
    PiecePlan plan = PlanPieces(shards, moves);
    CAPTURE(trial, shards, moves.size());
    CHECK(plan.rounds.size() == degree);
    size_t found = 0;
    int64_t received = 0;
    for (const PieceRound& round : plan.rounds) {
      std::set<int64_t> sources, targets;
      int64_t longest = 0;
      for (const PieceMove& move : round.moves) {
        CHECK(sources.insert(move.source).second);
        CHECK(targets.insert(move.target).second);
        longest = std::max(longest, move.length);
        ++found;
      }
      CHECK(round.length == longest);
      received += longest;
    }
    CHECK(found == sent);
    CHECK(plan.elements_received == received);
    for (const PieceRound& round : plan.own) {
      std::set<int64_t> shards_seen;
      int64_t longest = 0;
      for (const PieceMove& move : round.moves) {
        longest = std::max(longest, move.length);
        CHECK(move.source == move.target);
        CHECK(shards_seen.insert(move.source).second);
        ++found;
      }
      CHECK(round.length == longest);
    }
    CHECK(found == moves.size());
  }
}

}  // namespace
}  // namespace gshard
