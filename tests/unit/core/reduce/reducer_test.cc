#include "core/reduce/reducer.h"

#include <catch2/catch.hpp>

#include "core/propagation/propagation.h"
#include "core/reduce/loop_steps.h"
#include "core/reduce/shape_steps.h"
#include "core/reduce/steps.h"
#include "ir/parser.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

constexpr const char* kProgram = R"(HloModule m, num_partitions=4, meshes={m=['x'=2,'y'=2]}

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }

body {
  p = (s32[], f32[8,16]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[8,16] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[8,16] sine(v)
  ROOT t = (s32[], f32[8,16]) tuple(j, w)
}

cond {
  p = (s32[], f32[8,16]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[8,16] parameter(0), sharding={@m, [{'x'}, {}]}
  y = f32[8,16] parameter(1)
  z = f32[8,16] multiply(x, y)
  zero = s32[] constant(0)
  t = (s32[], f32[8,16]) tuple(zero, z)
  l = (s32[], f32[8,16]) while(t), condition=cond, body=body
  r = f32[8,16] get-tuple-element(l), index=1
  none = f32[] constant(0)
  ROOT sum = f32[8] reduce(r, none), dimensions={1}, to_apply=add
}
)";

Expected<std::unique_ptr<Module>> Parsed(const char* text) {
  return ParseModule(SourceText::FromString("test.hlo", text));
}

Expected<Reduction> ReduceFor(const char* needle, int threads = 1) {
  ReduceOptions options;
  options.threads = threads;
  options.is_interesting = [=](const std::string& text, const ReduceInputs*) {
    return text.find(needle) != std::string::npos;
  };
  return Reduce(kProgram, options);
}

TEST_CASE("What is left is what the test asks for", "[reduce]") {
  auto sine = ReduceFor(" sine(");
  REQUIRE(sine);
  CHECK(sine->text.find(" sine(") != std::string::npos);
  CHECK(sine->text.find("while") == std::string::npos);
  CHECK(sine->text.find("[8,16]") == std::string::npos);
  CHECK(sine->instructions <= 2);
  CHECK(sine->instructions_before == 23);
  CHECK(ParseModule(SourceText::FromString("small.hlo", sine->text)));
  auto loop = ReduceFor(" while(");
  REQUIRE(loop);
  CHECK(loop->text.find("multiply") == std::string::npos);
  CHECK(loop->instructions < 14);
}

TEST_CASE("What takes an element of a tuple becomes the element", "[reduce]") {
  ReduceOptions options;
  options.is_interesting = [](const std::string& text, const ReduceInputs*) {
    return text.find(" sine(") != std::string::npos && text.find("{'x'}") != std::string::npos;
  };
  auto sine = Reduce(R"(HloModule m, num_partitions=2, meshes={m=['x'=2]}
ENTRY main {
  a = f32[8,16] parameter(0), sharding={@m, [{'x'}, {}]}
  b = s32[] parameter(1)
  t = (s32[], f32[8,16]) tuple(b, a)
  c = f32[8,16] get-tuple-element(t), index=1
  ROOT r = f32[8,16] sine(c)
})",
                     options);
  REQUIRE(sine);
  CHECK(sine->instructions == 2);
}

TEST_CASE("What only carries a sharding becomes a parameter that has it", "[reduce]") {
  ReduceOptions options;
  options.is_interesting = [](const std::string& text, const ReduceInputs*) {
    auto module = Parsed(text.c_str());
    if (!module || text.find(" sine(") == std::string::npos) return false;
    if (!PropagateShardings(**module)) return false;
    const Sharding* sharding = (*module)->entry()->root()->sharding();
    return sharding != nullptr && sharding->IsTiled();
  };
  auto sine = Reduce(R"(HloModule m, num_partitions=2
ENTRY main {
  a = f32[8,16] parameter(0), sharding={devices=[2,1]<=[2]}
  b = f32[16,8] transpose(a), dimensions={1,0}
  ROOT r = f32[16,8] sine(b)
})",
                     options);
  REQUIRE(sine);
  CHECK(sine->instructions == 2);
}

TEST_CASE("A loop runs less often, and carries what is needed", "[reduce]") {
  ReduceOptions options;
  options.is_interesting = [](const std::string& text, const ReduceInputs*) {
    return text.find(" while(") != std::string::npos && text.find(" sine(") != std::string::npos;
  };
  auto sine = Reduce(R"(HloModule m

body {
  p = (s32[], f32[8,16], f32[4], (f32[2], f32[3])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[8,16] get-tuple-element(p), index=1
  u = f32[4] get-tuple-element(p), index=2
  pair = (f32[2], f32[3]) get-tuple-element(p), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[8,16] sine(v)
  e = f32[4] exponential(u)
  ROOT t = (s32[], f32[8,16], f32[4], (f32[2], f32[3])) tuple(j, w, e, pair)
}

cond {
  p = (s32[], f32[8,16], f32[4], (f32[2], f32[3])) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(27)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[8,16] parameter(0)
  y = f32[4] parameter(1)
  z = (f32[2], f32[3]) parameter(2)
  zero = s32[] constant(0)
  t = (s32[], f32[8,16], f32[4], (f32[2], f32[3])) tuple(zero, x, y, z)
  l = (s32[], f32[8,16], f32[4], (f32[2], f32[3])) while(t), condition=cond, body=body
  r = f32[8,16] get-tuple-element(l), index=1
  q = f32[4] get-tuple-element(l), index=2
  ROOT both = (f32[8,16], f32[4]) tuple(r, q)
})",
                     options);
  REQUIRE(sine);
  CHECK(sine->text.find("exponential") == std::string::npos);
  CHECK(sine->text.find("f32[4]") == std::string::npos);
  CHECK(sine->text.find("constant(27)") == std::string::npos);
  auto module = Parsed(sine->text.c_str());
  REQUIRE(module);
  CHECK(reduce::BoundsOf(**module).most_trips == 2);
}

TEST_CASE("No step makes a loop that may run forever", "[reduce]") {
  ReduceOptions options;
  int64_t endless = 0;
  options.is_interesting = [&](const std::string& text, const ReduceInputs*) {
    auto module = Parsed(text.c_str());
    const reduce::LoopBounds bounds = reduce::BoundsOf(**module);
    endless += bounds.uncounted > 0 || bounds.most_trips > 3 ? 1 : 0;
    return text.find(" while(") != std::string::npos;
  };
  REQUIRE(Reduce(kProgram, options));
  CHECK(endless == 0);
}

TEST_CASE("Elements of a state go, whoever reads it as a whole", "[reduce]") {
  auto module = Parsed(R"(HloModule m

inner_body {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[4] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[4]) tuple(j, v)
}

inner_cond {
  p = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}

inner_body.2 {
  p = (s32[], f32[4]) parameter(0)
  ROOT t = (s32[], f32[4]) copy(p)
}

inner_cond.2 {
  p = (s32[], f32[4]) parameter(0)
  ROOT c = pred[] constant(false)
}

ENTRY main {
  start = (s32[], f32[4]) parameter(0), sharding={{replicated}, {devices=[2]<=[2]}}
  l = (s32[], f32[4]) while(start), condition=inner_cond, body=inner_body, sharding={{replicated}, {devices=[2]<=[2]}}
  ROOT again = (s32[], f32[4]) while(l), condition=inner_cond.2, body=inner_body.2, sharding={{replicated}, {devices=[2]<=[2]}}
}
)");
  REQUIRE(module);
  const int64_t count = reduce::CountStateElements(**module);
  REQUIRE(count == 4);  // no loop is counted: `start` may be anything
  REQUIRE(reduce::DropStateElements(**module, 1, 3));
  reduce::CleanUp(**module);
  CHECK(VerifyModule(**module));
  CHECK(reduce::CountStateElements(**module) == 2);
  CHECK(!reduce::DropStateElements(**module, 0, 1));  // the only element
}

TEST_CASE("A dim shrinks with those that are tied to it, and no other of its size", "[reduce]") {
  auto module = Parsed(R"(HloModule m
ENTRY main {
  x = f32[8,8] parameter(0)
  w = f32[8,8] parameter(1)
  ROOT y = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  REQUIRE(module);
  REQUIRE(reduce::CountTiedDims(**module) == 6);  // of `w` they are the same shape's
  REQUIRE(reduce::ShrinkTiedDims(**module, 0, 1));
  CHECK(VerifyModule(**module));
  CHECK((*module)->entry()->root()->shape()->dim(0) == 2);
  CHECK((*module)->entry()->root()->shape()->dim(1) == 8);
}

TEST_CASE("A mesh that a sharding holds does not shrink again and again", "[reduce]") {
  ReduceOptions options;
  options.is_interesting = [](const std::string& text, const ReduceInputs*) {
    return text.find("sdy.meshes") != std::string::npos && text.find("<=[8]") != std::string::npos;
  };
  auto reduced = Reduce(
      R"(HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes={m = #sdy.mesh<["x"=8]>}}
ENTRY main {
  a = f32[16,16] parameter(0), sharding={devices=[8,1]<=[8]}
  ROOT r = f32[16,16] sine(a)
})",
      options);
  REQUIRE(reduced);
  CHECK(reduced->text.find("mesh__") == std::string::npos);
  CHECK(reduced->tests < 60);
}

TEST_CASE("The number of threads does not change the result", "[reduce]") {
  auto one = ReduceFor("compare("), four = ReduceFor("compare(", 4);
  REQUIRE((one && four));
  CHECK(one->text == four->text);
}

TEST_CASE("A program on which the test does not hold is refused", "[reduce]") {
  auto none = ReduceFor("cosine(");
  REQUIRE(!none);
  CHECK(none.error().code == "E-REDUCE-001");
}

TEST_CASE("A search that is stopped ends with the smallest so far", "[reduce]") {
  std::atomic<bool> stop = false;
  ReduceOptions options;
  options.stop = &stop;
  options.is_interesting = [&](const std::string& text, const ReduceInputs*) {
    return text.find("sine") != std::string::npos;
  };
  options.progress = [&](const std::string&, int64_t) { stop = true; };
  auto reduced = Reduce(kProgram, options);
  REQUIRE(reduced);
  CHECK(reduced->text.find("sine") != std::string::npos);
  CHECK(reduced->instructions <= reduced->instructions_before);
}

TEST_CASE("Every step has a name and counts the same for equal texts", "[reduce]") {
  for (const reduce::Step& step : reduce::AllSteps()) {
    INFO(step.name);
    auto a = Parsed(kProgram), b = Parsed(kProgram);
    REQUIRE((a && b));
    const int64_t count = step.count(**a);
    CHECK(count == step.count(**b));
    CHECK(count >= 0);
    if (count > 0) step.apply(**a, 0, 1);  // whatever comes of it, nothing throws
  }
}

TEST_CASE("Clean-up drops what nothing needs, and keeps the order of parameters", "[reduce]") {
  auto module = Parsed(R"(HloModule m
ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  c = f32[4] parameter(2)
  dead = f32[4] add(a, b)
  ROOT r = f32[4] subtract(c, a)
}
)");
  REQUIRE(module);
  reduce::CleanUp(**module);
  CHECK(reduce::CountInstructions(**module) == 3);
  CHECK((*module)->entry()->root()->operand(1)->name() == "a");
}

}  // namespace
}  // namespace gshard
