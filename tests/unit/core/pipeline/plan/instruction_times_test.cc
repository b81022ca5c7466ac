// Forward loops without what they stack against the same loops written without it.
#include "core/pipeline/plan/instruction_times.h"

#include <catch2/catch.hpp>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard::pipeline {
namespace {

// A recurrent layer over 64 times: the state, and a stack of all states for the backward pass.
constexpr const char* kStacking = R"(HloModule m
condition {
  p = (s32[], f32[128,1024], f32[64,128,1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(64)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[128,1024], f32[64,128,1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  h = f32[128,1024] get-tuple-element(p), index=1
  stack = f32[64,128,1024] get-tuple-element(p), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  new_h = f32[128,1024] tanh(h)
  row = f32[1,128,1024] reshape(new_h)
  new_stack = f32[64,128,1024] dynamic-update-slice(stack, row, i, zero, zero)
  ROOT t = (s32[], f32[128,1024], f32[64,128,1024]) tuple(next, new_h, new_stack)
}
ENTRY e {
  x = f32[128,1024] parameter(0)
  stack = f32[64,128,1024] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[128,1024], f32[64,128,1024]) tuple(zero, x, stack)
  loop = (s32[], f32[128,1024], f32[64,128,1024]) while(init), condition=condition, body=body
  h = f32[128,1024] get-tuple-element(loop), index=1
  states = f32[64,128,1024] get-tuple-element(loop), index=2
  y = f32[128,1024] negate(h)
  back = f32[64,128,1024] negate(states)
  ROOT r = (f32[128,1024], f32[64,128,1024]) tuple(y, back)
}
)";

constexpr const char* kAlone = R"(HloModule m
condition {
  p = (s32[], f32[128,1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(64)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[128,1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  h = f32[128,1024] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  new_h = f32[128,1024] tanh(h)
  ROOT t = (s32[], f32[128,1024]) tuple(next, new_h)
}
ENTRY e {
  x = f32[128,1024] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[128,1024]) tuple(zero, x)
  loop = (s32[], f32[128,1024]) while(init), condition=condition, body=body
  ROOT h = f32[128,1024] get-tuple-element(loop), index=1
}
)";

}  // namespace

TEST_CASE("A forward loop without what it stacks for the backward pass takes less") {
  const Chip chip = *BuiltInChip("tpu-v5p");
  const auto stacking = Parsed(kStacking), alone = Parsed(kAlone);
  const Instruction* loop = Named(*stacking, "loop");
  auto is_forward = [](const Instruction* x) { return x->name() != "back" && x->name() != "r"; };
  auto never = [](const Instruction*) { return false; };
  const auto seconds = SecondsOfForwardLoops(*stacking, is_forward, never, chip);
  REQUIRE(seconds.size() == 1);
  const double alone_s = InstructionTimes(*alone, chip).Of(Named(*alone, "loop"));
  CHECK(alone_s > 0);
  CHECK(seconds.at(loop) == Approx(alone_s));
  CHECK(InstructionTimes(*stacking, chip).Of(loop) > 1.2 * alone_s);
  // The program is as it was.
  CHECK(loop->shape()->elements().size() == 3);

  // All of it is needed where the stack is a result of the step, or read by the forward pass.
  auto is_stack = [](const Instruction* x) { return x->name() == "states"; };
  CHECK(SecondsOfForwardLoops(*stacking, is_forward, is_stack, chip).empty());
  auto all = [](const Instruction* x) { return x->name() != "r"; };
  CHECK(SecondsOfForwardLoops(*stacking, all, never, chip).empty());
}

}  // namespace gshard::pipeline
