#include "core/reduce/reducer.h"

#include <catch2/catch.hpp>

#include "core/propagation/propagation.h"
#include "core/reduce/steps.h"
#include "ir/parser.h"

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
