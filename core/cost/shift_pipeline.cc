// See shift_pipeline.h.

#include "core/cost/shift_pipeline.h"

#include <algorithm>

#include "core/analysis/device_groups.h"
#include "core/analysis/meshes.h"
#include "core/analysis/shift_clock.h"
#include "core/analysis/trip_count.h"
#include "core/cost/work_totals.h"
#include "ir/compiled_text.h"

namespace gshard {
namespace {

class ShiftDescriber {
 public:
  ShiftDescriber(const Module& module, const Mesh& mesh, StepModel& model, PipelineReport& report)
      : mesh_(mesh),
        model_(model),
        report_(report),
        clock_{report.header_stages, report.repeats, report.microbatches} {
    for (const Instruction* x : module.entry()->instructions()) {
      if (x->opcode() == Opcode::kWhile) loops_.push_back(x);
    }
  }

  bool Run() {
    std::vector<const Instruction*> buffers, outside;
    for (const Instruction* loop : loops_) {
      const int64_t trips = TripCount(*loop).value_or(0);
      if (trips == clock_.ticks() && FindAxis(*loop->called(1))) {
        buffers.push_back(loop);
      } else if (trips == clock_.groups() && IsOutside(*loop->called(1))) {
        outside.push_back(loop);
      }
    }
    if (buffers.empty() || buffers.size() > 2) return false;
    report_.is_shift = true;
    report_.loop = buffers[0];
    AddStages();
    for (size_t i = 0; i < buffers.size(); ++i) AddBuffer(*buffers[i], i > 0);
    for (const Instruction* loop : outside) AddOutside(*loop);
    Summarise();
    return true;
  }

 private:
  // Layers before and after the buffer, as core/pipeline/emit/shift_region.h names their loops.
  static bool IsOutside(const Computation& body) {
    return body.name().starts_with("before") || body.name().starts_with("after");
  }

  // The mesh axis along which the buffer moves on.
  bool FindAxis(const Computation& body) {
    for (const Instruction* x : body.instructions()) {
      if (!IsCollectivePermute(*x)) continue;
      const auto& pairs = x->attributes<CollectiveAttributes>().source_target_pairs;
      const std::vector<std::string> axes = AxesOfPairs(mesh_, pairs);
      if (axes.size() != 1) continue;
      const int axis = mesh_.FindAxis(axes[0]);
      if (axis < 0 || mesh_.axes[static_cast<size_t>(axis)].size != clock_.stages) continue;
      if (axis_ >= 0 && axis != axis_) continue;
      axis_ = axis;
      return true;
    }
    return false;
  }

  bool IsAlongStages(const Instruction& x) const {
    if (!IsCollectivePermute(x)) return false;
    const auto& pairs = x.attributes<CollectiveAttributes>().source_target_pairs;
    return AxesOfPairs(mesh_, pairs) ==
           std::vector<std::string>{mesh_.axes[static_cast<size_t>(axis_)].name};
  }

  void AddStages() {
    report_.stages.resize(static_cast<size_t>(clock_.stages));
    for (int64_t device = 0; device < mesh_.device_count(); ++device) {
      const int64_t stage = mesh_.devices.CoordinateOf(device)[static_cast<size_t>(axis_)];
      report_.stages[static_cast<size_t>(stage)].devices.push_back(device);
    }
  }

  // Two passes, alike but for what they work on, and the loop's ticks.
  void AddBuffer(const Instruction& loop, bool is_backward) {
    const double trips = static_cast<double>(clock_.ticks());
    const ComputationCost& body = model_.Of(*loop.called(1), trips);
    const WorkTotals& totals = totals_.Of(body);
    double between_s = 0;  // waits for the buffer to move on
    for (size_t i = 0; i < body.steps.size(); ++i) {
      const StepNode& step = body.steps[i];
      const bool is_collective = step.kind == StepNode::Kind::kCollective;
      if (is_collective && IsAlongStages(*CollectiveOf(step.instruction))) {
        between_s += body.schedule.exposed_s[i];
      }
    }
    report_.transfer_s += between_s;
    const double tick_s = std::max(0.0, body.schedule.seconds - between_s) / trips;
    const size_t pass = report_.passes.size();
    for (bool is_padding : {false, true}) {
      report_.passes.push_back({loop.called(1), 0, tick_s, false, true, is_padding, is_backward});
    }
    for (int64_t t = 0; t < clock_.ticks(); ++t) {
      const int64_t at = is_backward ? clock_.ticks() - 1 - t : t;
      PipelineTick tick;
      tick.start_s = report_.span_s;
      tick.end_s = report_.span_s += tick_s;
      for (int64_t k = 0; k < clock_.stages; ++k) {
        const ShiftClock::Work work = clock_.At(at, k);
        PipelineStage& stage = report_.stages[static_cast<size_t>(k)];
        tick.stage_s.push_back(tick.start_s);
        tick.pass.push_back(pass + (work.is_valid ? 0 : 1));
        tick.microbatch.push_back(work.is_valid ? work.microbatch : -1);
        AddWork(totals, 1 / trips, work.is_valid, stage);
        (work.is_valid ? stage.busy_s : stage.idle_s) += tick_s;
        if (!work.is_valid) continue;
        stage.recompute_s += totals.recompute_s / trips;
        stage.exposed_s += std::max(0.0, tick_s - totals.busy_s / trips);
      }
      report_.ticks.push_back(std::move(tick));
    }
  }

  // Device k takes micro-batches k, k + K, ..: the last group may be incomplete.
  void AddOutside(const Instruction& loop) {
    const double trips = static_cast<double>(clock_.groups());
    const WorkTotals& totals = totals_.Of(model_.Of(*loop.called(1), trips));
    for (int64_t group = 0; group < clock_.groups(); ++group) {
      for (int64_t k = 0; k < clock_.stages; ++k) {
        const bool is_valid = group * clock_.stages + k < clock_.microbatches;
        AddWork(totals, 1 / trips, is_valid, report_.stages[static_cast<size_t>(k)]);
      }
    }
  }

  void AddWork(const WorkTotals& totals, double share, bool is_valid, PipelineStage& stage) {
    (is_valid ? stage.flops : stage.padding_flops) += share * totals.flops;
    stage.sent_bytes += share * totals.sent_bytes;
    if (!is_valid) {
      report_.padding_recompute_flops +=
          share * totals.recompute_flops / static_cast<double>(clock_.stages);
    }
  }

  void Summarise() {
    double busy = 0, idle = 0, recompute = 0, most = 0;
    for (const PipelineStage& stage : report_.stages) {
      busy += stage.busy_s;
      idle += stage.idle_s;
      recompute += stage.recompute_s;
      most = std::max(most, stage.busy_s);
    }
    const double stages = static_cast<double>(clock_.stages);
    if (report_.span_s > 0) report_.bubble_share = idle / (stages * report_.span_s);
    if (busy <= 0) return;
    report_.recompute_share = recompute / busy;
    report_.imbalance = most * stages / busy;
  }

  const Mesh& mesh_;
  StepModel& model_;
  PipelineReport& report_;
  ShiftClock clock_;
  int axis_ = -1;
  std::vector<const Instruction*> loops_;
  WorkTotalsTable totals_;
};

}  // namespace

bool DescribeShift(const Module& module, const Mesh* mesh, StepModel& model,
                   PipelineReport& report) {
  const bool is_known = report.header_stages > 1 && report.repeats > 0 && report.microbatches > 0;
  if (mesh == nullptr || !is_known) return false;
  return ShiftDescriber(module, *mesh, model, report).Run();
}

}  // namespace gshard
