// What partitioning must not depend on, and the record it leaves.
#include "core/partition/partitioner.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/metadata.h"
#include "ir/parser.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

std::unique_ptr<Module> Partitioned(std::string text, PartitionStats* stats = nullptr) {
  auto module = ParseModule(SourceText::FromString("test", std::move(text)));
  REQUIRE(module.has_value());
  auto result = PartitionModule(**module);
  REQUIRE(result.has_value());
  REQUIRE(VerifyModule(**module).has_value());
  if (stats != nullptr) *stats = *result;
  return std::move(*module);
}

// Expert dispatch, expert layer, combine: groups and experts on one axis of n devices.
std::string Experts(int64_t n) {
  std::string count = std::to_string(n), groups = std::to_string(4096);
  std::string by_group = ", sharding={devices=[" + count + ",1,1]<=[" + count + "]}";
  std::string by_expert = ", sharding={devices=[1," + count + ",1]<=[" + count + "]}";
  std::string shape = "f32[" + groups + "," + groups + ",16]";
  return "HloModule m, num_partitions=" + count + "\nENTRY main {\n  x = " + shape +
         " parameter(0)" + by_group + "\n  d = " + shape + " negate(x)" + by_expert +
         "\n  w = f32[" + groups + ",16,16] parameter(1)" + by_group + "\n  h = f32[" + groups +
         "," + groups +
         ",16] dot(d, w), lhs_batch_dims={1}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
         "rhs_contracting_dims={1}" +
         by_group + "\n  ROOT y = " + shape + " transpose(h), dimensions={1,0,2}" + by_group +
         "\n}\n";
}

TEST_CASE("2048 devices take the instructions that 8 take", "[partition]") {
  PartitionStats few, many;
  std::unique_ptr<Module> a = Partitioned(Experts(8), &few);
  std::unique_ptr<Module> b = Partitioned(Experts(2048), &many);
  CHECK(a->entry()->instructions().size() == b->entry()->instructions().size());
  CHECK(few.collectives == 2);
  CHECK(many.collectives == 2);
  CHECK(few.full_rematerializations == 0);
}

TEST_CASE("The header records devices and output shardings", "[partition]") {
  auto module = Partitioned(
      "HloModule m, num_partitions=4\nENTRY main {\n  p = f32[8,6] parameter(0), "
      "sharding={devices=[4,1]<=[4]}\n  ROOT n = f32[8,6] negate(p), "
      "sharding={devices=[4,1]<=[4]}\n}\n");
  std::string_view record = module->header().frontend_attributes;
  CHECK(FrontendAttribute(record, "gshard.num_partitions") == "4");
  CHECK(FrontendAttribute(record, "gshard.output_shardings") == "{devices=[4,1]<=[4]}");
  CHECK(FrontendAttribute(record, "gshard.parameter_shapes") == "(f32[8,6])");
  CHECK(FrontendAttribute(record, "gshard.output_shapes") == "f32[8,6]");
  CHECK(module->entry()->parameter(0)->name() == "p");
  CHECK(module->entry()->parameter(0)->shape()->dim(0) == 2);
  CHECK(module->entry()->root()->name() == "n");
}

}  // namespace
}  // namespace gshard
