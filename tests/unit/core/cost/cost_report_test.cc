// What a report says of programs counted by hand.

#include "core/cost/cost_report.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "core/cost/useful_flops.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

CostReport ReportOf(const std::string& text, const CostOptions& options = {},
                    std::string_view chip = "tpu-v5e") {
  auto module = Parsed(text);
  return *EstimateCost(*module, *BuiltInChip(chip), options);
}

double TimeOf(const std::vector<WorkRow>& rows) {
  return std::accumulate(rows.begin(), rows.end(), 0.0,
                         [](double sum, const WorkRow& row) { return sum + row.time_s; });
}

constexpr const char* kLoop = R"(HloModule m, num_partitions=4
condition {
  p = (s32[], f32[256,256], f32[64,256]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(10)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[256,256], f32[64,256]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[256,256] get-tuple-element(p), index=1
  w = f32[64,256] get-tuple-element(p), index=2
  g = f32[256,256] all-gather(w), dimensions={0}, replica_groups={{0,1,2,3}}, channel_id=1, use_global_device_ids=true, metadata={op_name="jit(f)/layer_1/gather"}
  d = f32[256,256] dot(x, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/layer_1/dot"}
  y = f32[256,256] tanh(d), metadata={op_name="jit(f)/layer_2/tanh"}
  r = f32[256,256] negate(y), metadata={op_name="jit(f)/rematted_computation/neg"}
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[256,256], f32[64,256]) tuple(next, r, w)
}
ENTRY e {
  x = f32[256,256] parameter(0), sharding={replicated}
  w = f32[64,256] parameter(1), sharding={devices=[4,1]<=[4]}
  zero = s32[] constant(0)
  init = (s32[], f32[256,256], f32[64,256]) tuple(zero, x, w)
  loop = (s32[], f32[256,256], f32[64,256]) while(init), condition=condition, body=body
  ROOT r = f32[256,256] get-tuple-element(loop), index=1
}
)";

TEST_CASE("Loops count their trips; parts and rows add up to the step", "[cost]") {
  CostOptions options;
  options.group_by = "layer_(\\d+)";
  CostReport report = ReportOf(kLoop, options);
  const double elements = 256 * 256;
  CHECK(report.flops_per_device == Approx(10 * (2 * elements * 256 + elements)));
  CHECK(report.transcendentals_per_device == Approx(10 * elements));
  CHECK(report.recompute_flops_per_device == Approx(10 * elements));
  REQUIRE(report.collectives.size() == 1);
  CHECK(report.collectives[0].count == 10);
  CHECK(report.collectives[0].bytes_per_device == 10 * 3 * 64 * 256 * 4);
  CHECK(report.breakdown.Total() == Approx(report.step_time_s));
  CHECK(TimeOf(report.by_opcode) == Approx(report.step_time_s));
  CHECK(TimeOf(report.by_source) == Approx(report.step_time_s));
  CHECK(TimeOf(report.by_group) == Approx(report.step_time_s));
  auto has = [&](std::string_view key) {
    return std::any_of(report.by_group.begin(), report.by_group.end(),
                       [&](const WorkRow& row) { return row.key == key; });
  };
  CHECK(has("1"));
}

TEST_CASE("More overlap takes no longer", "[cost]") {
  double last = 1e9;
  for (Overlap overlap : {Overlap::kNone, Overlap::kXla, Overlap::kPerfect}) {
    CostOptions options;
    options.overlap = overlap;
    CostReport report = ReportOf(kLoop, options);
    CHECK(report.step_time_s <= last * (1 + 1e-12));
    last = report.step_time_s;
  }
}

TEST_CASE("The timeline's loops enclose one trip of their parts", "[cost]") {
  CostReport report = ReportOf(kLoop);
  const Timeline& timeline = report.timeline;
  REQUIRE(timeline.streams.size() == 3);
  CHECK(timeline.streams[0] == "compute");
  size_t inside = 0;
  for (const TimelineEvent& event : timeline.events) {
    CHECK(event.end_s >= event.start_s);
    if (event.parent < 0) {
      CHECK(event.end_s <= report.step_time_s * (1 + 1e-9));
      continue;
    }
    ++inside;
    const TimelineEvent& loop = timeline.events[static_cast<size_t>(event.parent)];
    CHECK(loop.work_class == WorkClass::kLoop);
    CHECK(event.start_s >= loop.start_s);
    CHECK(event.trip_count == 10);
  }
  CHECK(inside == 2);  // the gather; the product with what follows it
  CHECK_FALSE(timeline.critical_path.empty());
}

TEST_CASE("Of a conditional the dearest branch counts, or the mean", "[cost]") {
  CostReport report = ReportOf(R"(HloModule m
small { x = f32[1024,1024] parameter(0) ROOT y = f32[1024,1024] negate(x) }
large {
  x = f32[1024,1024] parameter(0)
  ROOT y = f32[1024,1024] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY e {
  x = f32[1024,1024] parameter(0)
  p = pred[] parameter(1)
  ROOT r = f32[1024,1024] conditional(p, x, x), true_computation=small, false_computation=large
})");
  CHECK(report.flops_per_device == 2.0 * 1024 * 1024 * 1024);
  CHECK(report.mean_branch_step_time_s < report.step_time_s);
}

TEST_CASE("Rows of a ragged dot are multiplied once, not for each group", "[cost]") {
  CostReport report = ReportOf(R"(HloModule m
ENTRY e {
  x = bf16[512,64] parameter(0)
  w = bf16[8,64,128] parameter(1)
  sizes = s32[8] parameter(2)
  ROOT r = bf16[512,128] ragged-dot(x, w, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
})");
  CHECK(report.flops_per_device == 2.0 * 512 * 64 * 128);
}

TEST_CASE("Work in a manual region is done by every device", "[cost]") {
  auto module = Parsed(R"(HloModule m, num_partitions=4
ENTRY e {
  x = f32[64,64] parameter(0), sharding={devices=[4,1]<=[4]}
  local = f32[16,64] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  y = f32[16,64] negate(local), sharding={manual}
  ROOT r = f32[64,64] custom-call(y), custom_call_target="SPMDShardToFullShape", sharding={devices=[4,1]<=[4]}
})");
  CHECK(TotalFlops(*module) == 64 * 64);
}

TEST_CASE("Options that are wrong are refused", "[cost]") {
  auto module = Parsed(kLoop);
  CostOptions options;
  options.group_by = "(";
  auto refused = EstimateCost(*module, *BuiltInChip("tpu-v3"), options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == "E-COST-004");
}

}  // namespace
}  // namespace gshard
