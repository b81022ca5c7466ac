#include "backends/cpu/plan/ranks/fused_accumulator_plan.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace gshard::cpu {
namespace {

// Tasks that go from rank to rank are cut into so many waves.
constexpr uint32_t kMaxWaves = 8;

// Where the classes of a group's tasks are folded: one rank for each, or all at every rank that has
// all of them.
class FusedAccumulatorPlanner {
 public:
  FusedAccumulatorPlanner(const ChainStep& step, RankHolders& holders)
      : step_(step), holders_(holders) {
    for (const PlannedFusedAccumulator& fused_accumulator : step.fused_accumulators)
      task_bytes_ += fused_accumulator.bytes;
  }

  FusedAccumulatorPlan Run() {
    const auto tasks = static_cast<uint32_t>(step_.tasks.size() - 1);
    const auto size = static_cast<size_t>(holders_.cut().size);
    plan_.holds.assign(tasks * size, 0);
    for (uint32_t group = 0; group < tasks; group += step_.tasks_per_group) {
      if (!Whole(group)) {
        for (uint32_t t = group; t < group + step_.tasks_per_group; ++t) Cut(t);
      }
    }
    SetSlots();
    return std::move(plan_);
  }

 private:
  bool IsActive(uint32_t task) {
    const uint32_t c = step_.order[step_.tasks[task]];
    for (int r = 0; r < holders_.cut().size; ++r) {
      if (Holds(c, r)) return true;
    }
    return false;
  }
  bool Holds(uint32_t c, int rank) { return holders_.Holds(step_.classes, c, rank); }

  // Groups that some rank has all of.
  bool Whole(uint32_t group) {
    const uint32_t end = group + step_.tasks_per_group;
    bool any = false;
    for (int r = 0; r < holders_.cut().size; ++r) {
      bool all = true;
      for (uint32_t i = step_.tasks[group]; i < step_.tasks[end] && all; ++i) {
        all = Holds(step_.order[i], r);
      }
      if (!all) continue;
      any = true;
      for (uint32_t t = group; t < end; ++t) {
        SetHolder(t, r);
        if (r == holders_.cut().rank) {
          plan_.runs.push_back({t, step_.tasks[t], step_.tasks[t + 1], r, -1, -1, 0});
        }
      }
    }
    return any;
  }

  void SetHolder(uint32_t task, int rank) {
    plan_.holds[task * static_cast<size_t>(holders_.cut().size) + static_cast<size_t>(rank)] = 1;
  }

  void Cut(uint32_t task) {
    if (!IsActive(task)) return;
    const size_t begin = plan_.runs.size();
    int last = -1;
    for (uint32_t i = step_.tasks[task]; i < step_.tasks[task + 1]; ++i) {
      const uint32_t c = step_.order[i];
      if (last >= 0 && Holds(c, last)) {
        plan_.runs.back().last = i + 1;
        continue;
      }
      int rank = 0;
      while (rank < holders_.cut().size && !Holds(c, rank)) ++rank;
      CheckInternal(rank < holders_.cut().size, "a class that no rank has");
      plan_.runs.push_back({task, i, i + 1, rank, last, -1, 0});
      last = rank;
    }
    for (size_t i = begin; i + 1 < plan_.runs.size(); ++i) {
      plan_.runs[i].to = plan_.runs[i + 1].rank;
    }
    SetHolder(task, last);
  }

  void SetSlots() {
    uint32_t cut_tasks = 0, most_runs = 1, runs = 0;
    std::vector<uint8_t> begins(static_cast<size_t>(holders_.cut().size), 0);
    for (const FusedAccumulatorRun& run : plan_.runs) {
      runs = run.from < 0 ? 1 : runs + 1;
      most_runs = std::max(most_runs, runs);
      if (run.from < 0 && run.to >= 0) {
        ++cut_tasks;
        begins[static_cast<size_t>(run.rank)] = 1;
      }
    }
    const uint32_t waves = cut_tasks == 0 ? 1 : std::min(cut_tasks, kMaxWaves);
    plan_.slots = waves + most_runs - 1;
    uint32_t number = 0, slot = 0;
    std::set<std::tuple<uint32_t, int, int>> pairs;
    for (FusedAccumulatorRun& run : plan_.runs) {
      if (run.from < 0 && run.to < 0) {
        // Whole tasks fill the time before the first wave comes, or after the last has gone.
        run.slot = begins[static_cast<size_t>(run.rank)] != 0 ? plan_.slots - 1 : 0;
        continue;
      }
      slot = run.from < 0 ? number++ * waves / cut_tasks : slot + 1;
      run.slot = slot;
      if (run.to < 0) continue;
      plan_.bytes += task_bytes_;
      pairs.insert({slot, run.rank, run.to});
    }
    plan_.messages = static_cast<int64_t>(pairs.size());
    std::ranges::stable_sort(plan_.runs, {}, &FusedAccumulatorRun::slot);
  }

  const ChainStep& step_;
  RankHolders& holders_;
  int64_t task_bytes_ = 0;
  FusedAccumulatorPlan plan_;
};

}  // namespace

FusedAccumulatorPlan MakeFusedAccumulatorPlan(const ChainStep& step, RankHolders& holders) {
  return FusedAccumulatorPlanner(step, holders).Run();
}

}  // namespace gshard::cpu
