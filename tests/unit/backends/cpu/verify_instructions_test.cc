// A wrong value inside the graph is found where it begins, with the way the error takes.
#include "backends/cpu/verify_instructions.h"

#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

std::unique_ptr<Module> ParseText(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  REQUIRE(module);
  return std::move(*module);
}

// y = 2 (x + 1) + x; on device 2 `wrong` is added to the sum.
std::unique_ptr<Module> OnFourDevices(const std::string& wrong) {
  return ParseText(
      "HloModule m, num_partitions=4\nENTRY e { x = f32[2] parameter(0), "
      "sharding={devices=[4]<=[4]}\n t = f32[4] constant({1,1," +
      wrong +
      ",1})\n p = u32[] partition-id()\n o = f32[1] dynamic-slice(t, p), "
      "dynamic_slice_sizes={1}\n b = f32[2] broadcast(o), dimensions={0}\n a = f32[2] add(x, b)\n "
      "two = f32[] constant(2)\n bt = f32[2] broadcast(two), dimensions={}\n m = f32[2] "
      "multiply(a, bt)\n ROOT y = f32[2] add(m, x) }\n");
}

InstructionsResult Verify(const std::string& wrong, int64_t budget) {
  const auto whole = ParseText(
      "HloModule m\nENTRY e { x = f32[8] parameter(0)\n one = f32[] constant(1)\n b = f32[8] "
      "broadcast(one), dimensions={}\n a = f32[8] add(x, b)\n two = f32[] constant(2)\n bt = "
      "f32[8] broadcast(two), dimensions={}\n m = f32[8] multiply(a, bt)\n ROOT y = f32[8] "
      "add(m, x) }\n");
  const auto partitioned = OnFourDevices(wrong);
  std::vector<LocalForm> forms;
  for (const Instruction* x : partitioned->entry()->instructions()) {
    if (x->shape()->rank() == 1 && x->shape()->dim(0) == 2) {
      forms.push_back({x->name(), x, partitioned->entry()->parameter(0)->sharding()});
    }
  }
  const auto inputs = std::move(*Inputs::Open("", 0));
  InstructionsOptions options;
  options.mesh.grid = GridOf(*partitioned, 4);
  options.budget_bytes = budget;
  auto result = VerifyInstructions(*whole, *partitioned, forms, *inputs, options);
  REQUIRE(result);
  return *result;
}

TEST_CASE("equal graphs agree in every instruction", "[cpu]") {
  const InstructionsResult result = Verify("1", 1 << 20);
  CHECK(result.compared == 4);  // neither b nor bt: scalars
  CHECK_FALSE(result.first);
  CHECK(result.max_rel_error == 0);
}

TEST_CASE("the first instruction that diverges is named, whatever is held at a time", "[cpu]") {
  for (const int64_t budget : {int64_t{1}, int64_t{100}, int64_t{1} << 20}) {
    const InstructionsResult result = Verify("1.5", budget);
    REQUIRE(result.first);
    CHECK(result.first->name == "a");
    CHECK(result.first->device == 2);
    CHECK(result.first->index.at(0) / 2 == 2);  // in the tile of device 2
    const double value = std::stod(result.first->value);
    CHECK(value - std::stod(result.first->expected) == Approx(0.5));
    CHECK(result.first->ulps == Approx(0.5 / std::ldexp(1.0, std::ilogb(value - 0.5) - 23)));
    REQUIRE_FALSE(result.growth.empty());
    CHECK(result.growth.back().name == "a");
  }
}

TEST_CASE("what is within the tolerance is no divergence", "[cpu]") {
  const InstructionsResult result = Verify("1.00001", 1 << 20);
  CHECK_FALSE(result.first);
  CHECK(result.max_rel_error > 5e-6);
  CHECK(result.max_rel_error < 2e-5);
}

}  // namespace
}  // namespace gshard::cpu
