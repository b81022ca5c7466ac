#include "core/pipeline/restack.h"

#include <algorithm>

#include "ir/sharding_text.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard::pipeline {

namespace {

// On stages of two devices each.
void Restacked(Module& m, int64_t stages, const Sharding* of_copies = nullptr) {
  const RegionShardings shardings(m.context(), stages, 2);
  std::unordered_map<const Instruction*, const Sharding*> annotations;
  std::unordered_set<const Instruction*> unread;
  for (const Instruction* x : m.entry()->instructions()) {
    if (x->opcode() == Opcode::kCopy) annotations.emplace(x, of_copies);
    if (x->name() == "unread") unread.insert(x);
  }
  RestackRows(m, {&shardings, &annotations, &unread});
}

int64_t CountOf(const Module& m, Opcode opcode) {
  return std::ranges::count_if(m.entry()->instructions(),
                               [&](const Instruction* x) { return x->opcode() == opcode; });
}

}  // namespace

TEST_CASE("Rows with annotations and numbers stay where they are", "[pipeline]") {
  // A copy of each row is cut over the two devices of a stage.
  auto m = Parsed(R"(HloModule m
ENTRY e {
  w = f32[2,8] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  half = f32[] constant(0.5)
  halves = f32[1,8] broadcast(half), dimensions={}
  a = f32[1,8] slice(w), slice={[0:1], [0:8]}
  ac = f32[1,8] copy(a), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  am = f32[1,8] multiply(halves, ac)
  b = f32[1,8] slice(w), slice={[1:2], [0:8]}
  bc = f32[1,8] copy(b), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  bm = f32[1,8] multiply(halves, bc)
  ROOT r = f32[2,8] concatenate(am, bm), dimensions={0}
})");
  const int64_t cut[] = {1, 2};
  Restacked(*m, 2, m->context().Tiled(TileAssignment::Iota(cut)));
  CHECK(CountOf(*m, Opcode::kMultiply) == 1);
  CHECK(CountOf(*m, Opcode::kPad) == 0);  // nothing moves
  const auto list = m->entry()->instructions();
  const auto copy = std::ranges::find(list, Opcode::kCopy, &Instruction::opcode);
  REQUIRE(copy != list.end());
  CHECK(ToString((*copy)->sharding()) == "{devices=[2,1,2]<=[4]}");
}

TEST_CASE("Rows that are scaled by their own largest value are sent, and scaled where they arrive",
          "[pipeline]") {
  auto m = Parsed(R"(HloModule m
largest {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] maximum(x, y)
}
ENTRY e {
  w = f32[4,8] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  zero = f32[] constant(0)
  a = f32[1,8] slice(w), slice={[1:2], [0:8]}
  al = f32[1] reduce(a, zero), dimensions={1}, to_apply=largest
  ab = f32[1,8] broadcast(al), dimensions={0}
  ad = f32[1,8] divide(a, ab)
  b = f32[1,8] slice(w), slice={[2:3], [0:8]}
  bl = f32[1] reduce(b, zero), dimensions={1}, to_apply=largest
  bb = f32[1,8] broadcast(bl), dimensions={0}
  bd = f32[1,8] divide(b, bb)
  ROOT r = f32[2,8] concatenate(bd, ad), dimensions={0}
})");
  Restacked(*m, 2);
  CHECK(CountOf(*m, Opcode::kConcatenate) == 0);
  CHECK(CountOf(*m, Opcode::kCollectivePermute) == 1);
  CHECK(CountOf(*m, Opcode::kReduce) == 1);  // of all rows at once
}

TEST_CASE("Halves of flat pieces are shifted, not sent as whole pieces", "[pipeline]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  w = f32[2,8] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  a = f32[1,8] slice(w), slice={[1:2], [0:8]}
  ah = f32[1,4] slice(a), slice={[0:1], [0:4]}
  b = f32[1,8] slice(w), slice={[1:2], [0:8]}
  bh = f32[1,4] slice(b), slice={[0:1], [4:8]}
  ROOT r = f32[2,4] concatenate(ah, bh), dimensions={0}
})");
  Restacked(*m, 2);
  CHECK(CountOf(*m, Opcode::kCollectivePermute) == 0);
  CHECK(CountOf(*m, Opcode::kPad) == 1);  // of the half that moves
}

TEST_CASE("Three rows on two devices: the last tile has one of padding", "[pipeline]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  w = f32[3,1] parameter(0), sharding={devices=[2,1]<=[2]}
  a = f32[1,1] slice(w), slice={[0:1], [0:1]}
  b = f32[1,1] slice(w), slice={[1:2], [0:1]}
  c = f32[1,1] slice(w), slice={[2:3], [0:1]}
  ROOT r = f32[3,1] concatenate(a, b, c), dimensions={0}
})");
  Restacked(*m, 2);
  CHECK(m->entry()->root()->opcode() == Opcode::kSlice);
  CHECK(CountOf(*m, Opcode::kPad) == 1);     // of the parameter, to whole tiles
  CHECK(CountOf(*m, Opcode::kSelect) == 0);  // what is in the last row is nobody's
}

TEST_CASE("A row whose values were not printed is no row of zeros", "[pipeline]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  w = f32[4,1] parameter(0), sharding={devices=[2,1]<=[2]}
  a = f32[1,1] slice(w), slice={[0:1], [0:1]}
  b = f32[1,1] slice(w), slice={[1:2], [0:1]}
  c = f32[1,1] slice(w), slice={[2:3], [0:1]}
  elided = f32[1,1] constant({...})
  ROOT r = f32[4,1] concatenate(a, b, c, elided), dimensions={0}
})");
  Restacked(*m, 2);
  CHECK(m->entry()->root()->opcode() == Opcode::kReshape);  // two rows a device, put together there
  CHECK(Named(*m, "elided") != nullptr);
}

}  // namespace gshard::pipeline
