#include "core/analysis/device_groups.h"

#include <fmt/format.h>

#include "core/analysis/collective_classes.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// An entry over f32[8] p with these instructions, r0, r1, ...
std::unique_ptr<Module> Collectives(std::span<const std::string_view> instructions) {
  std::string text =
      "HloModule m, num_partitions=8\n"
      "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
      "ENTRY e {\n  p = f32[8] parameter(0)\n";
  for (size_t i = 0; i < instructions.size(); ++i) {
    text += fmt::format("  {}r{} = {}\n", i + 1 == instructions.size() ? "ROOT " : "", i,
                        instructions[i]);
  }
  return Parsed(text + "}");
}

TEST_CASE("collectives with equal groups or pairs are resolved once", "[analysis]") {
  const std::string_view instructions[] = {
      "f32[8] collective-permute(p), channel_id=1, source_target_pairs={{0,1},{1,0}}",
      "f32[8] collective-permute(r0), channel_id=2, source_target_pairs={{0,1},{1,0}}",
      "f32[8] collective-permute(r0), channel_id=3, source_target_pairs={{0,1},{2,0}}",
      "f32[16] all-gather(p), channel_id=4, replica_groups=[4,2]<=[8], dimensions={0}, "
      "use_global_device_ids=true",
      "f32[16] all-gather(r1), channel_id=5, replica_groups={{0,1},{2,3},{4,5},{6,7}}, "
      "dimensions={0}, use_global_device_ids=true",
      "f32[16] all-gather(r1), channel_id=6, replica_groups=[4,2]<=[2,4]T(1,0), dimensions={0}, "
      "use_global_device_ids=true",
      "f32[8] all-reduce(p), channel_id=7, replica_groups=[4,2]<=[8], use_global_device_ids=true, "
      "to_apply=add",
  };
  const auto module = Collectives(instructions);
  CollectiveResolver resolver({1, 8});
  const auto of = [&](std::string_view name) { return *resolver.Of(*Named(*module, name)); };
  CHECK(of("r0") == of("r1"));
  CHECK(of("r0") != of("r2"));
  CHECK(of("r0")->sources[1] == 0);
  CHECK(of("r2")->sources[0] == 2);
  CHECK(of("r3") == of("r4"));
  CHECK(of("r3") != of("r5"));
  CHECK(of("r5")->groups.position_of[4] == 1);
  CHECK(of("r3") != of("r6"));  // which sizes are right depends on the operation

  DeviceClassTable table(8);
  CollectiveClasses classes(table);
  const std::vector<uint64_t> labels{0, 1, 0, 1, 2, 2, 2, 2};
  const DeviceClasses* operand = table.Intern(labels);
  const std::vector<uint64_t> summed{0, 0, 0, 0, 1, 1, 1, 1}, moved{1, 0, 2, 2, 2, 2, 2, 2};
  CHECK(classes.Of(*Named(*module, "r6"), *of("r6"), *operand) == table.Intern(summed));
  CHECK(classes.Of(*Named(*module, "r1"), *of("r1"), *operand) == table.Intern(moved));
}

TEST_CASE("groups of a wrong size are told of each collective", "[analysis]") {
  const std::string_view instructions[] = {
      "f32[16] all-gather(p), channel_id=1, dimensions={0}, use_global_device_ids=true",
      "f32[64] all-gather(p), channel_id=2, dimensions={0}, use_global_device_ids=true",
      "f32[16] all-gather(p), channel_id=3, dimensions={0}, use_global_device_ids=true",
  };
  const auto module = Collectives(instructions);
  CollectiveResolver resolver({1, 8});
  CHECK_FALSE(resolver.Of(*Named(*module, "r0")));
  CHECK(resolver.Of(*Named(*module, "r1")));
  CHECK_FALSE(resolver.Of(*Named(*module, "r2")));
}

}  // namespace
}  // namespace gshard
