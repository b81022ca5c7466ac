// What results need through loops and branches, element by element.

#include "core/analysis/attention/needed_values.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// A loop whose first branch stores `kept` and `other`, and whose second reads them.
constexpr const char* kProgram = R"(HloModule m
store {
  p = (f32[4], f32[4], f32[4]) parameter(0)
  x = f32[4] get-tuple-element(p), index=0
  scores = f32[4] exponential(x)
  other = f32[4] negate(x)
  ROOT stored = (f32[4], f32[4], f32[4]) tuple(x, scores, other)
}
read {
  q = (f32[4], f32[4], f32[4]) parameter(0)
  y = f32[4] get-tuple-element(q), index=0
  saved = f32[4] get-tuple-element(q), index=1
  kept = f32[4] get-tuple-element(q), index=2
  attention = f32[4] add(y, saved)
  sum = f32[4] add(attention, kept)
  ROOT reads = (f32[4], f32[4], f32[4]) tuple(sum, saved, kept)
}
body {
  s = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[4] get-tuple-element(s), index=1
  b = f32[4] get-tuple-element(s), index=2
  c = f32[4] get-tuple-element(s), index=3
  state = (f32[4], f32[4], f32[4]) tuple(a, b, c)
  one = s32[] constant(1)
  which = s32[] and(i, one)
  done = (f32[4], f32[4], f32[4]) conditional(which, state, state), branch_computations={store, read}
  a2 = f32[4] get-tuple-element(done), index=0
  b2 = f32[4] get-tuple-element(done), index=1
  c2 = f32[4] get-tuple-element(done), index=2
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[4], f32[4], f32[4]) tuple(next, a2, b2, c2)
}
condition {
  s = (s32[], f32[4], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT go = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x0 = f32[4] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[4], f32[4], f32[4]) tuple(zero, x0, x0, x0)
  loop = (s32[], f32[4], f32[4], f32[4]) while(init), condition=condition, body=body
  ROOT r = f32[4] get-tuple-element(loop), index=1
})";

std::string LeftOut(const NeededValues::Changes& changes) {
  auto module = Parsed(kProgram);
  const NeededValues needed(*module, changes);
  std::string names;
  for (const Computation* computation : module->computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (int64_t i = 0; i < NeededValues::ElementsOf(x); ++i) {
        if (!needed.IsLeftOut(x, i)) continue;
        names += std::string(x->name());
        if (x->shape()->IsTuple()) names += "#" + std::to_string(i);
        names += " ";
      }
    }
  }
  return names;
}

TEST_CASE("What one branch stores and another would make itself is left out of all between",
          "[attention]") {
  CHECK(LeftOut({[](const Instruction*, const Instruction*) { return false; }, {}}).empty());
  const auto makes_scores = [](const Instruction* user, const Instruction* operand) {
    return user->name() == "attention" && operand->name() == "saved";
  };
  CHECK(LeftOut({makes_scores, {}}) ==
        "p#1 scores stored#1 q#1 saved reads#1 s#2 b state#1 done#1 b2 t#2 s.1#2 init#2 loop#2 ");
}

}  // namespace
}  // namespace gshard
