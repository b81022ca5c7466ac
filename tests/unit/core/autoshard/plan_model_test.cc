// The model that elimination works on: where its costs come from, and that its plan is its least.

#include "core/autoshard/plan_model.h"

#include <catch2/catch.hpp>

#include "core/autoshard/modelled_work.h"
#include "ir/parser.h"

namespace gshard::autoshard {
namespace {

struct Modelled {
  std::unique_ptr<Module> module;
  std::vector<MeshAxis> mesh;
  PlanSpace space;
  Chip chip = *BuiltInChip("tpu-v3");
  Mesh of_axes;
  Network network;
  PlanModel model;

  Modelled(const std::string& text, const std::vector<MeshAxis>& axes)
      : module(*ParseModule(SourceText::FromString("t.hlo", text))),
        mesh(axes),
        space(*module, std::vector<const Sharding*>(module->instruction_limit()), axes),
        of_axes(MeshOf(axes)),
        network(*Network::Make(chip, 8, &of_axes)),
        model(*module, space, chip, network) {}

  std::string SpecOf(const Plan& plan, size_t group) const {
    const Group& of = space.groups()[group];
    return SpecText(mesh, of.shape, *of.options[static_cast<size_t>(plan.choices[group])]);
  }
};

// A large batch through two layers.
constexpr const char* kLargeBatch = R"(HloModule m
ENTRY e {
  x = f32[65536,256] parameter(0)
  w1 = f32[256,512] parameter(1)
  w2 = f32[512,128] parameter(2)
  h = f32[65536,512] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[65536,512] tanh(h)
  ROOT y = f32[65536,128] dot(a, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

// A few rows through large weights.
constexpr const char* kLargeWeights = R"(HloModule m
ENTRY e {
  x = f32[8,8192] parameter(0)
  w1 = f32[8192,32768] parameter(1)
  w2 = f32[32768,8192] parameter(2)
  h = f32[8,32768] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[8,32768] tanh(h)
  ROOT y = f32[8,8192] dot(a, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

}  // namespace

TEST_CASE("the model cuts large batches, and large weights as Megatron does", "[autoshard]") {
  const Modelled batch(kLargeBatch, {{"d", 8}});
  const std::vector<ModelledPlan> by_batch = LeastPlans(batch.model);
  REQUIRE_FALSE(by_batch.empty());
  CHECK(batch.SpecOf(by_batch[0].plan, 0) == "d,_");  // x
  CHECK(batch.SpecOf(by_batch[0].plan, 3) == "d,_");  // h
  CHECK(batch.SpecOf(by_batch[0].plan, 4) == "d,_");  // y

  const Modelled weights(kLargeWeights, {{"d", 8}});
  const std::vector<ModelledPlan> by_weights = LeastPlans(weights.model);
  REQUIRE_FALSE(by_weights.empty());
  CHECK(weights.SpecOf(by_weights[0].plan, 1) == "_,d");  // w1
  CHECK(weights.SpecOf(by_weights[0].plan, 2) == "d,_");  // w2
  CHECK(weights.SpecOf(by_weights[0].plan, 3) == "_,d");  // h
}

TEST_CASE("a price of memory makes the model's plan smaller and slower", "[autoshard]") {
  const Modelled batch(kLargeBatch, {{"d", 8}});
  const auto fast = batch.model.LeastPlan(0), small = batch.model.LeastPlan(1);
  REQUIRE(fast);
  REQUIRE(small);
  CHECK(small->bytes < fast->bytes);
  CHECK(small->seconds > fast->seconds);
  CHECK(LeastPlans(batch.model).size() > 1);
}

TEST_CASE("layers of a loop count as often as it runs", "[autoshard]") {
  const Modelled loop(R"(HloModule m
condition {
  t = (s32[], f32[64,128], f32[6,128,128]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  t = (s32[], f32[64,128], f32[6,128,128]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[64,128] get-tuple-element(t), index=1
  s = f32[6,128,128] get-tuple-element(t), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  l = f32[1,128,128] dynamic-slice(s, i, zero, zero), dynamic_slice_sizes={1,128,128}
  w = f32[128,128] reshape(l)
  y = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], f32[64,128], f32[6,128,128]) tuple(next, y, s)
}
ENTRY e {
  x = f32[64,128] parameter(0)
  s = f32[6,128,128] parameter(1)
  i = s32[] constant(0)
  t = (s32[], f32[64,128], f32[6,128,128]) tuple(i, x, s)
  l = (s32[], f32[64,128], f32[6,128,128]) while(t), condition=condition, body=body
  ROOT r = f32[64,128] get-tuple-element(l), index=1
})",
                      {{"d", 8}});
  const ModelledWork work = ModelledWorkOf(*loop.module, loop.space, loop.chip);
  REQUIRE(work.products.size() == 1);
  CHECK(work.products[0].times == 6);
  // The operands are the loop's arguments, the weight without its dim of layers.
  REQUIRE(loop.space.groups().size() == 3);
  CHECK(work.products[0].operands[0] == Source{1, {0, 1}});
  CHECK(work.products[0].operands[1] == Source{2, {1, 2}});
  // What is carried comes back as it went in.
  REQUIRE(work.reshards.size() >= 1);
  CHECK(std::ranges::any_of(work.reshards, [](const Reshard& reshard) {
    return reshard.from == Source{0, {0, 1}} && reshard.to == Source{1, {0, 1}} &&
           reshard.times == 6;
  }));
}

TEST_CASE("a model of many options is solved axis by axis", "[autoshard]") {
  const Modelled large(kLargeWeights, {{"a", 2}, {"b", 2}, {"c", 2}});
  const auto least = large.model.LeastPlan(0);
  REQUIRE(least);
  const SumOfCosts all = large.model.Sum(large.model.AllOptions(), 0);
  std::vector<int> values;
  for (const int choice : least->plan.choices) values.push_back(choice - 1);
  CHECK(all.Of(values) == Approx(least->seconds));
}

}  // namespace gshard::autoshard
