#include "core/pipeline/rows/row_sums.h"

#include "tests/unit/core/propagation/propagated.h"

namespace gshard::pipeline {

TEST_CASE("Padded rows that are added up are joined, with zeros where there is none",
          "[pipeline]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  m = f32[5,2] parameter(0)
  g0 = f32[1,2] parameter(1)
  g1 = f32[1,2] parameter(2)
  g3 = f32[2,2] parameter(3)
  zero = f32[] constant(0)
  p0 = f32[5,2] pad(g0, zero), padding=0_4x0_0
  p1 = f32[5,2] pad(g1, zero), padding=1_3x0_0
  p3 = f32[5,2] pad(g3, zero), padding=3_0x0_0
  s = f32[5,2] add(p3, p1)
  t = f32[5,2] add(s, m)
  ROOT r = f32[5,2] add(t, p0)
})");
  JoinPaddedRows(*m);
  const Instruction* root = m->entry()->root();
  REQUIRE(root->opcode() == Opcode::kAdd);
  CHECK(root->operand(0)->name() == "m");
  const Instruction* rows = root->operand(1);
  REQUIRE(rows->opcode() == Opcode::kConcatenate);
  REQUIRE(rows->operand_count() == 4);
  CHECK(rows->operand(0)->name() == "g0");
  CHECK(rows->operand(1)->name() == "g1");
  CHECK(rows->operand(2)->opcode() == Opcode::kBroadcast);
  CHECK(rows->operand(3)->name() == "g3");
}

TEST_CASE("Padded rows that overlap, and what is padded with ones, stay a sum", "[pipeline]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  a = f32[2,2] parameter(0)
  b = f32[2,2] parameter(1)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  p = f32[3,2] pad(a, zero), padding=0_1x0_0
  q = f32[3,2] pad(b, zero), padding=1_0x0_0
  overlap = f32[3,2] add(p, q)
  u = f32[4,2] pad(a, zero), padding=0_2x0_0
  v = f32[4,2] pad(b, one), padding=2_0x0_0
  ones = f32[4,2] add(u, v)
  ROOT r = (f32[3,2], f32[4,2]) tuple(overlap, ones)
})");
  JoinPaddedRows(*m);
  CHECK(Named(*m, "overlap") != nullptr);
  CHECK(Named(*m, "ones") != nullptr);
}

}  // namespace gshard::pipeline
