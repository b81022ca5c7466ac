// The cases of docs/partitioning.md, "Resharding": bytes received per device, worked out by hand.
#include "core/partition/plan/reshard_plan.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/partition/plan/known_reshard_plans.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

struct Planned {
  int64_t bytes;
  size_t steps;
  bool full_rematerialization;
  std::string kinds;
};

Planned PlanBetween(std::vector<int64_t> dims, int64_t devices, const std::string& from,
                    const std::string& to, DType dtype = DType::kF32) {
  Context context;
  MeshLayoutTable layouts(context, devices);
  ReshardPlanner planner(layouts, {});
  auto layout = [&](const std::string& text) {
    auto sharding = ParseSharding(context, text);
    REQUIRE(sharding.has_value());
    return layouts.FromSharding(*sharding, static_cast<int64_t>(dims.size()));
  };
  const ReshardPlan& plan = planner.Plan(context.Array(dtype, dims), layout(from), layout(to));
  std::string kinds;
  for (const ReshardStep& step : plan.steps) kinds += "TSGMXPAR0"[static_cast<size_t>(step.kind)];
  return {plan.bytes, plan.steps.size(), plan.full_rematerialization, kinds};
}

TEST_CASE("Table of reshards on 8 devices", "[partition]") {
  struct Row {
    const char* from;
    const char* to;
    int64_t bytes;
    const char* kinds;
  };
  const Row rows[] = {
      {"{devices=[8,1]<=[8]}", "{devices=[1,8]<=[8]}", 1792, "X"},
      {"{devices=[8,1]<=[8]}", "{devices=[2,4]<=[8]}", 1536, "X"},
      {"{devices=[8,1]<=[8]}", "{devices=[1,4,2]<=[8] last_tile_dim_replicate}", 3840, "XG"},
      {"{devices=[1,4,2]<=[8] last_tile_dim_replicate}", "{devices=[8,1]<=[8]}", 1792, "SX"},
      {"{devices=[8,1]<=[8]}", "{devices=[8,1]<=[2,4]T(1,0)}", 2048, "P"},
      {"{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}", "{devices=[1,8]<=[8]}", 1024,
       "SX"},
      {"{devices=[4,2]<=[8]}", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", 6144, "GG"},
      {"{devices=[8,1]<=[8]}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 4096,
       "PG"},
      {"{devices=[4,1,2]<=[8] last_tile_dim_replicate}",
       "{devices=[1,2,4]<=[8] last_tile_dim_replicate}", 7168, "XG"},
      {"{replicated}", "{devices=[2,4]<=[8]}", 0, "S"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.from, row.to);
    Planned plan = PlanBetween({64, 64}, 8, row.from, row.to);
    CHECK(plan.bytes == row.bytes);
    CHECK(plan.kinds == row.kinds);
    CHECK(!plan.full_rematerialization);
  }
}

TEST_CASE("Exchanges over several dims", "[partition]") {
  Planned plan = PlanBetween({16, 16, 16}, 8, "{devices=[2,4,1]<=[8]}", "{devices=[1,1,8]<=[8]}");
  CHECK(plan.bytes == 1792);
  CHECK(plan.kinds == "X");
}

TEST_CASE("Uneven sizes are re-tiled, not gathered", "[partition]") {
  // 8 rows of 15 exchanged, then 2 rows of 15 move.
  Planned plan = PlanBetween({60, 60}, 8, "{devices=[8,1]<=[8]}", "{devices=[2,4]<=[8]}");
  CHECK(plan.bytes == 8 * 60 * 4 * 3 / 4 + 2 * 15 * 4);
  CHECK(plan.kinds == "XT");
  // Sizes nest: 4 * 2 = 8.
  plan = PlanBetween({30}, 8, "{devices=[8]<=[8]}", "{devices=[4,2]<=[8] last_tile_dim_replicate}");
  CHECK(plan.bytes == 16);
  CHECK(plan.kinds == "G");
}

TEST_CASE("Partial values", "[partition]") {
  const char* partial = "{devices=[1,1,4]<=[4] last_tile_dims={unreduced}}";
  Planned plan = PlanBetween({8, 8}, 4, partial, "{replicated}");
  CHECK(plan.kinds == "A");
  CHECK(plan.bytes == 2 * 256 * 3 / 4);
  plan = PlanBetween({8, 8}, 4, partial, "{devices=[4,1]<=[4]}");
  CHECK(plan.kinds == "R");
  CHECK(plan.bytes == 256 * 3 / 4);
  // Cut first, then sum what is left.
  plan = PlanBetween({8, 8}, 8, "{devices=[1,1,2,4]<=[8] last_tile_dims={unreduced,replicated}}",
                     "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
  CHECK(plan.kinds == "SA");
  CHECK(plan.bytes == 2 * 64 / 2);
}

TEST_CASE("Partial digits whose place is taken wait in another dim", "[partition]") {
  // Local f32[16,32,32]: a quarter of it moves twice, instead of all of it once before the sum.
  Planned plan = PlanBetween({16, 32, 64}, 8, "{devices=[1,1,2,4]<=[8] last_tile_dims={unreduced}}",
                             "{devices=[2,1,4]<=[8]}");
  CHECK(plan.kinds == "RXX");
  const int64_t local = 4 * 16 * 32 * 32;
  CHECK(plan.bytes == local * 3 / 4 + local / 4 / 2 + local / 4 * 3 / 4);
}

TEST_CASE("Many devices cost what few cost", "[partition]") {
  Planned few = PlanBetween({4096, 4096}, 8, "{devices=[8,1]<=[8]}", "{devices=[2,4]<=[8]}");
  Planned many =
      PlanBetween({4096, 4096}, 2048, "{devices=[2048,1]<=[2048]}", "{devices=[32,64]<=[2048]}");
  CHECK(few.kinds == many.kinds);
}

TEST_CASE("Plans of one module are those of another", "[partition]") {
  KnownReshardPlans known;
  const ReshardPlan* first = nullptr;
  for (const int64_t rows : {64, 64, 32}) {
    Context context;
    MeshLayoutTable layouts(context, 8);
    ReshardPlanner planner(layouts, {}, {}, &known);
    auto layout = [&](const char* text) {
      return layouts.FromSharding(*ParseSharding(context, text), 2);
    };
    const ReshardPlan& plan =
        planner.Plan(context.Array(DType::kF32, std::vector<int64_t>{rows, 64}),
                     layout("{devices=[8,1]<=[8]}"), layout("{devices=[2,4]<=[8]}"));
    CHECK(plan.bytes == 1536 * rows / 64);
    if (first == nullptr) first = &plan;
    CHECK((first == &plan) == (rows == 64));
    // Over an explicit list of devices nothing is remembered.
    CHECK(KnownReshardPlans::KeyOf(context.Array(DType::kF32, std::vector<int64_t>{rows, 64}),
                                   layout("{devices=[8,1]0,1,2,3,4,5,7,6}"), layout("{replicated}"), 8, {}, {})
              .empty());
  }
}

TEST_CASE("Explicit device lists end in a permute", "[partition]") {
  Planned plan = PlanBetween({8, 8}, 4, "{devices=[4,1]<=[4]}", "{devices=[4,1]0,3,1,2}");
  CHECK(plan.kinds == "P");
  plan = PlanBetween({8, 8}, 4, "{replicated}", "{devices=[4,1]0,3,1,2}");
  CHECK(plan.kinds == "S");
  CHECK(plan.bytes == 0);
  plan = PlanBetween({16}, 8, "{devices=[8]<=[8]}",
                     "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", DType::kBF16);
  CHECK(plan.kinds == "PG");
  CHECK(plan.bytes == 8);
  // 2 x 3 and 3 x 2 share no digits.
  plan = PlanBetween({6, 6}, 6, "{devices=[2,3]<=[6]}", "{devices=[3,2]<=[6]}");
  CHECK(!plan.full_rematerialization);
}

TEST_CASE("Tiles that are empty enter for nothing only where the goal has their digits",
          "[partition]") {
  struct Row {
    std::vector<int64_t> dims;
    int64_t devices;
    const char* from;
    const char* to;
    int64_t bytes;
    const char* kinds;
  };
  const Row rows[] = {
      {{4, 2},
       16,
       "{devices=[4,4]<=[2,2,2,2]T(2,3,1,0)}",
       "{devices=[1,2,8]<=[2,2,2,2]T(3,2,1,0) last_tile_dim_replicate}",
       20,
       "MPG"},
      {{16, 1, 4},
       48,
       "{devices=[2,8,1,3]<=[3,4,2,2]T(3,1,2,0) last_tile_dim_replicate}",
       "{devices=[1,3,2,8]<=[3,4,2,2]T(0,3,2,1) last_tile_dim_replicate}",
       256,
       "XSMG"},
      {{2, 40, 14},
       16,
       "{devices=[2,4,1,2]<=[16] last_tile_dim_replicate}",
       "{devices=[8,2,1]<=[16]}",
       2240,
       "PGS"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.from, row.to);
    Planned plan = PlanBetween(row.dims, row.devices, row.from, row.to);
    CHECK(plan.bytes == row.bytes);
    CHECK(plan.kinds == row.kinds);
  }
}

TEST_CASE("Partial digits are cut before the exchange that moves them on", "[partition]") {
  // Local f32[16,128], of which a half is received; then 3/4 of that half.
  Planned plan =
      PlanBetween({16, 256}, 4, "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={unreduced}}",
                  "{devices=[4,1]<=[2,2]T(1,0)}");
  CHECK(plan.kinds == "RX");
  CHECK(plan.bytes == 4096 + 3072);
}

TEST_CASE("Two tiles that divide already are not tiled again", "[partition]") {
  Planned plan = PlanBetween({7, 8, 24}, 64,
                             "{devices=[16,1,1,4]<=[4,2,4,2]T(0,2,1,3) last_tile_dim_replicate}",
                             "{devices=[4,1,4,4]<=[4,2,4,2]T(1,3,2,0) last_tile_dim_replicate}");
  CHECK(plan.bytes == 1248);
  CHECK(plan.kinds == "XSMSG");
}

TEST_CASE("No reshard receives less than the tile without what may lie there", "[partition]") {
  Context context;
  MeshLayoutTable layouts(context, 2);
  const auto layout = [&](const std::string& text) {
    return layouts.FromSharding(*ParseSharding(context, text), 2);
  };
  const MeshLayout *rows = layout("{devices=[2,1]<=[2]}"),
                   *columns = layout("{devices=[1,2]<=[2]}");
  const Shape* shape = context.Array(DType::kF32, std::vector<int64_t>{8, 8});
  CHECK(LeastReshardBytes(shape, rows, columns) == 4 * (32 - 16));
  CHECK(LeastReshardBytes(shape, rows, rows) == 0);
}

TEST_CASE("Tiles behind the data are entered for nothing", "[partition]") {
  // Two rows on the first two of four devices; each device of the first two has its row already.
  Planned plan = PlanBetween({2}, 4, "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
                             "{devices=[4]<=[4]}");
  CHECK(plan.bytes == 0);
}

}  // namespace
}  // namespace gshard
