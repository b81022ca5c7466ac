// What a report says of programs counted by hand.

#include "core/cost/cost_report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <ctime>
#include <numeric>

#include "core/cost/useful_flops.h"
#include "core/transforms/inline_calls.h"
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

// A kernel's gradient contracts the positions of the image: what stands as its input's features is
// the batch, of which a device has few.
TEST_CASE("The gradient of a convolution's kernel takes as long as its product", "[cost]") {
  for (const char* batch : {"2", "16", "64"}) {
    const auto text = [&](const std::string& image, const std::string& root) {
      return "HloModule m\nENTRY e {\n  x = bf16[" + image + "] parameter(0)\n  g = bf16[" + image +
             "] parameter(1)\n  ROOT r = " + root + "\n}";
    };
    const CostReport gradient =
        ReportOf(text(std::string(batch) + ",128,128,128",
                      "bf16[3,3,128,128] convolution(x, g), window={size=128x128 pad=1_1x1_1}, "
                      "dim_labels=f01b_i01o->01bf"));
    // The same arrays are read for one product where the gradient does nine.
    const CostReport product = ReportOf(
        text(std::to_string(std::stoi(batch) * 16384) + ",128",
             "bf16[128,128] dot(x, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}"));
    CHECK(gradient.step_time_s > 2 * product.step_time_s);
    CHECK(gradient.step_time_s < 3 * product.step_time_s);
  }
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

// GPipe's forward pass by hand: two stages, three micro-batches, four ticks. Stage s works in ticks
// s to s + 2; its dot has 2 * 512^3 FLOPs.
constexpr const char* kTicks =
    R"(HloModule m, num_partitions=4, frontend_attributes={gshard.pipeline="stages=2 repeats=1 microbatches=3 schedule=gpipe bubble=0.25"}
condition {
  p = (s32[], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT less = pred[] compare(i, n), direction=LT
}
idle {
  ROOT p = (s32[], f32[512,512]) parameter(0)
}
stage_forward {
  p = (s32[], f32[512,512]) parameter(0)
  m = s32[] get-tuple-element(p), index=0
  x = f32[512,512] get-tuple-element(p), index=1
  y = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[512,512]) tuple(m, y)
}
tick {
  p = (s32[], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[512,512] get-tuple-element(p), index=1
  number = u32[] partition-id()
  id = s32[] convert(number)
  two = s32[] constant(2)
  stage = s32[] divide(id, two)
  three = s32[] constant(3)
  m = s32[] subtract(i, stage)
  zero = s32[] constant(0)
  begun = pred[] compare(m, zero), direction=GE
  left = pred[] compare(m, three), direction=LT
  works = pred[] and(begun, left)
  branch = s32[] convert(works)
  state = (s32[], f32[512,512]) tuple(m, x)
  pass = (s32[], f32[512,512]) conditional(branch, state, state), branch_computations={idle, stage_forward}
  y = f32[512,512] get-tuple-element(pass), index=1
  sent = f32[512,512] collective-permute(y), source_target_pairs={{0,2},{1,3}}, channel_id=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[512,512]) tuple(next, sent)
}
ENTRY e {
  x = f32[512,512] parameter(0), sharding={replicated}
  zero = s32[] constant(0)
  init = (s32[], f32[512,512]) tuple(zero, x)
  loop = (s32[], f32[512,512]) while(init), condition=condition, body=tick
  ROOT r = f32[512,512] get-tuple-element(loop), index=1
}
)";

TEST_CASE("A pipeline's ticks are as long as their slowest stage", "[cost]") {
  CostReport report = ReportOf(kTicks);
  REQUIRE(report.pipeline);
  const PipelineReport& pipeline = *report.pipeline;
  CHECK(pipeline.schedule == "gpipe");
  CHECK(pipeline.microbatches == 3);
  REQUIRE(pipeline.stages.size() == 2);
  CHECK(pipeline.stages[0].devices == std::vector<int64_t>{0, 1});
  REQUIRE(pipeline.ticks.size() == 4);
  CHECK(pipeline.ticks[0].pass == std::vector<size_t>{1, 0});
  CHECK(pipeline.ticks[2].microbatch == std::vector<int64_t>{2, 1});
  // (K - 1) / (M + K - 1)
  CHECK(pipeline.bubble_share == Approx(0.25));
  CHECK(pipeline.imbalance == Approx(1));
  const double pass_s = pipeline.passes[1].time_s;
  CHECK(pipeline.span_s == Approx(4 * pass_s));
  CHECK(pipeline.stages[1].busy_s == Approx(3 * pass_s));
  CHECK(pipeline.stages[1].idle_s == Approx(pass_s));
  // Each device works three times, whoever is waited for.
  CHECK(pipeline.stages[0].flops == Approx(3 * 2.0 * 512 * 512 * 512));
  CHECK(report.flops_per_device == Approx(3 * 2.0 * 512 * 512 * 512));
  // Only the first stage's devices send.
  CHECK(pipeline.stages[0].sent_bytes == Approx(4 * 512 * 512 * 4));
  CHECK(pipeline.stages[1].sent_bytes == 0);
  CHECK(report.breakdown.bubble_s == Approx(pass_s));
  CHECK(report.breakdown.Total() == Approx(report.step_time_s));
  CHECK(report.mean_branch_step_time_s == Approx(report.step_time_s));
  CHECK(TimeOf(report.by_opcode) == Approx(report.step_time_s));
  CHECK(pipeline.stages[0].peak_bytes == report.memory.peak_bytes);
}

// Two stages, two ticks a turn, each with a conditional of its own: in the first one stage 0 works,
// in the second one stage 1. The second one hands on bf16, so their branches differ. Stages meet
// after the second tick only.
constexpr const char* kTwoTicks = R"(HloModule m, num_partitions=2
condition {
  p = (s32[], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}
idle {
  p = (s32[], f32[512,512]) parameter(0)
  x = f32[512,512] get-tuple-element(p), index=1
  ROOT t = (f32[512,512]) tuple(x)
}
stage0_forward {
  p = (s32[], f32[512,512]) parameter(0)
  x = f32[512,512] get-tuple-element(p), index=1
  y = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[512,512]) tuple(y)
}
idle_bf16 {
  p = (s32[], f32[512,512]) parameter(0)
  zero = bf16[] constant(0)
  z = bf16[512,512] broadcast(zero), dimensions={}
  ROOT t = (bf16[512,512]) tuple(z)
}
stage1_forward {
  p = (s32[], f32[512,512]) parameter(0)
  x = f32[512,512] get-tuple-element(p), index=1
  y = bf16[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (bf16[512,512]) tuple(y)
}
turn {
  p = (s32[], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[512,512] get-tuple-element(p), index=1
  number = u32[] partition-id()
  stage = s32[] convert(number)
  one = s32[] constant(1)
  other = s32[] subtract(one, stage)
  state = (s32[], f32[512,512]) tuple(i, x)
  first = (f32[512,512]) conditional(other, state, state), branch_computations={idle, stage0_forward}
  second = (bf16[512,512]) conditional(stage, state, state), branch_computations={idle_bf16, stage1_forward}
  y = f32[512,512] get-tuple-element(first), index=0
  z = bf16[512,512] get-tuple-element(second), index=0
  wide = f32[512,512] convert(z)
  sum = f32[512,512] add(y, wide)
  sent = f32[512,512] collective-permute(sum), source_target_pairs={{0,1},{1,0}}, channel_id=1
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[512,512]) tuple(next, sent)
}
ENTRY e {
  x = f32[512,512] parameter(0), sharding={replicated}
  zero = s32[] constant(0)
  init = (s32[], f32[512,512]) tuple(zero, x)
  loop = (s32[], f32[512,512]) while(init), condition=condition, body=turn
  ROOT r = f32[512,512] get-tuple-element(loop), index=1
}
)";

TEST_CASE("Ticks of a turn belong to one clock, whichever types they hand on", "[cost]") {
  const CostReport report = ReportOf(kTwoTicks);
  REQUIRE(report.pipeline);
  const PipelineReport& pipeline = *report.pipeline;
  REQUIRE(pipeline.stages.size() == 2);
  CHECK(pipeline.ticks.size() == 6);
  CHECK(pipeline.ticks[0].microbatch == std::vector<int64_t>{0, 0});
  CHECK(pipeline.ticks[5].microbatch == std::vector<int64_t>{2, 2});
  const double flops = 3 * 2.0 * 512 * 512 * 512;
  CHECK(pipeline.stages[0].flops == Approx(flops));
  CHECK(pipeline.stages[1].flops == Approx(flops));
  CHECK(report.flops_per_device >= flops);
  // Neither stage waits between the ticks of a turn: it is as long as the slower stage's two
  // passes.
  REQUIRE(pipeline.passes.size() == 4);
  auto pass_s = [&](size_t i) { return pipeline.passes[i].time_s; };
  const double turn_s = std::max(pass_s(1) + pass_s(2), pass_s(0) + pass_s(3));
  CHECK(pipeline.span_s == Approx(3 * turn_s));
  CHECK(turn_s < 0.9 * (pass_s(1) + pass_s(3)));
  CHECK(pipeline.stages[0].busy_s == Approx(3 * pass_s(1)));
  CHECK(pipeline.stages[1].busy_s == Approx(3 * pass_s(3)));
  CHECK(report.breakdown.Total() == Approx(report.step_time_s));
  CHECK(TimeOf(report.by_opcode) == Approx(report.step_time_s));
}

TEST_CASE("Who needs a value a tick later waits for it a tick later", "[cost]") {
  std::string text = kTwoTicks;
  const auto replace = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  const std::string permute =
      "collective-permute(sum), source_target_pairs={{0,1},{1,0}}, channel_id=1\n";
  replace("  sent = f32[512,512] " + permute, "");
  replace("  y = f32[512,512] get-tuple-element(first), index=0\n", "");
  replace("  second = ",
          "  y = f32[512,512] get-tuple-element(first), index=0\n"
          "  sent = f32[512,512] collective-permute(y), source_target_pairs={{0,1},{1,0}}, "
          "channel_id=1\n  second = ");
  replace("add(y, wide)", "add(sent, wide)");
  replace("tuple(next, sent)", "tuple(next, sum)");
  const CostReport report = ReportOf(text);
  REQUIRE(report.pipeline);
  const PipelineReport& pipeline = *report.pipeline;
  REQUIRE(pipeline.passes.size() == 4);
  auto pass_s = [&](size_t i) { return pipeline.passes[i].time_s; };
  // Both have come to the end of a turn's first tick before either begins the next turn.
  CHECK(pipeline.span_s == Approx(3 * std::max(pass_s(1) + pass_s(2), pass_s(0) + pass_s(3))));
  // Where it needs the value at once, stage 1 begins a pass later.
  replace("second = (bf16[512,512]) conditional(stage, state, state)",
          "at_once = (s32[], f32[512,512]) tuple(i, sent)\n"
          "  second = (bf16[512,512]) conditional(stage, at_once, at_once)");
  const CostReport at_once = ReportOf(text);
  REQUIRE(at_once.pipeline);
  CHECK(at_once.pipeline->span_s > 1.05 * pipeline.span_s);
}

TEST_CASE("A branch that follows from the counter counts when it is taken", "[cost]") {
  // Every device works in the last trip only: no bubble.
  std::string text = kTicks;
  const std::string from = "m = s32[] subtract(i, stage)";
  text.replace(text.find(from), from.size(), "m = s32[] subtract(i, three)");
  CostReport report = ReportOf(text);
  CHECK_FALSE(report.pipeline);
  CHECK(report.flops_per_device == Approx(2.0 * 512 * 512 * 512));
  CHECK(report.breakdown.bubble_s == 0);
}

TEST_CASE("Nested calls are multiplied, not written out", "[cost]") {
  // Level i calls level i - 1 twice and adds: 2^40 negations and 2^40 - 1 additions of 8 elements.
  constexpr int kLevels = 40;
  std::string text = "HloModule m\nc0 { x = f32[8] parameter(0)\n ROOT r = f32[8] negate(x) }\n";
  for (int i = 1; i <= kLevels; ++i) {
    const std::string callee = "to_apply=c" + std::to_string(i - 1);
    text += "c" + std::to_string(i) + " { x = f32[8] parameter(0)\n a = f32[8] call(x), " + callee +
            "\n b = f32[8] call(a), " + callee + "\n ROOT r = f32[8] add(a, b) }\n";
  }
  text += "ENTRY e { x = f32[8] parameter(0)\n ROOT r = f32[8] call(x), to_apply=c40 }\n";
  auto module = Parsed(text);
  auto size = CheckInlinedSize(*module, 1000);
  REQUIRE_FALSE(size);
  CHECK(size.error().code == "E-INLINE-001");
  CostReport report = *EstimateCost(*module, *BuiltInChip("tpu-v5e"), {});
  CHECK(report.flops_per_device == Approx(8 * (2 * std::ldexp(1.0, kLevels) - 1)));
  CHECK(TimeOf(report.by_opcode) == Approx(report.step_time_s));
  CHECK(report.memory.peak_bytes < 8 * 4 * 2 * kLevels);
}

// Seconds of this process's processor, which other programs do not lengthen.
double SecondsForChain(int length) {
  std::string text = "HloModule m\nENTRY e {\n  x0 = f32[8,128] parameter(0)\n";
  for (int i = 1; i < length; ++i) {
    text += "  x" + std::to_string(i) + " = f32[8,128] negate(x" + std::to_string(i - 1) + ")\n";
  }
  text += "  ROOT r = f32[8,128] add(x" + std::to_string(length - 1) + ", x" +
          std::to_string(length / 2) + ")\n}\n";
  auto module = Parsed(text);
  const std::clock_t start = std::clock();
  auto report = EstimateCost(*module, *BuiltInChip("tpu-v5e"), {});
  const std::clock_t end = std::clock();
  REQUIRE(report);
  CHECK(report->flops_per_device == Approx(8.0 * 128 * length));
  return static_cast<double>(end - start) / CLOCKS_PER_SEC;
}

TEST_CASE("A chain of elementwise operations takes time in proportion to its length",
          "[cost][clock]") {
  const double few = std::min(SecondsForChain(4000), SecondsForChain(4000));
  // Four times as long: 16 times the time were quadratic, 64 times cubic.
  CHECK(std::min(SecondsForChain(16000), SecondsForChain(16000)) < 10 * few + 0.02);
}

}  // namespace
}  // namespace gshard
