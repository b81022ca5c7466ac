// Plans that share what comes before propagation, and what partitioning finds out about layouts.
#include "core/spmd/ready_module.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/partition/scope/partition_tables.h"
#include "core/spmd/per_device_module.h"
#include "ir/parser.h"
#include "ir/printer.h"

namespace gshard {
namespace {

std::unique_ptr<Module> Parse(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test", text));
  REQUIRE(module.has_value());
  return std::move(*module);
}

// Zeros with several users, a product by one, an addition that canonicalize takes away.
constexpr const char* kStep = R"(
HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,16] parameter(0)
  w = f32[16,32] parameter(1)
  v = f32[32,16] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[8,32] broadcast(zero), dimensions={}
  h = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  same = f32[8,32] add(h, zeros)
  relu = f32[8,32] maximum(same, zeros)
  positive = pred[8,32] compare(relu, zeros), direction=GT
  kept = f32[8,32] select(positive, relu, zeros)
  ROOT y = f32[8,16] dot(kept, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

const Instruction* Named(const Module& module, std::string_view name) {
  for (const Instruction* x : module.entry()->instructions()) {
    if (x->name() == name) return x;
  }
  return nullptr;
}

// The program of one device of `whole` with these shardings.
std::string Partitioned(const Module& whole, const std::vector<const Sharding*>& by_id,
                        const ReadyModule* ready, KeptPartitionTables* tables) {
  const std::unique_ptr<Module> module = whole.Clone();
  for (Instruction* x : module->entry()->instructions()) {
    if (x->id() < by_id.size() && by_id[x->id()] != nullptr) x->set_sharding(by_id[x->id()]);
  }
  PassContext context;
  context.partition.tables = tables;
  PerDeviceOptions options;
  options.ready = ready;
  REQUIRE(MakePerDeviceModule(*module, context, options).has_value());
  return PrintModule(*module);
}

TEST_CASE("a program made ready once is partitioned as if from the start", "[spmd]") {
  const std::unique_ptr<Module> whole = Parse(kStep);
  const auto ready = ReadyModule::Make(*whole, PropagationMode::kByText);
  REQUIRE(ready.has_value());
  KeptPartitionTables tables;
  Context& context = whole->context();
  const Sharding* cuts[] = {nullptr, context.Tiled(TileAssignment::Iota(std::vector<int64_t>{4, 1})),
                            context.Tiled(TileAssignment::Iota(std::vector<int64_t>{1, 4}))};
  for (const Sharding* of_input : cuts) {
    for (const Sharding* of_weight : cuts) {
      for (const Sharding* of_product : cuts) {
        std::vector<const Sharding*> by_id(whole->instruction_limit());
        by_id[Named(*whole, "x")->id()] = of_input;
        by_id[Named(*whole, "w")->id()] = of_weight;
        by_id[Named(*whole, "h")->id()] = of_product;
        const std::string expected = Partitioned(*whole, by_id, nullptr, nullptr);
        CHECK(Partitioned(ready->module(), by_id, &*ready, &tables) == expected);
        CHECK(Partitioned(*whole, by_id, nullptr, &tables) == expected);
      }
    }
  }
}

TEST_CASE("only what the passes leave alone may be sharded afterwards", "[spmd]") {
  const std::unique_ptr<Module> whole = Parse(kStep);
  const auto ready = ReadyModule::Make(*whole, PropagationMode::kByText);
  REQUIRE(ready.has_value());
  CHECK(ready->MayBeSharded(Named(*whole, "x")->id()));
  CHECK(ready->MayBeSharded(Named(*whole, "h")->id()));
  CHECK_FALSE(ready->MayBeSharded(Named(*whole, "zeros")->id()));
  CHECK_FALSE(ready->MayBeSharded(Named(*whole, "same")->id()));  // gone
}

TEST_CASE("calls and Shardy's rules have more to be done", "[spmd]") {
  const std::unique_ptr<Module> calls = Parse(R"(
HloModule m, num_partitions=4
f { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }
ENTRY e { q = f32[8] parameter(0) ROOT c = f32[8] call(q), to_apply=f })");
  CHECK_FALSE(ReadyModule::Make(*calls, PropagationMode::kByText).has_value());
  CHECK_FALSE(ReadyModule::Make(*Parse(kStep), PropagationMode::kShardy).has_value());
}

}  // namespace
}  // namespace gshard
