#include "core/transforms/inline_calls.h"

#include "fmt/format.h"
#include "ir/metadata.h"
#include "ir/source_lines.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

const char* const kTwoCalls = R"(HloModule m
f {
  p = f32[8] parameter(0)
  c = f32[8] cosine(p)
  ROOT s = f32[8] add(c, p)
}
ENTRY e {
  a = f32[8] parameter(0)
  x = f32[8] call(a), to_apply=f
  y = f32[8] call(x), to_apply=f, sharding={devices=[8]<=[8]}
  ROOT r = f32[8] negate(y)
})";

TEST_CASE("The first copy keeps its names, later ones get a number", "[inline]") {
  auto m = Parsed(kTwoCalls);
  CHECK(*InlineCalls(*m));
  CHECK(m->computations().size() == 1);
  CHECK(PrintModule(*m) == R"(HloModule m

ENTRY %e (a: f32[8]) -> f32[8] {
  %a = f32[8] parameter(0)
  %c = f32[8] cosine(%a)
  %s = f32[8] add(%c, %a)
  %c.1 = f32[8] cosine(%s)
  %s.1 = f32[8] add(%c.1, %s), sharding={devices=[8]<=[8]}
  ROOT %r = f32[8] negate(%s.1)
}
)");
  CHECK_FALSE(*InlineCalls(*m));
}

TEST_CASE("Each copy's root takes the sharding of its own call", "[inline]") {
  auto m = Parsed(R"(HloModule m
f {
  p = f32[8,8] parameter(0)
  ROOT s = f32[8,8] tanh(p)
}
ENTRY e {
  a = f32[8,8] parameter(0)
  x = f32[8,8] call(a), to_apply=f, sharding={devices=[8,1]<=[8]}
  y = f32[8,8] call(x), to_apply=f, sharding={devices=[1,8]<=[8]}
  ROOT z = f32[8,8] call(y), to_apply=f
})");
  REQUIRE(InlineCalls(*m).has_value());
  CHECK(ShardingOf(*m, "s") == "{devices=[8,1]<=[8]}");
  CHECK(ShardingOf(*m, "s.1") == "{devices=[1,8]<=[8]}");
  CHECK(ShardingOf(*m, "s.2") == "none");
}

TEST_CASE("Uses come in the order XLA leaves: the last takes the call's place", "[inline]") {
  auto m = Parsed(R"(HloModule m
f {
  p = f32[8] parameter(0)
  c = f32[8] cosine(p)
  d = f32[8] sine(p)
  ROOT s = f32[8] add(c, d)
}
ENTRY e {
  a = f32[8] parameter(0)
  x = f32[8] call(a), to_apply=f
  y = f32[8] tanh(a)
  ROOT r = f32[8] add(x, y)
})");
  UserOrderOverride order;
  REQUIRE(InlineCalls(*m, &order).has_value());
  const Instruction* a = Named(*m, "a");
  REQUIRE(order.count(a) == 1);
  std::string uses;
  for (const Instruction* user : order[a]) uses += std::string(user->name()) + " ";
  CHECK(uses == "d y c ");
  Users users(*m, &order);
  CHECK(users.of(a)[0] == Named(*m, "d"));
}

TEST_CASE("A body that is its own parameter", "[inline]") {
  auto m = Parsed(R"(HloModule m
f { ROOT p = f32[8] parameter(0) }
ENTRY e {
  a = f32[8] parameter(0)
  x = f32[8] call(a), to_apply=f
  ROOT r = f32[8] negate(x)
})");
  CHECK(*InlineCalls(*m));
  CHECK(m->entry()->root()->operand(0) == Named(*m, "a"));
}

TEST_CASE("A loop inside a callee is cloned with its body", "[inline]") {
  auto m = Parsed(R"(HloModule m
c { cp = f32[8] parameter(0) ROOT cr = pred[] constant(false) }
b { bp = f32[8] parameter(0) ROOT bs = f32[8] sine(bp) }
f {
  p = f32[8] parameter(0)
  ROOT w = f32[8] while(p), condition=c, body=b
}
ENTRY e {
  a = f32[8] parameter(0)
  x = f32[8] call(a), to_apply=f
  ROOT y = f32[8] call(x), to_apply=f
})");
  CHECK(*InlineCalls(*m));
  CHECK(m->computations().size() == 5);
  CHECK(Named(*m, "w")->called(1) != Named(*m, "w.1")->called(1));
}

// f1 calls f0 a thousand times, f2 f1, f3 f2: 2 GiB of memory hold a million instructions, no
// machine a billion.
TEST_CASE("Calls that would explode are refused where they exceed the memory", "[inline]") {
  std::string text = "HloModule m\nf0 { p0 = f32[] parameter(0) ROOT s0 = f32[] sine(p0) }\n";
  for (int i = 1; i <= 3; ++i) {
    text += fmt::format("f{} {{ x0 = f32[] parameter(0)\n", i);
    for (int k = 1; k <= 1000; ++k) {
      text += fmt::format("{}x{} = f32[] call(x{}), to_apply=f{}\n", k == 1000 ? "ROOT " : "", k,
                          k - 1, i - 1);
    }
    text += "}\n";
  }
  text += "ENTRY e { x = f32[] parameter(0) ROOT r = f32[] call(x), to_apply=f3 }\n";
  auto m = Parsed(text);
  auto result = InlineCalls(*m);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code == "E-INLINE-001");
  CHECK(result.error().message.rfind("inlining the calls of 'f3' ", 0) == 0);
}

const char* const kNamedCalls = R"hlo(HloModule m

FileNames
1 "/src/layers.py"
2 "/src/model.py"

FunctionNames
1 "helper"
2 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=4 end_line=4 column=9 end_column=24}
2 {file_name_id=2 function_name_id=2 line=6 end_line=6 column=9 end_column=24}
3 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=9 end_column=24}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}
3 {file_location_id=3 parent_frame_id=1}

condition {
  c = (f32[8], s32[]) parameter(0)
  i = s32[] get-tuple-element(c), index=1
  three = s32[] constant(3)
  ROOT less = pred[] compare(i, three), direction=LT
}
body {
  b = (f32[8], s32[]) parameter(0)
  v = f32[8] get-tuple-element(b), index=0
  j = s32[] get-tuple-element(b), index=1
  one = s32[] constant(1)
  sine = f32[8] sine(v), metadata={op_name="while/body/sin" stack_frame_id=1}
  next = s32[] add(j, one)
  ROOT out = (f32[8], s32[]) tuple(sine, next)
}
helper {
  p = f32[8] parameter(0)
  whole = f32[8] tanh(p), metadata={op_name="jit(f)/tanh"}
  bare = f32[8] cosine(whole)
  zero = s32[] constant(0)
  start = (f32[8], s32[]) tuple(bare, zero)
  loop = (f32[8], s32[]) while(start), condition=condition, body=body
  ROOT named = f32[8] get-tuple-element(loop), index=0, metadata={op_name="checkpoint/mul" stack_frame_id=1}
}
ENTRY e {
  a = f32[8] parameter(0)
  x = f32[8] call(a), to_apply=helper, metadata={op_name="jit(f)/jvp(helper)" stack_frame_id=2}
  ROOT y = f32[8] call(x), to_apply=helper, metadata={op_name="jit(f)/jit(helper)" stack_frame_id=3}
})hlo";

TEST_CASE("What is inlined stands behind its call, in name and in stack frames", "[inline]") {
  auto m = Parsed(kNamedCalls);
  REQUIRE(*InlineCalls(*m));
  auto name = [&](const char* x) { return OpNameOf(*Named(*m, x)); };
  CHECK(name("named") == "jit(f)/jvp(helper)/checkpoint/mul");
  CHECK(name("named.1") == "jit(f)/jit(helper)/checkpoint/mul");
  CHECK(name("whole") == "jit(f)/tanh");  // named from the start already
  CHECK(name("bare.1") == "jit(f)/jit(helper)");
  // What a loop of the helper runs was inlined with it.
  CHECK(name("sine") == "jit(f)/jvp(helper)/while/body/sin");
  CHECK(name("sine.1") == "jit(f)/jit(helper)/while/body/sin");

  const SourceLines lines(*m);
  auto stack = [&](const char* x) {
    std::string text;
    for (const SourceLine& line : lines.Of(*Named(*m, x))) {
      text += fmt::format("{}:{} ", line.file, line.line);
    }
    return text;
  };
  CHECK(stack("named") == "/src/layers.py:4 /src/model.py:6 ");
  CHECK(stack("named.1") == "/src/layers.py:4 /src/model.py:7 ");
  CHECK(stack("sine.1") == "/src/layers.py:4 /src/model.py:7 ");
  CHECK(stack("bare.1") == "/src/model.py:7 ");
  // The printed text says the same.
  auto again = Parsed(PrintModule(*m).c_str());
  CHECK(SourceLines(*again).Of(*Named(*again, "named.1")).size() == 2);
}

}  // namespace
}  // namespace gshard
