#include "core/pipeline/best_schedule.h"

#include <algorithm>
#include <tuple>

#include "core/report/quantity_text.h"
#include "fmt/format.h"

namespace gshard::pipeline {
namespace {

Expected<BestPipeline> Emit(const Module& module, const PipelineOptions& options,
                            const PassTimes* times = nullptr) {
  BestPipeline made;
  made.program = module.Clone();
  auto plan = PipelineModule(*made.program, options, times);
  if (!plan) return Fail(std::move(plan.error()));
  made.plan = *std::move(plan);
  return made;
}

// Sets its cost.
Expected<void> Price(BestPipeline& made, const PipelineOptions& options) {
  Expected<EmittedCost> cost = CostOfEmitted(*made.program, options.stages, options.chip);
  if (!cost) return Fail(std::move(cost.error()));
  const int64_t exchanges = std::max<int64_t>(1, ExchangesOf(made.plan.schedule));
  cost->passes.exchange = cost->transfer_s / static_cast<double>(exchanges);
  made.plan.emitted = *std::move(cost);
  return {};
}

Expected<BestPipeline> EmitAndPrice(const Module& module, const PipelineOptions& options) {
  Expected<BestPipeline> made = Emit(module, options);
  if (!made) return made;
  if (auto priced = Price(*made, options); !priced) return Fail(std::move(priced.error()));
  return made;
}

bool HasSameTicks(const Schedule& a, const Schedule& b) {
  return a.ticks == b.ticks && a.period == b.period && a.holds_cotangents == b.holds_cotangents;
}

}  // namespace

Expected<BestPipeline> PipelineByBest(const Module& module, const PipelineOptions& options,
                                      std::span<const ScheduleKind> kinds) {
  const int64_t given = options.memory_limit_bytes;
  const auto limit = given > 0 ? given : static_cast<int64_t>(options.chip.hbm_bytes);
  BestPipeline best;
  std::vector<TriedSchedule> all;
  std::optional<Diagnostic> first_error;
  TriedSchedule* taken = nullptr;
  // What fits goes before what does not, then less time, or less memory.
  auto rank = [limit](const EmittedCost& cost) {
    const bool fits = cost.peak_bytes <= limit;
    return std::tuple(!fits, fits ? cost.step_time_s : static_cast<double>(cost.peak_bytes));
  };
  all.reserve(kinds.size());
  for (ScheduleKind kind : kinds) {
    PipelineOptions with = options;
    with.schedule = kind;
    TriedSchedule& tried = all.emplace_back();
    tried.kind = kind;
    tried.repeats = StagesOfDevice(with);
    Expected<BestPipeline> made = EmitAndPrice(module, with);
    if (!made) {
      tried.error = made.error().message;
      if (!first_error) first_error = std::move(made.error());
      continue;
    }
    if (kind == ScheduleKind::kZeroBubble && options.stages > 1) {
      // Which of its orders waits least depends on small differences between passes: those that
      // store what is kept, and those that load it, take longer than their operations alone.
      Expected<BestPipeline> again = Emit(module, with, &made->plan.emitted->passes);
      const bool is_other = again && !HasSameTicks(again->plan.schedule, made->plan.schedule);
      if (is_other && Price(*again, with) &&
          rank(*again->plan.emitted) < rank(*made->plan.emitted)) {
        made = std::move(again);
      }
    }
    tried.cost = made->plan.emitted;
    tried.fits = tried.cost->peak_bytes <= limit;
    if (taken != nullptr && rank(*tried.cost) >= rank(*taken->cost)) continue;
    taken = &tried;
    best = *std::move(made);
  }
  if (taken == nullptr) return Fail(*std::move(first_error));
  if (given > 0 && !taken->fits) {
    return Fail(MakeError(
        "E-PIPELINE-007",
        fmt::format("of all schedules {} needs least memory, {} a device", NameOf(taken->kind),
                    HumanBytes(static_cast<double>(taken->cost->peak_bytes))),
        "more stages, smaller micro-batches, or --remat all"));
  }
  taken->is_taken = true;
  best.tried = std::move(all);
  return best;
}

Expected<BestPipeline> PipelineBySchedule(const Module& module, const PipelineOptions& options) {
  static constexpr ScheduleKind kSplitOrNot[] = {ScheduleKind::kZeroBubble, ScheduleKind::k1F1B};
  if (options.schedule == ScheduleKind::kZeroBubble && options.stages > 1) {
    return PipelineByBest(module, options, kSplitOrNot);
  }
  return Emit(module, options);
}

std::string TriedText(std::span<const TriedSchedule> tried) {
  std::string text = " schedule     repeats        step   bubble  peak memory\n";
  for (const TriedSchedule& t : tried) {
    text += fmt::format("{:<12} {:>8}", fmt::format(" {}", NameOf(t.kind)), t.repeats);
    if (!t.cost) {
      text += fmt::format("  {}\n", t.error);
      continue;
    }
    text +=
        fmt::format(" {:>11} {:>7.1f}% {:>12}{}{}\n", HumanSeconds(t.cost->step_time_s),
                    100 * t.cost->bubble_share, HumanBytes(static_cast<double>(t.cost->peak_bytes)),
                    t.fits ? "" : "  does not fit", t.is_taken ? "  taken" : "");
  }
  return text;
}

}  // namespace gshard::pipeline
