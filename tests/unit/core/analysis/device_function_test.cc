// Closed forms of scalars that depend on the device: by hand, and against evaluating all devices.
#include "core/analysis/device_function.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "ir/parser.h"

namespace gshard {
namespace {

using SubAxes = std::vector<DeviceSubAxis>;

TEST_CASE("quotients and remainders of a device number are its sub-axes") {
  DeviceFunction id = IdentityFunction(24);
  CHECK(Quotient(id, 6)->sub_axes == SubAxes{{4, 6, 1}});
  CHECK(Remainder(id, 6)->sub_axes == SubAxes{{6, 1, 1}});
  CHECK(Remainder(*Quotient(id, 2), 3)->sub_axes == SubAxes{{3, 2, 1}});
  // 5 cuts no sub-axis of 24.
  CHECK(!Quotient(id, 5));
  // (8 * (id % 4) + 3) / 16 = (id % 4) / 2, remainder 8 * (id % 2) + 3.
  DeviceFunction f = *Sum(Scaled(*Remainder(id, 4), 8), ConstantFunction(3));
  CHECK(Quotient(f, 16)->sub_axes == SubAxes{{2, 2, 1}});
  CHECK(*Remainder(f, 16) == DeviceFunction{3, {{2, 1, 8}}});
  // 8 * (id % 4) + 12 carries at 16.
  CHECK(!Quotient(*Sum(Scaled(*Remainder(id, 4), 8), ConstantFunction(12)), 16));
}

TEST_CASE("sums refine sub-axes and are in normal form") {
  DeviceFunction id = IdentityFunction(8);
  DeviceFunction high = *Quotient(id, 4), low = *Remainder(id, 4);
  CHECK(*Sum(Scaled(high, 4), low) == id);
  CHECK(*Sum(id, Scaled(id, -1)) == ConstantFunction(0));
  CHECK(*Sum(id, low) == DeviceFunction{0, {{2, 4, 4}, {4, 1, 2}}});
  // Sub-axes of 2 x 3 and of 3 x 2 devices share nothing.
  CHECK(!Sum(*Remainder(IdentityFunction(6), 2), *Remainder(IdentityFunction(6), 3)));
}

TEST_CASE("tables that are mixed-radix arithmetic") {
  auto f = FunctionOfTable(std::vector<int64_t>{7, 7, 7, 7}, 4);
  CHECK(*f == ConstantFunction(7));
  CHECK(*FunctionOfTable(std::vector<int64_t>{1, 3, 5, 7}, 4) == DeviceFunction{1, {{4, 1, 2}}});
  CHECK(*FunctionOfTable(std::vector<int64_t>{0, 0, 4, 4, 8, 8}, 4) ==
        DeviceFunction{0, {{3, 2, 4}}});
  CHECK(*FunctionOfTable(std::vector<int64_t>{0, 10, 1, 11}, 4) ==
        DeviceFunction{0, {{2, 2, 1}, {2, 1, 10}}});
  CHECK(!FunctionOfTable(std::vector<int64_t>{0, 1, 2, 4}, 1));
  CHECK(!FunctionOfTable(std::vector<int64_t>{0, 1, 1, 0}, 4));  // no sum of sub-axes
  // Every form found gives the table back.
  for (int64_t size : {1, 2, 6, 12, 30}) {
    for (int64_t a = -2; a <= 2; ++a) {
      for (int64_t radix : {1, 2, 3, 6}) {
        if (size % radix != 0) continue;
        std::vector<int64_t> table;
        for (int64_t i = 0; i < size; ++i) table.push_back(5 + a * (i / radix) - 3 * (i % radix));
        auto found = FunctionOfTable(table, 4);
        REQUIRE(found);
        for (int64_t i = 0; i < size; ++i) CHECK(found->At(i) == table[static_cast<size_t>(i)]);
      }
    }
  }
}

TEST_CASE("offsets of a program, read as XLA writes them") {
  auto module = ParseModule(SourceText::FromString("m", R"(
HloModule m, num_partitions=8
ENTRY e {
  id = u32[] partition-id()
  table = s32[8] constant({0, 0, 16, 16, 32, 32, 48, 48})
  row = s32[1] dynamic-slice(table, id), dynamic_slice_sizes={1}
  offset = s32[] reshape(row)
  four = s32[] constant(4)
  inner = s32[] multiply(offset, four)
  zero = s32[] constant(0)
  end = s32[] constant(192)
  clamped = s32[] clamp(zero, inner, end)
  minus = s32[] subtract(zero, clamped)
  wraps = u32[] convert(minus)
  bent = s32[8] constant({0, 1, 1, 0, 1, 0, 0, 1})
  parity = s32[1] dynamic-slice(bent, id), dynamic_slice_sizes={1}
  ROOT all = (s32[], u32[], s32[1]) tuple(minus, wraps, parity)
})"));
  REQUIRE(module);
  DeviceFunctions functions(8);
  const Instruction* root = (*module)->entry()->root();
  CHECK(*functions.Of(root->operand(0)) == DeviceFunction{0, {{4, 2, -64}}});
  CHECK(!functions.Of(root->operand(1)));  // negative numbers wrap around
  CHECK(!functions.Of(root->operand(2)));
}

TEST_CASE("places in replica groups") {
  // <=[2,4]T(1,0) as 4 groups of 2: {0,4},{1,5},..
  const int64_t dims[] = {4, 2}, mesh[] = {2, 4}, order[] = {1, 0};
  auto groups = ReplicaGroups::FromTiles(TileAssignment::Iota(dims, mesh, order));
  CHECK(*PlaceInGroup(groups, 8) == DeviceFunction{0, {{2, 4, 1}}});
  // The order within groups counts: {1,0},{3,2}.
  auto swapped = ReplicaGroups::FromLists({{1, 0}, {3, 2}});
  CHECK(!PlaceInGroup(swapped, 4));
  CHECK(*PlaceInGroup(ReplicaGroups(), 4) == IdentityFunction(4));
}

}  // namespace
}  // namespace gshard
