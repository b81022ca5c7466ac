#include "core/pipeline/best_schedule.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/pipeline/plan/balance.h"
#include "core/report/quantity_text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace gshard::pipeline {
namespace {

Expected<BestPipeline> EmitOnce(const Module& module, const PipelineOptions& options,
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
  if (made.plan.emitted) return {};
  Expected<EmittedCost> cost = CostOfEmitted(*made.program, options.stages, options.chip);
  if (!cost) return Fail(std::move(cost.error()));
  const int64_t exchanges = std::max<int64_t>(1, ExchangesOf(made.plan.schedule));
  cost->passes.exchange = cost->transfer_s / static_cast<double>(exchanges);
  made.plan.emitted = *std::move(cost);
  return {};
}

// What fits goes before what does not, then less time, or less memory.
class Ranking {
 public:
  explicit Ranking(int64_t limit) : limit_(limit) {}
  std::pair<bool, double> Of(const EmittedCost& cost) const {
    const bool fits = cost.peak_bytes <= limit_;
    return {!fits, fits ? cost.step_time_s : static_cast<double>(cost.peak_bytes)};
  }
  // As long, but for what nobody would give memory for.
  bool IsBetter(const EmittedCost& a, const EmittedCost& b) const {
    constexpr double kAsLong = 1e-3;
    const bool both_fit = a.peak_bytes <= limit_ && b.peak_bytes <= limit_;
    if (both_fit && std::abs(a.step_time_s - b.step_time_s) <= kAsLong * b.step_time_s) {
      return std::pair(a.peak_bytes, a.step_time_s) < std::pair(b.peak_bytes, b.step_time_s);
    }
    return Of(a) < Of(b);
  }

 private:
  int64_t limit_;
};

int64_t LimitOf(const PipelineOptions& options) {
  return options.memory_limit_bytes > 0 ? options.memory_limit_bytes
                                        : static_cast<int64_t>(options.chip.hbm_bytes);
}

std::string BalanceText(const std::vector<int64_t>& first) {
  return fmt::format("{}", fmt::join(first, ","));
}

// With --balance cost the better program of two: stages whose longest is shortest by the times of
// layers, and stages of equally many blocks, if these are others.
Expected<BestPipeline> Emit(const Module& module, const PipelineOptions& options) {
  Expected<BestPipeline> made = EmitOnce(module, options);
  const bool is_by_cost = options.balance == "cost" && options.schedule != ScheduleKind::kShift;
  if (!made || !is_by_cost || options.weights != WeightPlacement::kSharded) return made;
  const std::vector<int64_t>& first = made->plan.first_layers;
  const std::vector<int64_t> alike = AlikeStretches(made->plan.layers, std::ssize(first));
  if (alike.empty() || alike == first) return made;
  PipelineOptions with = options;
  with.balance = BalanceText(alike);
  Expected<BestPipeline> other = EmitOnce(module, with);
  if (!other || !Price(*other, with) || !Price(*made, options)) return made;
  if (Ranking(LimitOf(options)).IsBetter(*other->plan.emitted, *made->plan.emitted)) {
    other->plan.options.balance = options.balance;
    return other;
  }
  return made;
}

Expected<BestPipeline> EmitAndPrice(const Module& module, const PipelineOptions& options) {
  Expected<BestPipeline> made = Emit(module, options);
  if (!made) return made;
  if (auto priced = Price(*made, options); !priced) return Fail(std::move(priced.error()));
  return made;
}

bool HasSameTicks(const Schedule& a, const Schedule& b) {
  return a.ticks == b.ticks && a.period == b.period && a.holds_cotangents == b.holds_cotangents &&
         a.overlaps_transfers == b.overlaps_transfers;
}

// Which of zero-bubble's orders waits least depends on small differences between passes: those that
// store what is kept, and those that load it, take longer than their operations alone. So orders
// are made again with the times of the program `made`, and one that puts nothing off. The best
// stays.
void TryOtherOrders(const Module& module, const PipelineOptions& options, const Ranking& ranking,
                    BestPipeline& made) {
  const PassTimes times = made.plan.emitted->passes;
  const Schedule first = made.plan.schedule;
  for (const bool puts_off : {true, false}) {
    if (!puts_off && made.plan.options.remat != Remat::kNone) break;
    PipelineOptions with = options;
    with.puts_off_weights = puts_off;
    with.balance = BalanceText(made.plan.first_layers);  // which the times are of
    Expected<BestPipeline> other = EmitOnce(module, with, &times);
    if (!other || HasSameTicks(other->plan.schedule, made.plan.schedule) ||
        HasSameTicks(other->plan.schedule, first) || !Price(*other, with)) {
      continue;
    }
    other->plan.options.balance = options.balance;
    if (ranking.IsBetter(*other->plan.emitted, *made.plan.emitted)) made = *std::move(other);
  }
}

// A note that another schedule than `asked` is taken, and why.
Diagnostic OtherScheduleNote(const BestPipeline& best, ScheduleKind asked) {
  const auto cost_of = [](const TriedSchedule& t) {
    return fmt::format("{} a step, {} a device", HumanSeconds(t.cost->step_time_s),
                       HumanBytes(static_cast<double>(t.cost->peak_bytes)));
  };
  const TriedSchedule& taken = *std::ranges::find_if(best.tried, &TriedSchedule::is_taken);
  const TriedSchedule& other = *std::ranges::find(best.tried, asked, &TriedSchedule::kind);
  Diagnostic note;
  note.severity = Severity::kNote;
  note.message = fmt::format(
      "--schedule {}: {} is taken, which is estimated to cost less ({}; {}: {})", NameOf(asked),
      NameOf(taken.kind), cost_of(taken), NameOf(asked), other.cost ? cost_of(other) : other.error);
  return note;
}

}  // namespace

Expected<BestPipeline> PipelineByBest(const Module& module, const PipelineOptions& options,
                                      std::span<const ScheduleKind> kinds) {
  const int64_t given = options.memory_limit_bytes, limit = LimitOf(options);
  BestPipeline best;
  std::vector<TriedSchedule> all;
  std::optional<Diagnostic> first_error;
  TriedSchedule* taken = nullptr;
  const Ranking ranking(limit);
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
      TryOtherOrders(module, with, ranking, *made);
    }
    tried.cost = made->plan.emitted;
    tried.fits = tried.cost->peak_bytes <= limit;
    // Gradients of weights that are put off are kept: that has to pay.
    const bool is_split = taken != nullptr && (kind == ScheduleKind::kZeroBubble ||
                                               taken->kind == ScheduleKind::kZeroBubble);
    const bool is_better =
        taken == nullptr || (is_split ? ranking.IsBetter(*tried.cost, *taken->cost)
                                      : ranking.Of(*tried.cost) < ranking.Of(*taken->cost));
    if (!is_better) continue;
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
    Expected<BestPipeline> best = PipelineByBest(module, options, kSplitOrNot);
    if (best && best->plan.options.schedule != options.schedule) {
      best->plan.warnings.push_back(OtherScheduleNote(*best, options.schedule));
    }
    return best;
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
