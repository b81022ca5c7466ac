#include "core/pipeline/best_schedule.h"

#include <memory>
#include <tuple>

#include "core/report/quantity_text.h"
#include "fmt/format.h"

namespace gshard::pipeline {
namespace {

Expected<EmittedCost> Try(const Module& module, const PipelineOptions& options) {
  std::unique_ptr<Module> copy = module.Clone();
  auto plan = PipelineModule(*copy, options);
  if (!plan) return Fail(std::move(plan.error()));
  return CostOfEmitted(*copy, options.stages, options.chip);
}

}  // namespace

Expected<BestPipeline> PipelineByBest(Module& module, const PipelineOptions& options,
                                      std::span<const ScheduleKind> kinds) {
  const int64_t given = options.memory_limit_bytes;
  const auto limit = given > 0 ? given : static_cast<int64_t>(options.chip.hbm_bytes);
  BestPipeline best;
  std::optional<Diagnostic> first_error;
  TriedSchedule* taken = nullptr;
  // What fits goes before what does not, then less time, or less memory.
  auto rank = [](const TriedSchedule& t) {
    const double cost = t.fits ? t.cost->step_time_s : static_cast<double>(t.cost->peak_bytes);
    return std::tuple(!t.fits, cost);
  };
  best.tried.reserve(kinds.size());
  for (ScheduleKind kind : kinds) {
    PipelineOptions with = options;
    with.schedule = kind;
    TriedSchedule& tried = best.tried.emplace_back();
    tried.kind = kind;
    tried.repeats = StagesOfDevice(with);
    Expected<EmittedCost> cost = Try(module, with);
    if (!cost) {
      tried.error = cost.error().message;
      if (!first_error) first_error = std::move(cost.error());
      continue;
    }
    tried.cost = *std::move(cost);
    tried.fits = tried.cost->peak_bytes <= limit;
    if (taken == nullptr || rank(tried) < rank(*taken)) taken = &tried;
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
  PipelineOptions with = options;
  with.schedule = taken->kind;
  auto plan = PipelineModule(module, with);
  if (!plan) return Fail(std::move(plan.error()));
  best.plan = *std::move(plan);
  best.plan.emitted = taken->cost;
  return best;
}

Expected<BestPipeline> PipelineBySchedule(Module& module, const PipelineOptions& options) {
  static constexpr ScheduleKind kSplitOrNot[] = {ScheduleKind::kZeroBubble, ScheduleKind::k1F1B};
  if (options.schedule == ScheduleKind::kZeroBubble && options.stages > 1) {
    return PipelineByBest(module, options, kSplitOrNot);
  }
  auto plan = PipelineModule(module, options);
  if (!plan) return Fail(std::move(plan.error()));
  return BestPipeline{*std::move(plan), {}};
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
