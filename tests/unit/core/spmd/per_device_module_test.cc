// The way from a module to the program of one device.
#include "core/spmd/per_device_module.h"

#include <catch2/catch.hpp>

#include "core/analysis/partitioned.h"
#include "ir/parser.h"
#include "ir/printer.h"

namespace gshard {
namespace {

std::unique_ptr<Module> Parse(const char* text) {
  auto module = ParseModule(SourceText::FromString("test", text));
  REQUIRE(module.has_value());
  return std::move(*module);
}

constexpr const char* kShardy = R"(
HloModule m, frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\"x\"=4]>}"}
ENTRY e {
  q = f32[8] parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}]>"}
  ROOT a = f32[8] negate(q)
})";

constexpr const char* kAnnotated = R"(
HloModule m
f {
  p = f32[8] parameter(0)
  ROOT n = f32[8] negate(p)
}
ENTRY e {
  q = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  ROOT c = f32[8] call(q), to_apply=f
})";

TEST_CASE("devices are counted behind Shardy's attributes", "[spmd]") {
  auto module = Parse(kShardy);
  CHECK(CountDevices(*module).partitions == 1);
  auto devices = ReadDevices(*module);
  REQUIRE(devices.has_value());
  CHECK(devices->partitions == 4);
  CHECK(devices->replicas == 1);
}

TEST_CASE("a number of devices that is asked for leads", "[spmd]") {
  auto module = Parse(kAnnotated);
  auto devices = ReadDevices(*module, 8);
  REQUIRE(devices.has_value());
  CHECK(devices->partitions == 8);
  CHECK(module->header().num_partitions == 8);
}

TEST_CASE("groups without channels count replicas", "[spmd]") {
  auto module = Parse(R"(
HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  q = f32[8] parameter(0)
  ROOT r = f32[8] all-reduce(q), replica_groups={{0,1},{2,3}}, to_apply=add
})");
  CHECK(CountDevices(*module).replicas == 4);
  CHECK(CountDevices(*module).partitions == 1);
}

TEST_CASE("the passes and the looks between them come in order", "[spmd]") {
  auto module = Parse(kAnnotated);
  PassContext context;
  std::vector<PassTiming> timings;
  std::vector<size_t> passes_before;  // each look
  PerDeviceOptions way;
  way.timings = &timings;
  way.windowed_einsum = true;
  way.before_sharding = [&](Module& inlined) -> Expected<void> {
    passes_before.push_back(timings.size());
    CHECK(inlined.entry()->root()->opcode() == Opcode::kNegate);
    CHECK(inlined.entry()->root()->sharding() == nullptr);
    return {};
  };
  way.after_propagation = [&](Module& propagated) -> Expected<void> {
    passes_before.push_back(timings.size());
    CHECK_FALSE(IsPartitioned(propagated));
    return {};
  };
  auto devices = MakePerDeviceModule(*module, context, way);
  REQUIRE(devices.has_value());
  CHECK(devices->partitions == 4);
  CHECK(HasPartitionRecord(*module));
  std::vector<std::string> names;
  for (const PassTiming& timing : timings) names.push_back(timing.name);
  CHECK(names == std::vector<std::string>{"import-shardy", "inline-calls", "canonicalize",
                                          "split-constants", "propagate", "merge-constants",
                                          "partition", "windowed-einsum"});
  CHECK(passes_before == std::vector<size_t>{2, 6});
}

TEST_CASE("an error of a look ends the way", "[spmd]") {
  auto module = Parse(kAnnotated);
  PassContext context;
  PerDeviceOptions way;
  way.after_propagation = [&](Module&) -> Expected<void> {
    return Fail(MakeError("E-TEST-001", "enough"));
  };
  auto devices = MakePerDeviceModule(*module, context, way);
  REQUIRE_FALSE(devices.has_value());
  CHECK(devices.error().code == "E-TEST-001");
  CHECK_FALSE(HasPartitionRecord(*module));
}

TEST_CASE("without propagation shardings are taken as they are", "[spmd]") {
  auto module = Parse(kAnnotated);
  PassContext context;
  PerDeviceOptions way;
  way.propagate = false;
  REQUIRE(MakePerDeviceModule(*module, context, way).has_value());
  // The root has none: it is whole on every device.
  CHECK(module->entry()->root()->shape()->dim(0) == 8);
}

}  // namespace
}  // namespace gshard
