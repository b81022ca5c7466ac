// Steps are right or wrong by themselves, whatever came before them.
#include "backends/cpu/verify/local_check.h"

#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

std::unique_ptr<Module> ParseText(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  REQUIRE(module);
  return std::move(*module);
}

// By name, where both modules have an array: spread by `sharding` if it is a quarter of the whole.
LocalCheckResult Check(const Module& whole, const Module& partitioned) {
  const Sharding* tiled = partitioned.entry()->parameter(0)->sharding();
  const auto replicated =
      ParseText("HloModule r\nENTRY e { ROOT x = f32[] parameter(0), sharding={replicated} }");
  std::vector<LocalForm> forms;
  for (const Computation* computation : partitioned.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (!x->shape()->IsArray()) continue;
      const bool is_tile = x->shape()->rank() == 1 && x->shape()->dim(0) == 2;
      forms.push_back({x->name(), x, is_tile ? tiled : replicated->entry()->root()->sharding()});
    }
  }
  const auto inputs = std::move(*Inputs::Open("", 0));
  InstructionsOptions options;
  options.mesh.grid = CountDevices(partitioned, 4);
  options.mesh.threads = 2;
  options.budget_bytes = 1 << 20;
  auto result = CheckLocally(whole, partitioned, forms, *inputs, options);
  REQUIRE(result);
  return *result;
}

const std::string kSum =
    ", channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add";

// The sum of x - mean(x), which is rounding. `total`: of the four devices' parts.
std::string Centred(const std::string& header, const std::string& size, const std::string& sharding,
                    const std::string& total) {
  const std::string array = "f32[" + size + "]";
  return "HloModule m" + header +
         "\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
         "ENTRY e { x = " +
         array + " parameter(0)" + sharding +
         "\n zero = f32[] constant(0)\n part = f32[] reduce(x, zero), dimensions={0}, "
         "to_apply=add\n" +
         " sum = f32[] " +
         (header.empty() ? std::string("copy(part)") : "all-reduce(part)" + kSum) +
         "\n eighth = f32[] constant(0.125)\n mean = f32[] multiply(sum, eighth)\n means = " +
         array + " broadcast(mean), dimensions={}\n y = " + array +
         " subtract(x, means)\n rest = f32[] reduce(y, zero), dimensions={0}, to_apply=add\n" +
         " ROOT out = f32[] " + total + " }\n";
}

TEST_CASE("what cancels to rounding is right where each step is", "[cpu]") {
  const auto whole = ParseText(Centred("", "8", "", "copy(rest)"));
  const std::string four =
      ", num_partitions=4, frontend_attributes={gshard.output_shardings=\"{replicated}\"}";
  const std::string tiles = ", sharding={devices=[4]<=[4]}";
  const auto right = ParseText(Centred(four, "2", tiles, "all-reduce(rest)" + kSum));
  // `part` and `rest` are partial sums there, and no arrays of the whole graph.
  LocalCheckResult result = Check(*ParseText(Centred("", "8", "", "copy(rest)")), *right);
  REQUIRE(result.fault);
  CHECK(result.fault->x->name() == "part");
  auto without_parts = [](const std::string& text) {
    std::string renamed = text;
    for (const std::string name : {"part", "rest"}) {
      for (size_t at = 0; (at = renamed.find(name, at)) != std::string::npos; at += 7) {
        if (renamed.compare(at, 9, "partition") == 0 ||
            renamed.compare(at, 10, "partitions") == 0) {
          continue;
        }
        renamed.replace(at, name.size(), "local_" + name);
      }
    }
    return renamed;
  };
  const auto parts = ParseText(without_parts(Centred(four, "2", tiles, "all-reduce(rest)" + kSum)));
  result = Check(*whole, *parts);
  CHECK_FALSE(result.fault);
  CHECK(result.outputs_agree);
  CHECK(result.judged == 4);  // sum, mean, y, out: x is given
  CHECK(result.arrays == 4);
  const auto dropped = ParseText(without_parts(Centred(four, "2", tiles, "copy(rest)")));
  result = Check(*whole, *dropped);
  REQUIRE(result.fault);
  CHECK(result.fault->x->name() == "out");
  CHECK(result.fault->want.dims.empty());
}

// tanh(x + c) on four devices.
std::string Moved(const std::string& header, const std::string& size, const std::string& sharding,
                  const std::string& c, const std::string& sum = "add(x, cs)") {
  const std::string array = "f32[" + size + "]";
  return "HloModule m" + header + "\nENTRY e { x = " + array + " parameter(0)" + sharding +
         "\n c = f32[] constant(" + c + ")\n cs = " + array +
         " broadcast(c), dimensions={}\n y = " + array + " " + sum + "\n ROOT out = " + array +
         " tanh(y) }\n";
}

TEST_CASE("what one operation makes of equal operands is equal", "[cpu]") {
  const auto whole = ParseText(Moved("", "8", "", "1e-6"));
  const std::string four =
      ", num_partitions=4, frontend_attributes={gshard.output_shardings=\"{devices=[4]<=[4]}\"}";
  const std::string tiles = ", sharding={devices=[4]<=[4]}";
  LocalCheckResult result = Check(*whole, *ParseText(Moved(four, "2", tiles, "1e-6")));
  CHECK_FALSE(result.fault);
  CHECK(result.judged == 2);
  CHECK(result.max_rel_error == 0);
  // Far less than what sums may be off by.
  result = Check(*whole, *ParseText(Moved(four, "2", tiles, "2e-6")));
  REQUIRE(result.fault);
  CHECK(result.fault->x->name() == "y");
  // The mesh may take another way, with other roundings, if it does not compute it by the
  // operation.
  result = Check(*whole, *ParseText(Moved(four, "2", tiles, "-2e-6", "subtract(x, cs)")));
  CHECK_FALSE(result.fault);
}

TEST_CASE("one device's copy is wrong", "[cpu]") {
  const auto whole = ParseText(
      "HloModule m\nENTRY e { x = f32[8] parameter(0)\n y = f32[8] negate(x)\n"
      " ROOT out = f32[8] tanh(y) }\n");
  auto on_device = [](const std::string& device) {
    return ParseText(
        "HloModule m, num_partitions=4, frontend_attributes={gshard.output_shardings="
        "\"{replicated}\"}\nENTRY e { x = f32[8] parameter(0), sharding={replicated}\n"
        " id = u32[] partition-id()\n bad = u32[] constant(" +
        device +
        ")\n is = pred[] compare(id, bad), direction=EQ\n n = f32[8] negate(x)\n"
        " y = f32[8] select(is, x, n)\n ROOT out = f32[8] tanh(y) }\n");
  };
  for (const char* device : {"0", "3"}) {
    const LocalCheckResult result = Check(*whole, *on_device(device));
    REQUIRE(result.fault);
    CHECK(result.fault->x->name() == "y");
  }
  CHECK_FALSE(Check(*whole, *on_device("4")).fault);
}

}  // namespace
}  // namespace gshard::cpu
