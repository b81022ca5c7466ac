// ShardOverDevices: meshes of a number of devices, and pipelines of stages on some of them each.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/analysis/axis_text.h"
#include "core/autoshard/auto_sharding.h"
#include "core/autoshard/pipelined_plans.h"
#include "core/autoshard/prepared_program.h"
#include "core/autoshard/told_plan.h"

namespace gshard::autoshard {
namespace {

// Every mesh is looked at with so many evaluations; so many of the best are then searched in full.
// A first look orders meshes badly: Mixtral on 64 H100 takes 616 ms on data=8,model=8, third of
// six, after the look, and 340 after the search, where the first comes to 480.
constexpr int64_t kFirstLook = 150;
constexpr size_t kFinalists = 4;
// Then meshes of three axes, made of the best of two.
constexpr size_t kMostSplits = 2;
// What the plan of the devices of one stage gets.
constexpr int64_t kStageLook = 100;

std::vector<std::vector<MeshAxis>> MeshesOf(int64_t devices) {
  std::vector<std::vector<MeshAxis>> meshes = {{{"data", devices}}};
  for (int64_t outer = 2; outer < devices; ++outer) {
    if (devices % outer == 0) meshes.push_back({{"data", outer}, {"model", devices / outer}});
  }
  return meshes;
}

// Its axes each in two parts, as equal as may be: meshes of three axes from one of two.
std::vector<std::vector<MeshAxis>> SplitMeshes(const std::vector<MeshAxis>& mesh) {
  std::vector<std::vector<MeshAxis>> split;
  if (mesh.size() != 2) return split;
  for (size_t i = 0; i < mesh.size(); ++i) {
    auto inner = static_cast<int64_t>(std::sqrt(static_cast<double>(mesh[i].size)));
    while (inner > 1 && mesh[i].size % inner != 0) --inner;
    if (inner <= 1) continue;
    std::vector<MeshAxis> with = mesh;
    with[i].size /= inner;
    with.insert(with.begin() + static_cast<std::ptrdiff_t>(i) + 1, {"x", inner});
    split.push_back(std::move(with));
  }
  return split;
}

class DeviceSearch {
 public:
  DeviceSearch(const Module& module, const std::string& input, int64_t devices,
               const AutoOptions& options)
      : module_(module), input_(input), devices_(devices), options_(options) {}

  Expected<AutoResult> Run() {
    const std::vector<std::vector<MeshAxis>> meshes = MeshesOf(devices_);
    for (const std::vector<MeshAxis>& mesh : meshes) Look(mesh);
    if (results_.empty()) return Fail(*std::move(first_error_));
    SortResults();
    const size_t whole = results_.size();
    LookLonger(0, std::min(kFinalists, whole), kFinalists + kMostSplits);
    SortResults();
    for (const auto& mesh : SplitMeshes(results_.front().plans.front().mesh)) Look(mesh);
    const size_t looked = results_.size();
    LookLonger(whole, looked, kMostSplits);
    SortResults();
    FindBestInnerSize();
    AutoResult all = std::move(results_.front());
    for (size_t i = 1; i < results_.size(); ++i) {
      for (AutoPlan& plan : results_[i].plans) all.plans.push_back(std::move(plan));
    }
    const std::string best_mesh = MeshText(all.plans.front().mesh);
    const PipelinedPlans pipelines = AddPipelines(all);
    std::stable_sort(all.plans.begin() + 1, all.plans.end(), ComesFirst);
    DropAlike(all.plans);
    MarkPareto(all.plans);
    all.plans.resize(std::min(all.plans.size(), options_.top));
    all.evaluations = evaluations_ + pipelines.tried;
    all.refused = refused_ + pipelines.refused;
    SetBound(all);
    all.searched = fmt::format("{} meshes of one to three axes; of the best, {}: {}", looked,
                               best_mesh, all.searched);
    if (pipelines.tried > 0) {
      all.searched += fmt::format(
          "; {} pipelines were printed and priced, those that promised most", pipelines.tried);
    }
    return all;
  }

 private:
  Expected<AutoResult> Search(const std::vector<MeshAxis>& mesh, int64_t evaluations,
                              bool is_first_look) const {
    AutoOptions one = options_;
    one.mesh = mesh;
    one.evaluations = evaluations;
    one.seconds /= static_cast<double>(kFinalists + kMostSplits);
    one.seeks_least_memory = !is_first_look;
    return ShardAutomatically(module_.Clone(), input_, one);
  }

  void Look(const std::vector<MeshAxis>& mesh) {
    Expected<AutoResult> result = Search(mesh, AtMost(kFirstLook), true);
    if (!result) {
      if (!first_error_) first_error_ = std::move(result.error());
      return;
    }
    evaluations_ += result->evaluations;
    refused_ += result->refused;
    results_.push_back(std::move(*result));
  }

  // `evaluations`, or fewer if the user allows fewer in all.
  int64_t AtMost(int64_t evaluations) const {
    return options_.evaluations > 0 ? std::min(evaluations, options_.evaluations) : evaluations;
  }

  // Searches the meshes from `begin` to `end` of results_ in full, of `searches` that are still to
  // come. Each gets an equal part of what is left of the evaluations that the user allows, else as
  // many as a search on one mesh.
  void LookLonger(size_t begin, size_t end, size_t searches) {
    const int64_t left = options_.evaluations - evaluations_;
    const int64_t each = options_.evaluations > 0 ? left / static_cast<int64_t>(searches) : 0;
    if (options_.evaluations > 0 && each <= kFirstLook) return;
    for (size_t i = begin; i < end; ++i) {
      const std::vector<MeshAxis> mesh = results_[i].plans.front().mesh;
      Expected<AutoResult> more = Search(mesh, each, false);
      if (!more) continue;
      evaluations_ += more->evaluations;
      refused_ += more->refused;
      if (ComesFirst(more->plans.front(), results_[i].plans.front()))
        results_[i] = std::move(*more);
    }
  }

  void SortResults() {
    std::stable_sort(results_.begin(), results_.end(),
                     [](const AutoResult& a, const AutoResult& b) {
                       return ComesFirst(a.plans.front(), b.plans.front());
                     });
  }

  void FindBestInnerSize() {
    const auto best = std::ranges::find_if(
        results_, [](const AutoResult& result) { return result.plans.front().mesh.size() == 2; });
    if (best != results_.end()) best_inner_size_ = best->plans.front().mesh[1].size;
  }

  bool MayHaveStages(int64_t stages) const {
    if (stages < 2 || devices_ % stages != 0) return false;
    const auto& asked = options_.stages;
    return asked.empty() || std::ranges::find(asked, stages) != asked.end();
  }

  // The meshes of the devices of a stage: one axis, and two where so many devices have an inner
  // axis like that of the best mesh of two.
  std::vector<std::vector<MeshAxis>> MeshesOfStage(int64_t devices) const {
    std::vector<std::vector<MeshAxis>> meshes = {{{"data", devices}}};
    int64_t inner = std::min(best_inner_size_, devices / 2);
    while (inner > 1 && devices % inner != 0) --inner;
    if (inner > 1) meshes.push_back({{"data", devices / inner}, {"model", inner}});
    return meshes;
  }

  // The whole step on one device. Nothing where it cannot be.
  std::optional<StageProgram> ProgramOfOneDevice(double step_time_s) const {
    auto prepared = PrepareForOneDevice(module_.Clone(), input_, options_);
    if (!prepared) return std::nullopt;
    StageProgram program;
    program.step_time_s = step_time_s;
    program.text = std::move(prepared->text);
    program.command = std::move(prepared->command);
    return program;
  }

  // The whole step on the devices of one stage, in so much memory (0: whatever it takes) if that is
  // possible: the fastest, the fastest of tensor parallelism, which does not gather weights for
  // each micro-batch, and that of FSDP, whose stages have most room. Empty where it cannot be
  // partitioned.
  std::vector<StageProgram> ProgramsOfStage(const std::vector<MeshAxis>& mesh,
                                            int64_t limit_bytes) {
    AutoOptions one = options_;
    one.mesh = mesh;
    one.evaluations = AtMost(kStageLook);
    one.limit_bytes = limit_bytes;
    one.remat = false;
    one.seeks_least_memory = false;
    one.top = 3;
    one.tells_styles = true;
    Expected<AutoResult> found = ShardAutomatically(module_.Clone(), input_, one);
    std::vector<StageProgram> programs;
    if (!found) return programs;
    evaluations_ += found->evaluations;
    refused_ += found->refused;
    for (size_t i = 0; i < found->plans.size(); ++i) {
      AutoPlan& plan = found->plans[i];
      StageProgram& program = programs.emplace_back();
      program.mesh = mesh;
      for (const MeshAxis& axis : mesh) program.devices *= axis.size;
      program.step_time_s = plan.step_time_s;
      program.peak_bytes = plan.peak_bytes;
      program.text = std::move(found->texts[i]);
      program.command = std::move(plan.command);
      program.rules = std::move(plan.rules);
      program.annotations = plan.annotations;
      program.zero = plan.zero;
    }
    return programs;
  }

  // The step on the devices of each of K stages: the fastest plans on each mesh and, where the
  // first has more than K times a device's memory, the fastest that has not. A stage holds about
  // one K-th.
  void AddProgramsOfStages(int64_t stages, std::vector<StageProgram>& programs) {
    for (const std::vector<MeshAxis>& mesh : MeshesOfStage(devices_ / stages)) {
      std::vector<StageProgram> fastest = ProgramsOfStage(mesh, 0);
      if (fastest.empty()) continue;
      const int64_t limit = stages * options_.limit_bytes, peak = fastest.front().peak_bytes;
      std::ranges::move(fastest, std::back_inserter(programs));
      if (limit == 0 || peak <= limit) continue;
      std::vector<StageProgram> smaller = ProgramsOfStage(mesh, limit);
      if (smaller.empty() || smaller.front().peak_bytes >= peak) continue;
      programs.push_back(std::move(smaller.front()));
    }
  }

  // Of plans that are no better than one before them that one stays.
  static void DropAlike(std::vector<AutoPlan>& plans) {
    std::vector<AutoPlan> kept;
    for (AutoPlan& plan : plans) {
      const bool is_new =
          std::ranges::all_of(kept, [&](const AutoPlan& other) { return AreApart(plan, other); });
      if (is_new) kept.push_back(std::move(plan));
    }
    plans = std::move(kept);
  }

  // Pipelines take their place among the plans.
  PipelinedPlans AddPipelines(AutoResult& all) {
    std::vector<StageProgram> programs;
    for (int64_t stages = 2; options_.pipelines && stages <= devices_; ++stages) {
      if (!MayHaveStages(stages)) continue;
      if (stages < devices_) {
        AddProgramsOfStages(stages, programs);
      } else if (auto one = ProgramOfOneDevice(all.one_device_s * static_cast<double>(devices_))) {
        programs.push_back(std::move(*one));
      }
    }
    PipelinedPlans found = SearchPipelines(programs, devices_, options_, all.plans.front());
    if (found.plans.empty()) return found;
    if (ComesFirst(found.plans.front(), all.plans.front())) {
      all.texts = {std::move(found.texts.front())};
      all.plans.insert(all.plans.begin(), found.plans.front());
      found.plans.erase(found.plans.begin());
    }
    for (AutoPlan& plan : found.plans) all.plans.push_back(std::move(plan));
    return found;
  }

  const Module& module_;
  const std::string& input_;
  const int64_t devices_;
  const AutoOptions& options_;
  std::vector<AutoResult> results_;  // by mesh
  int64_t best_inner_size_ = 1;      // of the second axis of the best mesh of two
  std::optional<Diagnostic> first_error_;
  int64_t evaluations_ = 0, refused_ = 0;
};

}  // namespace

Expected<AutoResult> ShardOverDevices(const Module& module, const std::string& input,
                                      int64_t devices, const AutoOptions& options) {
  return DeviceSearch(module, input, devices, options).Run();
}

}  // namespace gshard::autoshard
