// See pipeline_report.h.

#include "core/cost/pipeline_report.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <set>
#include <unordered_set>

#include "core/analysis/device_groups.h"
#include "core/cost/shift_pipeline.h"
#include "core/cost/work_totals.h"
#include "ir/attribute_names.h"
#include "ir/compiled_text.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

// "stages=8 repeats=1 microbatches=32 schedule=1f1b bubble=0.193989"
void ReadHeader(const Module& module, PipelineReport& report) {
  const std::string text =
      FrontendAttribute(module.header().frontend_attributes, kPipelineAttribute);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view field = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(field.size() + 1, rest.size()));
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = field.substr(0, equals), value = field.substr(equals + 1);
    auto read = [&](auto& number) {
      std::from_chars(value.data(), value.data() + value.size(), number);
    };
    if (key == "stages") read(report.header_stages);
    if (key == "repeats") read(report.repeats);
    if (key == "microbatches") read(report.microbatches);
    if (key == "schedule") report.schedule = value;
    if (key == "bubble") read(report.planned_bubble.emplace());
  }
}

class PipelineDescriber {
 public:
  PipelineDescriber(const BranchedLoop& branched, PipelineReport& report)
      : branched_(branched), report_(report) {}

  void Run() {
    report_.loop = branched_.loop;
    report_.passes.resize(branched_.branches.size());
    for (const BranchedTick& tick : branched_.ticks) {
      for (size_t choice = 0; choice < tick.branches.size(); ++choice) {
        const size_t i = tick.branches[choice];
        const ComputationCost& branch = *branched_.branches[i];
        report_.passes[i] = {branch.computation, choice, branch.schedule.seconds,
                             branched_.is_idle[i]};
      }
    }
    for (const std::vector<int64_t>& devices : branched_.values.groups) {
      report_.stages.emplace_back();
      report_.stages.back().devices = devices;
    }
    AddTicks();
    AddTransfers();
    Summarise();
  }

 private:
  void AddTicks() {
    const size_t groups = branched_.values.groups.size();
    auto is_idle = [&](int64_t t) {
      for (size_t k = 0; k < groups; ++k) {
        if (!branched_.is_idle[branched_.BranchAt(t, k)]) return false;
      }
      return true;
    };
    int64_t first = 0, end = branched_.tick_count();  // the bubble is between first and last work
    while (first < end && is_idle(first)) ++first;
    while (end > first && is_idle(end - 1)) --end;
    if (first == end) return;
    const TickTimes& begin = branched_.times[static_cast<size_t>(first)];
    const double zero = *std::min_element(begin.start.begin(), begin.start.end());
    for (int64_t t = first; t < end; ++t) {
      const TickTimes& times = branched_.times[static_cast<size_t>(t)];
      PipelineTick tick;
      tick.conditional = branched_.TickAt(t).conditional;
      for (size_t k = 0; k < groups; ++k) {
        tick.pass.push_back(branched_.BranchAt(t, k));
        if (branched_.TickAt(t).number) tick.microbatch.push_back(branched_.NumberAt(t, k));
        tick.stage_s.push_back(times.start[k] - zero);
        AddPass(report_.stages[k], tick.pass[k]);
      }
      tick.start_s = *std::min_element(tick.stage_s.begin(), tick.stage_s.end());
      tick.end_s = *std::max_element(times.end.begin(), times.end.end()) - zero;
      report_.span_s = std::max(report_.span_s, tick.end_s);
      report_.ticks.push_back(std::move(tick));
    }
    for (PipelineStage& stage : report_.stages) stage.idle_s = report_.span_s - stage.busy_s;
  }

  void AddPass(PipelineStage& stage, size_t pass) {
    if (report_.passes[pass].is_idle) return;
    const WorkTotals& totals = totals_.Of(*branched_.branches[pass]);
    const double time = report_.passes[pass].time_s;
    stage.busy_s += time;
    stage.recompute_s += totals.recompute_s;
    stage.exposed_s += std::max(0.0, time - totals.busy_s);
    stage.flops += totals.flops;
    stage.sent_bytes += totals.sent_bytes;
  }

  // Collectives of the body itself.
  void AddTransfers() {
    double seconds = 0;
    for (const ComputationCost* body : branched_.bodies) {
      seconds += body->schedule.seconds;
      for (const StepNode& step : body->steps) {
        if (step.kind != StepNode::Kind::kCollective) continue;
        AddSent(*CollectiveOf(step.instruction), body->trips * step.collective.bytes_per_device);
      }
    }
    report_.transfer_s = std::max(0.0, seconds - report_.span_s);
  }

  void AddSent(const Instruction& collective, double bytes) {
    std::unordered_set<int64_t> sources;
    const bool is_permute = IsCollectivePermute(collective);
    if (is_permute) {
      for (const DevicePair& pair :
           collective.attributes<CollectiveAttributes>().source_target_pairs) {
        sources.insert(pair.source);
      }
    }
    for (PipelineStage& stage : report_.stages) {
      if (!is_permute || sources.contains(stage.devices[0])) stage.sent_bytes += bytes;
    }
  }

  void Summarise() {
    double devices = 0, busy = 0, idle = 0, recompute = 0, most = 0;
    for (const PipelineStage& stage : report_.stages) {
      const auto count = static_cast<double>(stage.devices.size());
      devices += count;
      busy += count * stage.busy_s;
      idle += count * stage.idle_s;
      recompute += count * stage.recompute_s;
      most = std::max(most, stage.busy_s);
    }
    if (report_.span_s > 0) report_.bubble_share = idle / (devices * report_.span_s);
    if (busy > 0) {
      report_.recompute_share = recompute / busy;
      report_.imbalance = most * devices / busy;
    }
  }

  const BranchedLoop& branched_;
  PipelineReport& report_;
  WorkTotalsTable totals_;
};

double SecondsOf(const BranchedLoop& branched) {
  double seconds = 0;
  for (const ComputationCost* body : branched.bodies) seconds += body->schedule.seconds;
  return seconds;
}

// By stage the passes that it does not run.
std::vector<std::vector<std::string>> BranchesNeverRun(const PipelineReport& report) {
  std::vector<std::vector<std::string>> names(report.stages.size());
  for (size_t k = 0; k < report.stages.size(); ++k) {
    std::map<const Instruction*, std::vector<bool>> runs;  // by conditional and branch
    for (const PipelineTick& tick : report.ticks) {
      if (report.is_shift) break;  // every stage runs the whole program
      std::vector<bool>& of = runs[tick.conditional];
      of.resize(tick.conditional->called().size());
      of[report.passes[tick.pass[k]].choice] = true;
    }
    std::set<std::string> run, others;
    for (const auto& [conditional, of] : runs) {
      for (size_t i = 0; i < of.size(); ++i) {
        (of[i] ? run : others).emplace(conditional->called()[i]->name());
      }
    }
    std::ranges::set_difference(others, run, std::back_inserter(names[k]));
  }
  return names;
}

double MeanOverDevices(const std::vector<PipelineStage>& stages, double PipelineStage::*figure) {
  double sum = 0, devices = 0;
  for (const PipelineStage& stage : stages) {
    const auto count = static_cast<double>(stage.devices.size());
    devices += count;
    sum += count * stage.*figure;
  }
  return devices > 0 ? sum / devices : 0;
}

}  // namespace

double PipelineReport::FlopsPerDevice() const {
  return MeanOverDevices(stages, &PipelineStage::flops);
}

double PipelineReport::PaddingFlopsPerDevice() const {
  return MeanOverDevices(stages, &PipelineStage::padding_flops);
}

std::optional<PipelineReport> DescribePipeline(const Module& module, const Mesh* mesh,
                                               StepModel& model) {
  PipelineReport report;
  ReadHeader(module, report);
  if (report.schedule == "shift" && DescribeShift(module, mesh, model, report)) return report;
  const BranchedLoop* longest = nullptr;
  for (const auto& branched : model.branched_loops()) {
    if (branched->values.groups.size() < 2) continue;
    if (longest == nullptr || SecondsOf(*branched) > SecondsOf(*longest)) longest = branched.get();
  }
  if (longest == nullptr) return std::nullopt;
  PipelineDescriber(*longest, report).Run();
  return report;
}

void EstimateMemory(const Module& module, MemoryOptions options, ModuleKernels& kernels,
                    PipelineReport& report, MemoryReport& memory) {
  const std::vector<std::vector<std::string>> names = BranchesNeverRun(report);
  std::map<std::vector<std::string>, size_t> known;  // stages alike have the same peak
  for (const std::vector<std::string>& list : names) {
    if (known.try_emplace(list, options.never_run.size()).second) {
      options.never_run.push_back(list);
    }
  }
  memory = PeakMemory(module, options, &kernels);
  for (size_t k = 0; k < report.stages.size(); ++k) {
    report.stages[k].peak_bytes = memory.group_peak_bytes[known.at(names[k])];
  }
}

}  // namespace gshard
