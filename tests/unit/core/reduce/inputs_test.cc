#include "core/reduce/inputs.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/reduce/reducer.h"
#include "ir/literal.h"
#include "ir/parser.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

constexpr const char* kBest = R"(HloModule m, num_partitions=2
ENTRY e {
  a = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}
  t = (f32[4], s32[]) parameter(1)
  c = f32[8] parameter(2)
  s = f32[8,4] sine(a)
  n = f32[8] negate(c)
  ROOT r = (f32[8,4], f32[8]) tuple(s, n)
}
)";

std::unique_ptr<Module> Parsed(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  REQUIRE(module);
  REQUIRE(VerifyModule(**module));
  return std::move(*module);
}

InputProgram InputsOf(const std::string& candidate, const std::vector<int64_t>& leaves,
                      const reduce::InputRule& rule = {}) {
  InputProgram program = reduce::MakeInputProgram(*Parsed(kBest), *Parsed(candidate), leaves, rule);
  if (!program.leaves.empty()) Parsed(program.text);  // whatever it says, it can run
  return program;
}

bool Has(const InputProgram& program, const char* text) {
  return program.text.find(text) != std::string::npos;
}

TEST_CASE("Inputs of the same parameters are where they were", "[reduce]") {
  const InputProgram program = InputsOf(kBest, {0, 1, 3});
  CHECK(program.leaves == std::vector<int64_t>{0, 1, 3});
  CHECK(program.moves_only);
  CHECK(program.same_places);
  CHECK(!Has(program, "sine"));
}

TEST_CASE("Inputs follow parameters that moved, and are cut as these are", "[reduce]") {
  const std::string candidate = R"(HloModule m
ENTRY e { c = f32[3] parameter(0) a = f32[8,2] parameter(1) ROOT r = (f32[3], f32[8,2]) tuple(c, a) }
)";
  const InputProgram first = InputsOf(candidate, {0, 3});
  CHECK(first.leaves == std::vector<int64_t>{0, 1});
  CHECK(first.moves_only);
  CHECK(!first.same_places);
  CHECK(Has(first, "slice={[0:3]}"));
  CHECK(Has(first, "slice={[0:8], [0:2]}"));
  const InputProgram last = InputsOf(candidate, {0, 3}, {.from_end = true});
  CHECK(Has(last, "slice={[5:8]}"));
  CHECK(Has(last, "slice={[0:8], [2:4]}"));
  // What was not given is not given now.
  CHECK(InputsOf(candidate, {0}).leaves == std::vector<int64_t>{1});
}

TEST_CASE("A parameter that was an instruction has its value", "[reduce]") {
  const std::string candidate = R"(HloModule m
ENTRY e { s = f32[8,4] parameter(0) n = s32[8] parameter(1) x = f32[] parameter(2)
  ROOT r = (f32[8,4], s32[8], f32[]) tuple(s, n, x) }
)";
  const InputProgram program = InputsOf(candidate, {0});
  CHECK(program.leaves == std::vector<int64_t>{0});  // n has another type, x is unknown
  CHECK(!program.moves_only);
  CHECK(Has(program, "sine("));
  CHECK(!Has(program, "negate("));
  CHECK(InputsOf(candidate, {0}, {.may_compute = false}).leaves.empty());
}

TEST_CASE("Leaves of tuples are inputs one by one", "[reduce]") {
  const std::string candidate = R"(HloModule m
ENTRY e { t = (f32[2], s32[]) parameter(0) ROOT x = f32[2] get-tuple-element(t), index=0 }
)";
  const InputProgram program = InputsOf(candidate, {1, 2});
  CHECK(program.leaves == std::vector<int64_t>{0, 1});
  CHECK(Has(program, "slice={[0:2]}"));
}

TEST_CASE("Arguments of a snapshot become results", "[reduce]") {
  const auto module = Parsed(kBest);
  auto splat = [&](int64_t size) {
    const int64_t dims[] = {size};
    return SplatLiteral(module->arena(), module->context().Array(DType::kF32, dims), 2.5);
  };
  const Literal* other = splat(5);
  const Literal* fits = splat(4);
  Literal tuple;
  const Literal* number = SplatLiteral(module->arena(), module->context().Scalar(DType::kS32), 7);
  const Literal* elements[] = {fits, number};
  const Shape* shapes[] = {fits->shape, number->shape};
  tuple.shape = module->context().Tuple(shapes);
  tuple.elements = elements;
  const Literal* arguments[] = {other, &tuple};
  const InputProgram program = reduce::MakeArgumentProgram(*module, arguments);
  CHECK(program.leaves == std::vector<int64_t>{1, 2});
  Parsed(program.text);
  CHECK(Has(program, "constant(7)"));
}

// The reducer with a fake that keeps of inputs which leaves there are.
struct Reduced {
  Expected<Reduction> reduction;
  int64_t computed = 0;
};

Reduced ReduceWithInputs(
    const std::function<bool(const std::string&, const ReduceInputs&)>& holds) {
  ReduceOptions options;
  std::atomic<int64_t> computed = 0;
  options.inputs = std::make_shared<ReduceInputs>(ReduceInputs{{0, 1, 2, 3}, "", 1});
  options.compute_inputs = [&](const InputProgram& program, const ReduceInputs&) {
    ++computed;
    ReduceInputs made{program.leaves, "", std::hash<std::string>()(program.text)};
    return std::make_shared<const ReduceInputs>(std::move(made));
  };
  options.is_interesting = [&](const std::string& text, const ReduceInputs* inputs) {
    return holds(text, *inputs);
  };
  Reduced reduced{Reduce(kBest, options)};
  reduced.computed = computed;
  return reduced;
}

TEST_CASE("Inputs that the test does not need are dropped, at once if it needs none", "[reduce]") {
  const Reduced none = ReduceWithInputs([](const std::string& text, const ReduceInputs&) {
    return text.find(" sine(") != text.npos;
  });
  REQUIRE(none.reduction);
  CHECK(none.reduction->inputs->leaves.empty());
  CHECK(none.computed == 1);
}

TEST_CASE("Inputs that the test needs are kept", "[reduce]") {
  const Reduced one = ReduceWithInputs([](const std::string& text, const ReduceInputs& inputs) {
    return text.find(" sine(") != text.npos && !inputs.leaves.empty();
  });
  REQUIRE(one.reduction);
  CHECK(one.reduction->instructions == 2);
  CHECK(one.reduction->inputs->leaves == std::vector<int64_t>{0});
}

}  // namespace
}  // namespace gshard
