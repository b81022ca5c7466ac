// See pipelined_plans.h.

#include "core/autoshard/pipelined_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/autoshard/told_plan.h"
#include "core/estimate/parallel_for.h"
#include "core/pipeline/best_schedule.h"
#include "core/spmd/per_device_module.h"
#include "ir/printer.h"

namespace gshard::autoshard {
namespace {

using pipeline::Remat;
using pipeline::ScheduleKind;

// Programs printed at once: fixed, so that the answer does not depend on threads.
constexpr size_t kRound = 4;
// What promises more than so many times the best known time is not printed.
constexpr double kPromise = 1.5;
// What printing and pricing a pipeline takes, by the size of the step, on a processor of 2026.
constexpr double kSecondsPerLine = 1e-4;
constexpr double kMaxPrograms = 120, kUsualPrograms = 40, kMinPrograms = 4;
constexpr double kUsualSecondsOfPipelines = 20;  // where no limit is given
constexpr int64_t kMaxMicrobatches = 1024;

struct Point {
  size_t program = 0;
  int64_t stages = 1, microbatches = 1;
  ScheduleKind schedule = ScheduleKind::k1F1B;
  std::optional<Remat> remat;  // unset: as the step has it
  double promised_s = 0;

  auto Key() const { return std::tuple(program, stages, microbatches, schedule, remat); }
};

struct Outcome {
  std::optional<AutoPlan> plan;
  std::string text;
  bool batch_is_too_small = false;  // micro-batches do not divide it
};

class PipelineSearcher {
 public:
  PipelineSearcher(const std::vector<StageProgram>& programs, int64_t devices,
                   const AutoOptions& options, const AutoPlan& best_without)
      : programs_(programs), devices_(devices), options_(options), best_(best_without) {
    if (options.schedules.empty()) {
      schedules_ = {ScheduleKind::k1F1B, ScheduleKind::kGPipe, ScheduleKind::kInterleaved,
                    ScheduleKind::kZeroBubble};
    }
    for (const std::string& name : options.schedules) {
      if (auto kind = pipeline::ParseSchedule(name)) schedules_.push_back(*kind);
    }
  }

  PipelinedPlans Run() {
    AddFirstPoints();
    int64_t left = Budget();
    while (left > 0) {
      std::vector<Point> round = NextRound(static_cast<size_t>(left));
      if (round.empty()) break;
      left -= static_cast<int64_t>(round.size());
      std::vector<Outcome> outcomes(round.size());
      ParallelFor(round.size(), ThreadsOrCores(options_.pricing.threads),
                  [&](size_t i, size_t) { outcomes[i] = Try(round[i]); });
      for (size_t i = 0; i < round.size(); ++i) Take(round[i], std::move(outcomes[i]));
    }
    return Sorted();
  }

 private:
  int64_t Budget() const {
    if (programs_.empty()) return 0;
    const auto lines =
        static_cast<double>(std::count(programs_[0].text.begin(), programs_[0].text.end(), '\n'));
    const bool is_limited = options_.seconds > 0;
    const double seconds = is_limited ? options_.seconds : kUsualSecondsOfPipelines;
    return static_cast<int64_t>(std::clamp(seconds / (lines * kSecondsPerLine),
                                           is_limited ? kMinPrograms : kUsualPrograms,
                                           kMaxPrograms));
  }

  double Promise(const Point& point) const {
    const auto k = static_cast<double>(point.stages), m = static_cast<double>(point.microbatches);
    return programs_[point.program].step_time_s / k * (m + k - 1) / m;
  }

  void Add(const Point& point) { Add(point, Promise(point)); }
  void Add(Point point, double promised_s) {
    if (point.microbatches < 1 || point.microbatches > kMaxMicrobatches) return;
    const auto& allowed = options_.microbatches;
    if (!allowed.empty() && std::ranges::find(allowed, point.microbatches) == allowed.end()) return;
    if (!known_.insert(point.Key()).second) return;
    point.promised_s = promised_s;
    open_.push_back(point);
  }

  void AddFirstPoints() {
    for (size_t i = 0; i < programs_.size(); ++i) {
      Point point;
      point.program = i;
      point.stages = devices_ / programs_[i].devices;
      point.schedule = schedules_.front();
      for (const int64_t microbatches : options_.microbatches) {
        point.microbatches = microbatches;
        Add(point);
      }
      point.microbatches = 1;
      while (point.microbatches < 4 * point.stages) point.microbatches *= 2;
      Add(point);
    }
  }

  // The most promising; none of them so bad that it is not worth its time.
  std::vector<Point> NextRound(size_t most) {
    std::stable_sort(open_.begin(), open_.end(),
                     [](const Point& a, const Point& b) { return a.promised_s < b.promised_s; });
    size_t count = std::min({kRound, most, open_.size()});
    while (count > 0 && best_.fits && open_[count - 1].promised_s > kPromise * best_.step_time_s)
      --count;
    std::vector<Point> round(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(count));
    open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(count));
    return round;
  }

  Outcome Try(const Point& point) const {
    Outcome outcome;
    const StageProgram& program = programs_[point.program];
    auto module = ParsePlan(program.text);
    if (!module) return outcome;
    PassContext context;
    PerDeviceOptions way;  // as gshard-opt pipeline goes
    way.propagate = false;
    if (!CompleteShardings(**module, context, way)) return outcome;
    pipeline::PipelineOptions with;
    with.stages = point.stages;
    with.microbatches = point.microbatches;
    with.schedule = point.schedule;
    with.remat = point.remat;
    with.chip = options_.pricing.chip;
    auto made = pipeline::PipelineBySchedule(**module, with);
    if (!made) {
      outcome.batch_is_too_small = made.error().code == "E-PIPELINE-001";
      return outcome;
    }
    outcome.text = PrintModule(*made->program);
    auto figures = FiguresOfText(outcome.text, options_);
    if (!figures) return outcome;
    AutoPlan& plan = outcome.plan.emplace(std::move(figures->plan));
    plan.mesh = program.mesh;
    plan.mesh.insert(plan.mesh.begin(), {with.axis, point.stages});
    plan.stages = point.stages;
    plan.microbatches = point.microbatches;
    // Zero-bubble may have come to be 1F1B.
    plan.schedule = std::string(pipeline::NameOf(made->plan.options.schedule));
    plan.remat = point.remat && *point.remat != Remat::kNone;
    plan.annotations = program.annotations;
    plan.zero = program.zero;
    plan.rules = program.rules;
    plan.command =
        fmt::format("{} | gshard-opt pipeline - --stages {} --microbatches {} --schedule {}",
                    program.command, point.stages, point.microbatches, plan.schedule);
    if (point.remat) plan.command += fmt::format(" --remat {}", pipeline::NameOf(*point.remat));
    plan.command += " " + options_.chip_flag;
    return outcome;
  }

  void Take(const Point& point, Outcome outcome) {
    ++result_.tried;
    if (!outcome.plan) {
      ++result_.refused;
      Point smaller = point;
      smaller.microbatches /= 2;
      if (outcome.batch_is_too_small) Add(smaller);
      return;
    }
    const AutoPlan& plan = *outcome.plan;
    const bool is_better = ComesFirst(plan, best_);
    // The first of each number of stages is looked around, too: its schedule may not be the best.
    if (is_better || looked_around_.insert(point.program).second) AddNeighbours(point, plan);
    if (is_better) best_ = plan;
    result_.plans.push_back(std::move(*outcome.plan));
    result_.texts.push_back(std::move(outcome.text));
  }

  // What a plan's step may take with another number of micro-batches: as many ticks as there are
  // then, each of whose passes is as much shorter as there are more of them; its communication is
  // of the same bytes, or the same in each tick, whichever is less.
  static double PromiseFrom(const Point& point, const AutoPlan& plan, int64_t microbatches) {
    const auto ticks = [&](int64_t m) { return static_cast<double>(m + point.stages - 1); };
    const double as_many = ticks(microbatches) / ticks(point.microbatches);
    const double longer = as_many * static_cast<double>(point.microbatches) /
                          static_cast<double>(std::max<int64_t>(microbatches, 1));
    const double sent_s = plan.exposed_communication_s;
    return (plan.step_time_s - sent_s) * longer + sent_s * std::min(as_many, longer);
  }

  void AddNeighbours(const Point& point, const AutoPlan& plan) {
    Point next = point;
    for (const int64_t microbatches : {2 * point.microbatches, point.microbatches / 2}) {
      next.microbatches = microbatches;
      Add(next, PromiseFrom(point, plan, microbatches));
    }
    next = point;
    for (const ScheduleKind schedule : schedules_) {
      next.schedule = schedule;
      Add(next, plan.step_time_s);
    }
    next = point;
    if (!options_.remat) return;
    next.remat = plan.fits ? Remat::kNone : Remat::kAll;
    Add(next, plan.step_time_s);
  }

  PipelinedPlans Sorted() {
    std::vector<size_t> order(result_.plans.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return ComesFirst(result_.plans[a], result_.plans[b]);
    });
    PipelinedPlans sorted;
    sorted.tried = result_.tried;
    sorted.refused = result_.refused;
    for (const size_t i : order) {
      sorted.plans.push_back(std::move(result_.plans[i]));
      sorted.texts.push_back(std::move(result_.texts[i]));
    }
    return sorted;
  }

  const std::vector<StageProgram>& programs_;
  const int64_t devices_;
  const AutoOptions& options_;
  AutoPlan best_;
  std::vector<ScheduleKind> schedules_;
  std::vector<Point> open_;
  std::set<decltype(Point().Key())> known_;
  std::set<size_t> looked_around_;  // programs
  PipelinedPlans result_;
};

}  // namespace

PipelinedPlans SearchPipelines(const std::vector<StageProgram>& programs, int64_t devices,
                               const AutoOptions& options, const AutoPlan& best_without) {
  if (programs.empty()) return {};
  return PipelineSearcher(programs, devices, options, best_without).Run();
}

}  // namespace gshard::autoshard
