// Plans near another one, of a small space.

#include "core/autoshard/plan_moves.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "ir/parser.h"

namespace gshard::autoshard {
namespace {

// x [8, 16] and w [16, 32] are groups of inputs, y [8, 32] is one of products.
struct SmallSpace {
  std::unique_ptr<Module> module = *ParseModule(SourceText::FromString("t.hlo", R"(HloModule m
ENTRY e {
  x = f32[8,16] parameter(0)
  w = f32[16,32] parameter(1)
  ROOT y = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})"));
  std::vector<MeshAxis> mesh;
  PlanSpace space;

  explicit SmallSpace(const std::vector<MeshAxis>& axes)
      : mesh(axes),
        space(*module, std::vector<const Sharding*>(module->instruction_limit()), axes) {}

  std::string SpecOf(const Plan& plan, size_t group) const {
    const Group& of = space.groups()[group];
    const auto& cut = of.options[static_cast<size_t>(plan.choices[group])];
    return cut ? SpecText(mesh, of.shape, *cut) : "free";
  }
};

}  // namespace

TEST_CASE("moves of a group are its other options", "[autoshard]") {
  const SmallSpace small({{"a", 2}});
  const Plan none = small.space.EmptyPlan();
  std::vector<std::string> specs;
  for (const Plan& move : MovesOfGroup(small.space, none, 0))
    specs.push_back(small.SpecOf(move, 0));
  CHECK(specs == std::vector<std::string>{"_,_", "a,_", "_,a"});
  CHECK(CountMoves(small.space) == 9);
  CHECK(MovesOfSet(small.space, none, {0, 2}).size() == 9);
  CHECK(CountPlans(small.space, true) == 128);
  const std::vector<Plan> all = AllPlans(small.space, true);
  CHECK(all.size() == 128);
  for (size_t i = 1; i < all.size(); ++i) CHECK(std::ranges::count(all, all[i]) == 1);
}

TEST_CASE("groups of many options change one axis at a time", "[autoshard]") {
  const SmallSpace small({{"a", 2}, {"b", 2}, {"c", 2}});
  const Plan none = small.space.EmptyPlan();
  for (const Plan& move : MovesOfGroup(small.space, none, 0)) {
    const std::string spec = small.SpecOf(move, 0);
    CAPTURE(spec);
    CHECK(std::ranges::count_if(spec, [](char c) { return c >= 'a' && c <= 'c'; }) <= 1);
  }
}

TEST_CASE("axes change places in all cuts", "[autoshard]") {
  const SmallSpace small({{"a", 4}, {"b", 2}});
  Plan plan = small.space.EmptyPlan();
  plan.choices[0] = *small.space.OptionOf(0, {0, 1});
  const std::vector<Plan> swaps = AxisSwaps(small.space, plan);
  REQUIRE(swaps.size() == 1);
  CHECK(small.SpecOf(plan, 0) == "a,b");
  CHECK(small.SpecOf(swaps[0], 0) == "b,a");
}

TEST_CASE("sets of moves take the first of each group", "[autoshard]") {
  const Plan plan{{0, 0, 0, 0}, false};
  const std::vector<GroupMove> moves = {{1, {{0, 5, 0, 0}, false}},
                                        {1, {{0, 6, 0, 0}, false}},
                                        {0, {{2, 0, 0, 0}, false}},
                                        {3, {{0, 0, 0, 7}, false}},
                                        {2, {{0, 0, 1, 0}, false}}};
  const std::vector<Plan> sets = SetsOfMoves(plan, moves);
  REQUIRE(sets.size() == 2);
  CHECK(sets[0].choices == std::vector<int>{2, 5, 0, 0});
  CHECK(sets[1].choices == std::vector<int>{2, 5, 1, 7});
}

}  // namespace gshard::autoshard
