#include "core/transforms/constant_splitter.h"

#include <fmt/format.h>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

TEST_CASE("each user of a constant gets its own, operands and all", "[constants]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  x = f32[8,8] parameter(0)
  one = f32[] constant(1)
  i = s32[8] iota(), iota_dimension=0
  rows = s32[8,8] broadcast(i), dimensions={0}
  columns = s32[8,8] broadcast(i), dimensions={1}
  mask = pred[8,8] compare(rows, columns), direction=GE
  ones = f32[8,8] broadcast(one), dimensions={}
  a = f32[8,8] select(mask, x, ones)
  b = f32[8,8] select(mask, ones, x)
  ROOT r = f32[8,8] add(a, b)
})");
  const std::string before = PrintModule(*m);
  std::vector<ConstantCopy> copies;
  UserOrderOverride order;
  CHECK(SplitConstants(*m, ConstantUses::kElements, copies, order));
  const Instruction* a = Named(*m, "a");
  const Instruction* b = Named(*m, "b");
  CHECK(a->operand(0) == Named(*m, "mask"));
  CHECK(b->operand(0) != a->operand(0));
  CHECK(b->operand(1) != a->operand(2));
  // The mask of each has rows and columns of its own, those an iota of their own; the scalar stays.
  CHECK(b->operand(0)->operand(0) != a->operand(0)->operand(0));
  CHECK(a->operand(0)->operand(0)->operand(0) != a->operand(0)->operand(1)->operand(0));
  CHECK(b->operand(1)->operand(0) == Named(*m, "one"));
  CHECK(copies.size() == 1 + 2 + 3 + 1);  // mask, rows and columns, iotas, ones
  CHECK_FALSE(SplitConstants(*m, ConstantUses::kElements, copies, order));

  CHECK(MergeConstantCopies(*m, copies));
  CHECK(copies.empty());
  CHECK(PrintModule(*m) == before);
}

TEST_CASE("what is annotated, the root's or no constant stays shared", "[constants]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  fixed = f32[8] broadcast(zero), dimensions={}, sharding={devices=[8]<=[8]}
  wave = f32[8] cosine(fixed)
  a = f32[8] add(x, fixed)
  b = f32[8] add(a, fixed)
  c = f32[8] multiply(b, wave)
  d = f32[8] multiply(c, wave)
  ROOT zeros = f32[8] broadcast(zero), dimensions={}
})");
  std::vector<ConstantCopy> copies;
  UserOrderOverride order;
  CHECK_FALSE(SplitConstants(*m, ConstantUses::kElements, copies, order));
  CHECK(copies.empty());
}

TEST_CASE("the root keeps the original", "[constants]") {
  auto m = Parsed(R"(HloModule m
ENTRY e {
  i = s32[8] iota(), iota_dimension=0
  n = s32[8] negate(i)
  k = s32[8] negate(n), control-predecessors={i}
  j = s32[8] iota(), iota_dimension=0
  p = s32[8] popcnt(j)
  q = s32[8] not(j)
  s = s32[8] custom-call(p, q), custom_call_target="f"
  ROOT t = (s32[8], s32[8]) tuple(s, j)
})");
  std::vector<ConstantCopy> copies;
  UserOrderOverride order;
  CHECK(SplitConstants(*m, ConstantUses::kElements, copies, order));
  CHECK(Named(*m, "p")->operand(0) == Named(*m, "j"));
  CHECK(Named(*m, "q")->operand(0) != Named(*m, "j"));
  CHECK(Named(*m, "t")->operand(1) != Named(*m, "j"));
  CHECK(Named(*m, "k")->control_predecessors()[0] == Named(*m, "i"));
}

TEST_CASE("copies that are laid out alike are one again", "[constants]") {
  auto m = Parsed(R"(HloModule m, num_partitions=8
ENTRY e {
  x = f32[8,8] parameter(0), sharding={devices=[8,1]<=[8]}
  y = f32[8,8] parameter(1), sharding={devices=[1,8]<=[8]}
  one = f32[] constant(1)
  ones = f32[8,8] broadcast(one), dimensions={}
  a = f32[8,8] add(x, ones)
  b = f32[8,8] multiply(a, ones)
  c = f32[8,8] add(y, ones)
  ROOT r = (f32[8,8], f32[8,8]) tuple(b, c)
})");
  std::vector<ConstantCopy> copies;
  UserOrderOverride order;
  CHECK(SplitConstants(*m, ConstantUses::kElements, copies, order));
  CHECK(copies.size() == 2);
  Propagate(*m);
  CHECK(MergeConstantCopies(*m, copies));
  CHECK(Named(*m, "a")->operand(1) == Named(*m, "ones"));
  CHECK(Named(*m, "b")->operand(1) == Named(*m, "ones"));
  const Instruction* other = Named(*m, "c")->operand(1);
  CHECK(other != Named(*m, "ones"));
  CHECK(ToString(other->sharding()) == "{devices=[1,8]<=[8]}");
  CHECK(ShardingOf(*m, "ones") == "{devices=[8,1]<=[8]}");
  CHECK(ShardingOf(*m, "c") == "{devices=[1,8]<=[8]}");
}

TEST_CASE("a tuple is one use of a constant before GSPMD, one for each element before Shardy",
          "[constants]") {
  const std::string text = R"(HloModule m
ENTRY e {
  one = f32[] constant(1)
  root = f32[] sqrt(one)
  ones = f32[8,8] broadcast(root), dimensions={}
  part = f32[4,8] slice(ones), slice={[0:4], [0:8]}
  shaped = f32[32] reshape(part)
  wave = f32[32] cosine(shaped)
  ROOT t = (f32[8,8], f32[8,8], f32[4,8], f32[32], f32[32]) tuple(ones, ones, part, shaped, wave)
})";
  for (const ConstantUses uses : {ConstantUses::kInstructions, ConstantUses::kElements}) {
    auto m = Parsed(text);
    std::vector<ConstantCopy> copies;
    UserOrderOverride order;
    CHECK(SplitConstants(*m, uses, copies, order));
    const Instruction* t = Named(*m, "t");
    CHECK((t->operand(0) == t->operand(1)) == (uses == ConstantUses::kInstructions));
    CHECK(t->operand(2) != Named(*m, "shaped")->operand(0));
    // What is made by a reshape is no constant to either.
    CHECK(t->operand(3) == Named(*m, "wave")->operand(0));
    CHECK(Named(*m, "ones")->operand(0) == Named(*m, "root"));  // scalars stay
  }
}

TEST_CASE("shared chains do not grow without end", "[constants]") {
  std::string text = "HloModule m\nENTRY e {\n  x0 = s32[8] iota(), iota_dimension=0\n";
  for (int i = 0; i < 40; ++i) {  // each value is read twice by the next
    text += fmt::format("  a{0} = s32[8] negate(x{0})\n  b{0} = s32[8] not(x{0})\n", i);
    text += fmt::format("  x{1} = s32[8] add(a{0}, b{0})\n", i, i + 1);
  }
  auto m = Parsed(text + "  ROOT r = s32[8] negate(x40)\n}");
  std::vector<ConstantCopy> copies;
  UserOrderOverride order;
  SplitConstants(*m, ConstantUses::kInstructions, copies, order);
  CHECK(copies.size() > 1000);
  CHECK(copies.size() <= 65536);
}

}  // namespace
}  // namespace gshard
