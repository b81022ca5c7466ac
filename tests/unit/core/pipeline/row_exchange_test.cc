#include "core/pipeline/row_exchange.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard::pipeline {

namespace {

// The collective-permutes that ExchangeRows makes of moves between `stages` stages, which hold
// `held` arrays of `each` rows, and get `count` rows.
int64_t Permutes(int64_t stages, size_t held, int64_t each, int64_t count,
                 const std::vector<RowMove>& moves) {
  auto m = Parsed("HloModule m\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}");
  const RegionShardings shardings(m->context(), stages, 1);
  Builder b(*m, m->entry());
  const int64_t dims[] = {each, 4};
  std::vector<Instruction*> arrays;
  for (size_t i = 0; i < held; ++i) {
    arrays.push_back(b.Zero(m->context().Array(DType::kF32, dims)));
  }
  const Instruction* rows = ExchangeRows(b, shardings, {arrays, moves, count, {}, nullptr});
  REQUIRE(rows->shape()->dim(0) == count);
  return std::ranges::count(m->entry()->instructions(), Opcode::kCollectivePermute,
                            &Instruction::opcode);
}

}  // namespace

TEST_CASE("Rows of interleaved stages move in as many permutes as a stage has rows", "[pipeline]") {
  // 96 layers on 8 stages of three chunks of four layers.
  std::vector<RowMove> moves;
  for (int64_t layer = 0; layer < 96; ++layer) {
    const int64_t chunk = layer / 4;
    moves.push_back({0, layer / 12, layer % 12, chunk % 8, chunk / 8 * 4 + layer % 4});
  }
  CHECK(FewestPermutes(8, moves) == 12);
  CHECK(Permutes(8, 1, 12, 12, moves) == 12);
}

TEST_CASE("Rows of several arrays share permutes where that takes fewer", "[pipeline]") {
  // Stage 0 sends a row of the first array, then stage 1 one of the second.
  const std::vector<RowMove> moves = {{0, 0, 0, 1, 0}, {1, 1, 0, 0, 0}};
  CHECK(FewestPermutes(2, moves) == 1);
  CHECK(Permutes(2, 2, 1, 1, moves) == 1);
}

TEST_CASE("A stage without rows of its own writes nothing that others read", "[pipeline]") {
  // Stage 1 gets two rows, stage 0 keeps one: with every row named the spare one takes the rest.
  const std::vector<RowMove> moves = {{0, 0, 0, 0, 0}, {0, 0, 1, 1, 0}, {0, 0, 2, 1, 1},
                                      {0, 0, 2, 0, 1}, {0, 0, 1, 2, 0}, {0, 0, 0, 2, 1}};
  CHECK(FewestPermutes(3, moves) == 4);
  CHECK(Permutes(3, 1, 3, 2, moves) == 4);
}

TEST_CASE("Moves at random take the fewest permutes", "[pipeline]") {
  std::mt19937 random(1);
  auto below = [&](int64_t n) {
    return static_cast<int64_t>(random()) % n;  // of a generator of 32 bits
  };
  for (int i = 0; i < 50; ++i) {
    const int64_t stages = 2 + below(6), each = 1 + below(5), count = 1 + below(5);
    std::vector<RowMove> moves;
    for (int64_t d = 0; d < stages; ++d) {
      for (int64_t row = 0; row < count; ++row) {
        if (below(4) != 0) moves.push_back({0, below(stages), below(each), d, row});
      }
    }
    if (moves.empty()) continue;
    CHECK(Permutes(stages, 1, each, count, moves) == FewestPermutes(stages, moves));
  }
}

}  // namespace gshard::pipeline
