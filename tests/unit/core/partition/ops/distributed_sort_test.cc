// Which way a sort along a cut dim takes, and what it costs in text.
#include "core/partition/ops/distributed_sort.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "core/partition/partitioner.h"
#include "ir/parser.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

using Kind = DistributedSortPlan::Kind;

TEST_CASE("Long tiles are sorted as columns", "[partition]") {
  // 256 of each other tile, twice, and 9 elements from either neighbour.
  DistributedSortPlan plan = PlanDistributedSort(4096, 4);
  CHECK(plan.kind == Kind::kColumns);
  CHECK(plan.tile == 1024);
  CHECK(plan.elements == 2 * 768 + 2 * 9);
  CHECK(plan.messages == 4);
  CHECK_FALSE(plan.has_padding());
  // The shortest columns that do: 2 * 7 * 7 elements, rounded up to a multiple of 8.
  CHECK(PlanDistributedSort(8 * 104, 8).kind == Kind::kColumns);
}

TEST_CASE("Columns are as long as they divide", "[partition]") {
  // Tiles of 858 become columns of 861; 18 elements are moved back in the end, at most.
  DistributedSortPlan plan = PlanDistributedSort(6000, 7);
  CHECK(plan.kind == Kind::kColumns);
  CHECK(plan.tile == 861);
  CHECK(plan.has_padding());
  CHECK(plan.elements == 2 * 123 * 6 + 2 * 36 + 18);
  CHECK(plan.messages == 5);
}

TEST_CASE("Short tiles are sorted by a network", "[partition]") {
  DistributedSortPlan plan = PlanDistributedSort(8 * 64, 8);
  CHECK(plan.kind == Kind::kNetwork);
  CHECK(plan.messages == 6);
  CHECK(plan.elements == 6 * 64);
  CHECK(PlanDistributedSort(1 << 20, 2048).messages == 66);
  // Five tiles need no more rounds than eight; tiles without elements take no part.
  CHECK(PlanDistributedSort(5 * 20, 5).messages == 6);
  CHECK(PlanDistributedSort(17, 8).messages == 6);  // tiles of 3: six have elements
  CHECK(PlanDistributedSort(12, 8).messages == 6);
  CHECK(PlanDistributedSort(9, 8).messages == 6);  // tiles of 2: five have elements
}

// Instructions of the program of one device that sorts `size` floats.
size_t InstructionsToSort(int64_t size, int64_t devices) {
  std::string text = fmt::format(
      "HloModule m, num_partitions={1}\n"
      "lt {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER\n}}\n"
      "ENTRY main {{\n  x = f32[{0}] parameter(0), sharding={{devices=[{1}]<=[{1}]}}\n"
      "  ROOT y = f32[{0}] sort(x), dimensions={{0}}, to_apply=lt, "
      "sharding={{devices=[{1}]<=[{1}]}}\n}}\n",
      size, devices);
  auto module = ParseModule(SourceText::FromString("test", text));
  REQUIRE(module.has_value());
  REQUIRE(PartitionModule(**module).has_value());
  REQUIRE(VerifyModule(**module).has_value());
  std::span<Instruction* const> made = (*module)->entry()->instructions();
  CHECK(std::ranges::none_of(
      made, [](const Instruction* x) { return x->opcode() == Opcode::kAllGather; }));
  return made.size();
}

TEST_CASE("Columns take as many instructions on 64 devices as on 8", "[partition]") {
  CHECK(InstructionsToSort(64 * 8192, 64) == InstructionsToSort(8 * 8192, 8));
}

TEST_CASE("A network's instructions grow with the square of the logarithm", "[partition]") {
  // 5 * 6 / 2 and 11 * 12 / 2 rounds.
  CHECK(InstructionsToSort(32 * 512, 32) <= 21 * 15);
  CHECK(InstructionsToSort(2048 * 512, 2048) <= 21 * 66);
}

}  // namespace
}  // namespace gshard
