// What attention kernels mask away and what nobody computes for them, however the mask is written.

#include "core/analysis/attention/module_attention.h"

#include <catch2/catch.hpp>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// Attention over 256 positions whose scores are `masked`, made of `raw` by `mask`.
std::string Program(const std::string& mask) {
  return R"(HloModule m, num_partitions=4
add { l = f32[] parameter(0) r = f32[] parameter(1) ROOT c = f32[] add(l, r) }
ENTRY e {
  q = f32[2,4,256,16] parameter(0)
  segments = s32[2,256] parameter(1)
  given = f32[2,4,256,256] parameter(2)
  raw = f32[2,4,256,256] dot(q, q), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  row = s32[256,256] iota(), iota_dimension=0
  column = s32[256,256] iota(), iota_dimension=1
  below = pred[256,256] compare(row, column), direction=GE
  low = f32[] constant(-1e9)
  zero = f32[] constant(0)
  lows = f32[2,4,256,256] broadcast(low), dimensions={}
)" + mask +
         R"(
  top = f32[2,4,256] reduce(masked, low), dimensions={3}, to_apply=add
  tops = f32[2,4,256,256] broadcast(top), dimensions={0,1,2}
  shifted = f32[2,4,256,256] subtract(masked, tops)
  p = f32[2,4,256,256] exponential(shifted)
  sum = f32[2,4,256] reduce(p, zero), dimensions={3}, to_apply=add
  sums = f32[2,4,256,256] broadcast(sum), dimensions={0,1,2}
  y = f32[2,4,256,256] divide(p, sums)
  ROOT o = f32[2,4,256,16] dot(y, q), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
})";
}

struct Found {
  double masked_share = -1;
  std::string spared;  // of `mask`'s values, by name
};

Found Find(const std::string& mask, KnownMaskedShares* known = nullptr,
           MaskedOn on = MaskedOn::kBusiest) {
  auto module = Parsed(Program(mask));
  const Users users(*module);
  const ModuleAttention attention(*module, users, on, known);
  const auto& kernels = attention.KernelsOf(*module->entry());
  REQUIRE(kernels.size() == 1);
  Found found{kernels[0].masked_share, ""};
  for (const Instruction* x : module->entry()->instructions()) {
    if (x->name().starts_with("mask.") && attention.IsSpared(x)) {
      found.spared += std::string(x->name()) + " ";
    }
  }
  return found;
}

TEST_CASE("A causal mask is half, however it is written", "[attention]") {
  const Found selected = Find(R"(
  mask.a = pred[2,4,256,256] broadcast(below), dimensions={2,3}
  masked = f32[2,4,256,256] select(mask.a, raw, lows))");
  CHECK(selected.masked_share == Approx(0.5));
  CHECK(selected.spared == "mask.a ");

  const Found added = Find(R"(
  mask.a = f32[256,256] convert(below)
  mask.one = f32[] constant(1)
  mask.b = f32[256,256] broadcast(mask.one), dimensions={}
  mask.c = f32[256,256] subtract(mask.b, mask.a)
  mask.d = f32[256,256] broadcast(low), dimensions={}
  mask.e = f32[256,256] multiply(mask.c, mask.d)
  mask.f = f32[2,4,256,256] broadcast(mask.e), dimensions={2,3}
  masked = f32[2,4,256,256] add(raw, mask.f))");
  CHECK(added.masked_share == Approx(0.5));
  CHECK(added.spared == "mask.a mask.one mask.b mask.c mask.d mask.e mask.f ");
}

TEST_CASE("A window keeps its share; a data-dependent mask masks nothing that is known",
          "[attention]") {
  const Found window = Find(R"(
  mask.a = s32[256,256] subtract(row, column)
  mask.w = s32[] constant(64)
  mask.b = s32[256,256] broadcast(mask.w), dimensions={}
  mask.c = pred[256,256] compare(mask.a, mask.b), direction=LT
  mask.d = pred[256,256] and(below, mask.c)
  mask.e = pred[2,4,256,256] broadcast(mask.d), dimensions={2,3}
  masked = f32[2,4,256,256] select(mask.e, raw, lows))");
  CHECK(window.masked_share == Approx(1 - (0.25 - 0.25 * 0.25 / 2)).margin(0.03));

  const Found segments = Find(R"(
  mask.q = s32[2,4,256,256] broadcast(segments), dimensions={0,2}
  mask.k = s32[2,4,256,256] broadcast(segments), dimensions={0,3}
  mask.same = pred[2,4,256,256] compare(mask.q, mask.k), direction=EQ
  mask.c = pred[2,4,256,256] broadcast(below), dimensions={2,3}
  mask.both = pred[2,4,256,256] and(mask.same, mask.c)
  masked = f32[2,4,256,256] select(mask.both, raw, lows))");
  CHECK(segments.masked_share == Approx(0.5));
}

TEST_CASE("Shares of other programs stand for those of equal masks only", "[attention]") {
  KnownMaskedShares known;
  const auto window = [](int size, const char* direction) {
    return R"(
  mask.a = s32[256,256] subtract(row, column)
  mask.w = s32[] constant()" +
           std::to_string(size) + R"()
  mask.b = s32[256,256] broadcast(mask.w), dimensions={}
  mask.c = pred[256,256] compare(mask.a, mask.b), direction=)" +
           direction + R"(
  mask.d = pred[2,4,256,256] broadcast(mask.c), dimensions={2,3}
  masked = f32[2,4,256,256] select(mask.d, raw, lows))";
  };
  for (int round = 0; round < 2; ++round) {  // the second time all are known
    for (const int size : {64, 128}) {
      for (const char* direction : {"LT", "GE"}) {
        const std::string mask = window(size, direction);
        CHECK(Find(mask, &known).masked_share == Find(mask).masked_share);
      }
    }
  }
  CHECK(Find(window(64, "LT")).masked_share != Find(window(128, "LT")).masked_share);
}

// Four devices with 256 of 1,024 rows each, and every fourth of 1,024 columns: the last has an
// eighth of its scores masked, the first seven of eight.
TEST_CASE("Of rows that are cut over devices, the mask of who has most to do counts",
          "[attention]") {
  const std::string rest = R"(
  mask.rows = s32[256,256] broadcast(mine), dimensions={0}
  mask.four = s32[] constant(4)
  mask.fours = s32[256,256] broadcast(mask.four), dimensions={}
  mask.columns = s32[256,256] multiply(column, mask.fours)
  mask.c = pred[256,256] compare(mask.rows, mask.columns), direction=GE
  mask.d = pred[2,4,256,256] broadcast(mask.c), dimensions={2,3}
  masked = f32[2,4,256,256] select(mask.d, raw, lows))";
  const std::string mine = R"(
  device = u32[] partition-id()
  tiles = s32[4] constant({0,256,512,768})
  tile = s32[1] dynamic-slice(tiles, device), dynamic_slice_sizes={1}
  first = s32[] reshape(tile)
  firsts = s32[256] broadcast(first), dimensions={}
  local = s32[256] iota(), iota_dimension=0
  mine = s32[256] add(firsts, local))";
  KnownMaskedShares known;
  CHECK(Find(mine + rest, &known).masked_share == Approx(0.125).margin(0.01));
  // Where each device has a piece from the front and one from the back, all have half.
  CHECK(Find(mine + rest, &known, MaskedOn::kAverage).masked_share == Approx(0.5).margin(0.01));
  const Found sliced = Find(R"(
  device = u32[] partition-id()
  size = u32[] constant(256)
  first = u32[] multiply(device, size)
  all = s32[1024] iota(), iota_dimension=0
  mine = s32[256] dynamic-slice(all, first), dynamic_slice_sizes={256})" +
                            rest);
  CHECK(sliced.masked_share == Approx(0.125).margin(0.01));
}

TEST_CASE("A bias that is given is read, and masks nothing that is known", "[attention]") {
  const Found given = Find("  masked = f32[2,4,256,256] add(raw, given)");
  CHECK(given.masked_share == 0);
  CHECK(given.spared.empty());
}

}  // namespace
}  // namespace gshard
