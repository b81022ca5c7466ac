// How results of shards can form whole arrays.
#include "backends/cpu/verify/result_spread.h"

#include <catch2/catch.hpp>

#include "core/analysis/partitioned.h"
#include "ir/parser.h"
#include "ir/sharding_text.h"

namespace gshard::cpu {
namespace {

std::unique_ptr<Module> Parse(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("m.hlo", text));
  REQUIRE(module.has_value());
  return *std::move(module);
}

std::vector<std::string> Spreads(const Module& module, int64_t partitions,
                                 std::vector<int64_t> local, std::vector<int64_t> whole) {
  std::vector<std::string> texts;
  for (const Sharding* s : SpreadsThatFit(module, partitions, local, whole)) {
    texts.push_back(ToString(s));
  }
  return texts;
}

TEST_CASE("spreads that fit shards and a whole array", "[cpu][verify]") {
  const auto module = Parse(
      "HloModule m, num_partitions=8\n"
      "ENTRY e { ROOT x = f32[8,2] parameter(0), sharding={devices=[2,2,2]<=[2,4]T(1,0) "
      "last_tile_dim_replicate} }");
  using Texts = std::vector<std::string>;
  CHECK(Spreads(*module, 8, {4, 4}, {4, 4}) == Texts{"{replicated}"});
  CHECK(Spreads(*module, 2, {4, 4}, {8, 4}) == Texts{"{devices=[2,1]<=[2]}"});
  CHECK(Spreads(*module, 8, {4, 4}, {9, 4}).empty());   // 3 tiles are no part of 8 devices
  CHECK(Spreads(*module, 8, {4}, {4, 4}).empty());      // another rank
  CHECK(Spreads(*module, 8, {2, 2}, {16, 4}).empty());  // more tiles than devices
  const Texts two_by_two = Spreads(*module, 8, {4, 4}, {8, 8});
  CHECK(two_by_two.size() == 6);  // ordered pairs of the three binary digits
  // What a parameter has comes first.
  CHECK(two_by_two.front() == ToString(module->entry()->parameter(0)->sharding()->canonical));
  CHECK(Spreads(*module, 4, {2}, {5}).size() == 2);  // 3 rows of 2: 4 tiles, the last one empty
}

TEST_CASE("the reference's own spread comes first, be it unreduced", "[cpu][verify]") {
  const auto module =
      Parse("HloModule m, num_partitions=8\nENTRY e { ROOT x = f32[8] parameter(0) }");
  const auto first = [&](const char* text, std::vector<int64_t> local, std::vector<int64_t> whole) {
    const Sharding* own = *ParseSharding(module->context(), text);
    const auto spreads = SpreadsThatFit(*module, 8, local, whole, own);
    return spreads.empty() ? "none" : ToString(spreads.front());
  };
  const char* unreduced = "{devices=[4,1,2]<=[8] last_tile_dims={unreduced}}";
  CHECK(first(unreduced, {4, 6}, {16, 6}) == unreduced);
  CHECK(first(unreduced, {16, 6}, {16, 6}) == "{replicated}");
  const char* partial = "{devices=[1,1,8]<=[8] last_tile_dims={unreduced}}";
  CHECK(first(partial, {16, 6}, {16, 6}) ==
        ToString((*ParseSharding(module->context(), partial))->canonical));
  const char* minor = "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}";
  CHECK(first(minor, {8, 6}, {16, 6}) == minor);
  CHECK(first("{manual}", {16, 6}, {16, 6}) == "{replicated}");
}

TEST_CASE("XLA's compiled text is recognised", "[cpu][verify]") {
  const std::string body = " { ROOT x = f32[4] parameter(0) }";
  CHECK(IsPartitioned(*Parse("HloModule m, num_partitions=8\nENTRY main.0_spmd" + body)));
  CHECK(IsPartitioned(*Parse("HloModule m, is_scheduled=true, num_partitions=8\nENTRY e" + body)));
  CHECK_FALSE(IsPartitioned(*Parse("HloModule m, is_scheduled=true\nENTRY e" + body)));
  CHECK_FALSE(IsPartitioned(*Parse("HloModule m, num_partitions=8\nENTRY e" + body)));
  CHECK(IsPartitioned(
      *Parse("HloModule m, num_partitions=8\nENTRY e { ROOT p = u32[] partition-id() }")));
}

}  // namespace
}  // namespace gshard::cpu
