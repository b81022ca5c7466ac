// What lies on the host, through loops, and which calls move it.

#include "core/analysis/host_memory.h"

#include <catch2/catch.hpp>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

TEST_CASE("A stack that a loop fills on the host is there from its start", "[host]") {
  auto module = Parsed(R"(HloModule m
condition {
  s = (s32[], f32[8], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  stack = f32[4,8] get-tuple-element(s), index=2
  y = f32[8] exponential(x)
  there = f32[8] custom-call(y), custom_call_target="MoveToHost"
  row = f32[1,8] reshape(there)
  zero = s32[] constant(0)
  more = f32[4,8] dynamic-update-slice(stack, row, i, zero)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[8], f32[4,8]) tuple(next, y, more)
}
ENTRY e {
  x = f32[8] parameter(0)
  start = s32[] constant(0)
  none = f32[] constant(0)
  empty = f32[4,8] broadcast(none), dimensions={}
  init = (s32[], f32[8], f32[4,8]) tuple(start, x, empty)
  loop = (s32[], f32[8], f32[4,8]) while(init), condition=condition, body=body
  saved = f32[4,8] get-tuple-element(loop), index=2
  last = f32[1,8] slice(saved), slice={[3:4], [0:8]}
  here = f32[1,8] custom-call(last), custom_call_target="MoveToDevice"
  again = f32[1,8] custom-call(here), custom_call_target="MoveToDevice"
  ROOT r = f32[1,8] negate(again)
})");
  const Users users(*module);
  const HostMemory host(*module, users);
  std::string on_host, transfers;
  for (const Computation* computation : module->computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->shape()->IsArray() && host.Has(x)) on_host += std::string(x->name()) + " ";
      if (x->opcode() == Opcode::kWhile) {
        CHECK_FALSE(host.Has(x, 1));
        CHECK(host.Has(x, 2));
      }
      if (host.IsTransfer(x)) transfers += std::string(x->name()) + " ";
    }
  }
  CHECK(on_host == "stack there row more empty saved last ");
  CHECK(transfers == "there here ");
}

TEST_CASE("Without placements nothing lies on the host", "[host]") {
  auto module = Parsed("HloModule m\nENTRY e {\n ROOT x = f32[8] parameter(0)\n}");
  const Users users(*module);
  CHECK(HostMemory(*module, users).IsEmpty());
}

}  // namespace
}  // namespace gshard
