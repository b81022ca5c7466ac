#include "core/propagation/shardy_import.h"

#include "core/analysis/partitioned.h"
#include "ir/custom_call.h"
#include "ir/sharding_text.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

std::string WithSharding(const std::string& attribute, const std::string& type = "f32[8,16]") {
  return R"(HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>, empty_mesh = #sdy.mesh<[]>, one = #sdy.mesh<[], device_ids=[3]>, back = #sdy.mesh<["z"=4], device_ids=[3,2,1,0]>}}
ENTRY e {
  ROOT a = )" +
         type + R"( parameter(0), frontend_attributes={xla.sdy.sharding=")" + attribute + R"("}
})";
}

std::string Imported(const std::string& attribute, const std::string& type = "f32[8,16]") {
  auto m = Parsed(WithSharding(attribute, type));
  auto changed = ImportShardyShardings(*m);
  if (!changed) return Render(changed.error());
  return ShardingOf(*m, "a");
}

TEST_CASE("Shardy's attributes in our mesh form", "[propagation]") {
  CHECK(Imported(R"(#sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>)") ==
        "{mesh['x'=2,'y'=4], [{'x'}, {'y'}]}");
  CHECK(Imported(R"(#sdy.sharding<@mesh, [{}, {\"y\":(2)2, \"x\", ?}p1]>)") ==
        "{mesh['x'=2,'y'=4], [{}, {'y':(2)2, 'x'}]}");
  CHECK(Imported(R"(#sdy.sharding<@mesh, [{}, {}], replicated={\"x\"}>)") ==
        "{mesh['x'=2,'y'=4], [{}, {}], replicated={'x'}}");
  CHECK(Imported(R"(#sdy.sharding<@empty_mesh, [{}, {}]>)") == "{replicated}");
  CHECK(Imported(R"(#sdy.sharding<@one, [{}, {}]>)") == "{maximal device=3}");
  CHECK(Imported(R"(#sdy.sharding<@back, [{\"z\"}, {}]>)") ==
        "{mesh['z'=4], device_ids=(3,2,1,0), [{'z'}, {}]}");
  CHECK(Imported(R"(#sdy.sharding<mesh<[\"w\"=8]>, [{\"w\"}, {}]>)") ==
        "{mesh['w'=8], [{'w'}, {}]}");
  CHECK(Imported(R"(#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>, <@mesh, [{}, {\"y\"}]>]>)",
                 "(f32[8], f32[8,16])") ==
        "{{mesh['x'=2,'y'=4], [{'x'}]}, {mesh['x'=2,'y'=4], [{}, {'y'}]}}");
}

TEST_CASE("An attribute that cannot be read is an error at its place", "[propagation]") {
  CHECK_THAT(Imported(R"(#sdy.sharding<@nowhere, [{}, {}]>)"),
             Catch::Contains("E-SDY-001") && Catch::Contains("test.hlo:3:"));
  CHECK_THAT(Imported(R"(#sdy.sharding<@mesh, [{\"q\"}, {}]>)"), Catch::Contains("E-SDY-001"));
  CHECK_THAT(Imported("#sdy.sharding<@mesh"), Catch::Contains("E-SDY-001"));
}

TEST_CASE("FuncResultSharding is a Sharding call", "[propagation]") {
  auto m = Parsed(
      R"(HloModule m, num_partitions=8, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=8]>}}
ENTRY e {
  a = f32[8] parameter(0)
  s = f32[8] sine(a)
  f = f32[8] custom-call(s), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>"}
  ROOT r = (f32[8]) tuple(f)
})");
  Propagate(*m);
  CHECK(ShardingOf(*m, "s") == "{mesh['x'=8], [{'x'}]}");
  CHECK(Named(*m, "f")->opcode() == Opcode::kCopy);
}

std::string NestedRegions(const std::string& inner_axes) {
  return R"(HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}
inner {
  q = f32[4,4] parameter(0)
  ROOT permuted = f32[4,4] collective-permute(q), channel_id=1, source_target_pairs={{0,1},{1,0}}
}
outer {
  p = f32[4,16] parameter(0)
  id = u32[] partition-id()
  enter = f32[4,4] custom-call(p), custom_call_target="xla.sdy.GlobalToLocalShape", frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{?}, {\"y\", ?}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{)" +
         inner_axes + R"(}>"}
  c = f32[4,4] call(enter), to_apply=inner
  ROOT leave = f32[4,16] custom-call(c), custom_call_target="xla.sdy.LocalToGlobalShape", frontend_attributes={xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{?}, {\"y\", ?}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"y\"}>"}
}
ENTRY e {
  a = f32[8,16] parameter(0)
  enter.1 = f32[4,16] custom-call(a), custom_call_target="xla.sdy.GlobalToLocalShape", frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\", ?}, {?}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>"}
  c.1 = f32[4,16] call(enter.1), to_apply=outer
  ROOT leave.1 = f32[8,16] custom-call(c.1), custom_call_target="xla.sdy.LocalToGlobalShape", frontend_attributes={xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\"x\", ?}, {?}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\"x\"}>"}
})";
}

TEST_CASE("Manual regions of Shardy are marked on both sides", "[propagation]") {
  auto m = Parsed(NestedRegions(R"(\"y\")"));
  CHECK_FALSE(IsPartitioned(*m));
  REQUIRE(ImportShardyShardings(*m).has_value());
  CHECK_FALSE(IsPartitioned(*m));
  CHECK(ShardingOf(*m, "permuted") == "{manual}");
  CHECK(ShardingOf(*m, "id") == "{mesh['x'=2,'y'=4], [], manual={'x'}}");
  const Instruction* border = Named(*m, "c.1")->operand(0);
  CHECK(IsCustomCallTo(*border, "SPMDFullToShardShape"));
  CHECK(ToString(border->sharding()) == "{mesh['x'=2,'y'=4], [{}, {}], manual={'x'}}");
  CHECK(border->backend_config() == "\"unspecified_dims=[0,1]\"");
  CHECK(ToString(border->operand(0)->sharding()) == "{mesh['x'=2,'y'=4], [{'x'}, {}]}");
  const Instruction* root = m->entry()->root();
  CHECK(IsCustomCallTo(*root, "SPMDShardToFullShape"));
  CHECK(ToString(root->sharding()) == "{mesh['x'=2,'y'=4], [{'x'}, {}]}");
  CHECK_FALSE(*ImportShardyShardings(*m));
}

TEST_CASE("A manual region that cannot be read is an error at its marker", "[propagation]") {
  auto m = Parsed(NestedRegions("y"));
  auto imported = ImportShardyShardings(*m);
  REQUIRE_FALSE(imported.has_value());
  CHECK_THAT(Render(imported.error()), Catch::Contains("E-SDY-003") && Catch::Contains("'enter'"));
}

}  // namespace
}  // namespace gshard
