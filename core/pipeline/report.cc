#include "core/pipeline/report.h"

#include <algorithm>

#include "core/json.h"
#include "core/pipeline/plan/balance.h"
#include "core/pipeline/plan/shift_schedule.h"
#include "core/pipeline/work.h"
#include "core/report/quantity_text.h"
#include "fmt/format.h"

namespace gshard::pipeline {
namespace {

Layer SumOf(const PipelinePlan& plan, size_t v) {
  Layer sum;
  for (int64_t i = plan.first_layers[v]; i < EndOfStage(plan, v); ++i) {
    const Layer& layer = plan.layers[static_cast<size_t>(i)];
    sum.forward_flops += layer.forward_flops;
    sum.backward_flops += layer.backward_flops;
    sum.forward_s += layer.forward_s;
    sum.backward_s += layer.backward_s;
    sum.weight_bytes += layer.weight_bytes;
    sum.state_bytes += layer.state_bytes;
    sum.saved_bytes += layer.saved_bytes;
    sum.output_bytes = layer.output_bytes;
  }
  return sum;
}

std::string StageName(const PipelinePlan& plan, size_t v) {
  if (plan.schedule.kind != ScheduleKind::kShift) return fmt::format("{}", v);
  if (v == 0) return "before";
  return v + 1 == plan.first_layers.size() ? "after" : fmt::format("{}", v - 1);
}

int64_t DeviceOf(const PipelinePlan& plan, size_t v) {
  const int64_t stage = static_cast<int64_t>(v);
  if (plan.schedule.kind != ScheduleKind::kShift) return stage % plan.schedule.stages;
  if (v == 0 || v + 1 == plan.first_layers.size()) return -1;
  return (stage - 1) % plan.schedule.stages;
}

// What the cost model says of the stage's device; null: not asked for, or outside the stages.
const EmittedStage* EmittedOf(const PipelinePlan& plan, size_t v) {
  const int64_t device = DeviceOf(plan, v);
  return plan.emitted && device >= 0 ? &plan.emitted->stages[static_cast<size_t>(device)] : nullptr;
}

// The peak of the stage's device; of layers outside a shifting buffer what they keep of one
// micro-batch.
int64_t BytesOf(const PipelinePlan& plan, size_t v) {
  if (const EmittedStage* stage = EmittedOf(plan, v)) return stage->peak_bytes;
  const Schedule& schedule = plan.schedule;
  int64_t in_flight = schedule.microbatches, delayed = 0;
  if (schedule.kind != ScheduleKind::kShift) {
    in_flight = MicrobatchesInFlight(schedule)[v];
    delayed = MicrobatchesDelayed(schedule)[v] * plan.delayed_bytes[v];
  } else if (DeviceOf(plan, v) < 0) {
    in_flight = 1;
  }
  return delayed + StageBytes(plan.layers, static_cast<size_t>(plan.first_layers[v]),
                              static_cast<size_t>(EndOfStage(plan, v)), in_flight, plan.options);
}

// Of a micro-batch: of all chunks of the stage's device, as they are printed, or of the stage, as
// planned.
double SecondsOf(const PipelinePlan& plan, size_t v) {
  if (const EmittedStage* stage = EmittedOf(plan, v)) {
    return stage->busy_s / static_cast<double>(plan.schedule.microbatches);
  }
  return plan.times.forward[v] + plan.times.recompute[v] + plan.times.backward[v] +
         plan.times.weights[v];
}

// Of the printed program, as gshard-cost has them; as planned where it is not priced.
struct PipelineShares {
  double bubble = 0, recompute = 0, imbalance = 1;
};
PipelineShares SharesOf(const PipelinePlan& plan) {
  if (plan.emitted) {
    return {plan.emitted->bubble_share, plan.emitted->recompute_share, plan.emitted->imbalance};
  }
  const WorkSummary work = SummarizeWork(plan);
  return {plan.simulation.bubble_fraction, work.recompute_fraction, work.imbalance};
}

// Forward and backward.
int64_t TicksOf(const Schedule& schedule) {
  if (schedule.kind != ScheduleKind::kShift) return static_cast<int64_t>(schedule.ticks.size());
  const ShiftClock clock{schedule.stages, schedule.repeats, schedule.microbatches};
  return clock.ticks() * (schedule.has_backward ? 2 : 1);
}

}  // namespace

std::string Gantt(const Simulation& simulation, size_t columns) {
  std::string text;
  for (size_t d = 0; d < simulation.devices.size(); ++d) {
    std::string line(columns, '.');
    for (const SimulatedPass& pass : simulation.devices[d]) {
      auto column = [&](double time) {
        return static_cast<size_t>(time / simulation.span * static_cast<double>(columns) + 0.5);
      };
      size_t end = std::min(column(pass.end), columns);
      int64_t i = pass.what.microbatch;
      char mark = pass.what.pass == Pass::kForward     ? static_cast<char>('0' + i % 10)
                  : pass.what.pass == Pass::kBackward  ? static_cast<char>('a' + i % 26)
                  : pass.what.pass == Pass::kRecompute ? '-'
                                                       : '+';
      for (size_t c = column(pass.start); c < end; ++c) line[c] = mark;
    }
    text += fmt::format("{:>5} |{}|\n", d, line);
  }
  return text;
}

namespace {

// What a device holds of the weights, and what of unlike stages the other placement would cost.
std::string WeightsText(const PipelinePlan& plan) {
  const WeightBytes& bytes = plan.weights;
  auto human = [](int64_t count) { return HumanBytes(static_cast<double>(count)); };
  std::string text = fmt::format("\nweights on a device: {} of alike stages, {} that all use",
                                 human(bytes.alike), human(bytes.shared));
  if (bytes.pieces > 0) {
    text += fmt::format(
        "; of unlike stages {} as flat pieces ({:.1f} % padding), {} replicated: {}",
        human(bytes.pieces),
        100 * (1 - static_cast<double>(bytes.unpadded) / static_cast<double>(bytes.pieces)),
        human(bytes.replicated), NameOf(plan.options.weights));
  }
  return text;
}

}  // namespace

std::string PlanText(const PipelinePlan& plan) {
  const Schedule& schedule = plan.schedule;
  std::string text = fmt::format(
      "{} stages, {} micro-batches of {} examples, schedule {}{}, {} layers\n\n", schedule.stages,
      schedule.microbatches, plan.batch / schedule.microbatches, NameOf(schedule.kind),
      schedule.repeats > 1 ? fmt::format(" with {} repeats", schedule.repeats) : "",
      plan.layers.size());
  text +=
      " stage  layers     forward FLOP  backward FLOP    weights   boundary      saved     memory  "
      "  time ms\n";
  for (size_t v = 0; v < plan.first_layers.size(); ++v) {
    Layer sum = SumOf(plan, v);
    const bool empty = plan.first_layers[v] == EndOfStage(plan, v);
    text += fmt::format(
        "{:>6}  {:<9}  {:>12.4g}  {:>13.4g} {:>10} {:>10} {:>10} {:>10} {:>10.4g}\n",
        StageName(plan, v),
        empty ? "none" : fmt::format("{}..{}", plan.first_layers[v], EndOfStage(plan, v) - 1),
        sum.forward_flops, sum.backward_flops, HumanBytes(static_cast<double>(sum.weight_bytes)),
        HumanBytes(static_cast<double>(sum.output_bytes)),
        HumanBytes(static_cast<double>(sum.saved_bytes)),
        HumanBytes(static_cast<double>(BytesOf(plan, v))), 1e3 * SecondsOf(plan, v));
  }
  const PipelineShares shares = SharesOf(plan);
  text += WeightsText(plan);
  text += fmt::format("\nbubble {:.2f} % of {} ticks", 100 * shares.bubble, TicksOf(schedule));
  if (plan.emitted && schedule.kind != ScheduleKind::kShift) {
    text += fmt::format(" (planned without waits for neighbours {:.2f} %)",
                        100 * plan.simulation.bubble_fraction);
  }
  text += fmt::format(", recompute {:.1f} % of compute time, busiest stage {:.3f} of the mean\n",
                      100 * shares.recompute, shares.imbalance);
  if (schedule.kind == ScheduleKind::kShift) {
    const WorkSummary work = SummarizeWork(plan);
    text += fmt::format("{:.4g} useful FLOP of {:.4g} executed ({:.2f} %): the rest is padding\n",
                        work.useful_flops, work.executed_flops,
                        100 * work.useful_flops / work.executed_flops);
  }
  text += "\n";
  text += "digits: forward, letters: backward";
  if (schedule.has_recompute) text += ", -: forward again";
  if (schedule.kind == ScheduleKind::kZeroBubble) text += ", +: gradients of weights";
  text += ", .: idle\n" + Gantt(plan.simulation);
  return text;
}

namespace {

Json TriedJson(std::span<const TriedSchedule> tried) {
  Json list = Json::Array();
  for (const TriedSchedule& t : tried) {
    Json row = {{"schedule", NameOf(t.kind)}, {"repeats", t.repeats}, {"taken", t.is_taken}};
    if (t.cost) {
      row.Set("step_time_s", t.cost->step_time_s);
      row.Set("bubble_share", t.cost->bubble_share);
      row.Set("peak_bytes", t.cost->peak_bytes);
      row.Set("fits", t.fits);
    } else {
      row.Set("error", t.error);
    }
    list.Append(std::move(row));
  }
  return list;
}

}  // namespace

std::string PlanJson(const PipelinePlan& plan, std::span<const TriedSchedule> tried) {
  const Schedule& schedule = plan.schedule;
  Json layers = Json::Array(), stages = Json::Array();
  for (size_t v = 0; v < plan.first_layers.size(); ++v) {
    Layer sum = SumOf(plan, v);
    stages.Append({{"stage", static_cast<int64_t>(v)},
                   {"name", StageName(plan, v)},
                   {"device", DeviceOf(plan, v)},
                   {"first_layer", plan.first_layers[v]},
                   {"layers", EndOfStage(plan, v) - plan.first_layers[v]},
                   {"forward_flops", sum.forward_flops},
                   {"backward_flops", sum.backward_flops},
                   {"time_s", sum.forward_s + sum.backward_s},
                   {"forward_pass_s", plan.times.forward[v]},
                   {"recompute_pass_s", plan.times.recompute[v]},
                   {"backward_pass_s", plan.times.backward[v]},
                   {"weights_pass_s", plan.times.weights[v]},
                   {"forward_pass_flops", plan.flops.forward[v]},
                   {"recompute_pass_flops", plan.flops.recompute[v]},
                   {"backward_pass_flops", plan.flops.backward[v]},
                   {"weights_pass_flops", plan.flops.weights[v]},
                   {"weight_bytes", sum.weight_bytes},
                   {"memory_bytes", BytesOf(plan, v)},
                   {"device_time_s", SecondsOf(plan, v)},
                   {"boundary_bytes", sum.output_bytes},
                   {"saved_bytes", sum.saved_bytes}});
    for (int64_t i = plan.first_layers[v]; i < EndOfStage(plan, v); ++i) {
      const Layer& layer = plan.layers[static_cast<size_t>(i)];
      layers.Append({{"name", layer.name},
                     {"stage", static_cast<int64_t>(v)},
                     {"time_s", layer.forward_s + layer.backward_s},
                     {"forward_flops", layer.forward_flops},
                     {"backward_flops", layer.backward_flops},
                     {"weight_bytes", layer.weight_bytes},
                     {"parameters", layer.parameters},
                     {"saved_bytes", layer.saved_bytes}});
    }
  }
  const WorkSummary work = SummarizeWork(plan);
  const PipelineShares shares = SharesOf(plan);
  Json document = {{"schema", "gshard.pipeline/1"},
                   {"stages", schedule.stages},
                   {"repeats", schedule.repeats},
                   {"microbatches", schedule.microbatches},
                   {"schedule", NameOf(schedule.kind)},
                   {"remat", NameOf(*plan.options.remat)},
                   {"batch", plan.batch},
                   {"ticks", TicksOf(schedule)},
                   {"bubble_fraction", plan.simulation.bubble_fraction},
                   {"bubble_share", shares.bubble},
                   {"recompute_fraction", shares.recompute},
                   {"imbalance", shares.imbalance},
                   {"useful_flops", work.useful_flops},
                   {"executed_flops", work.executed_flops},
                   {"span_s", plan.simulation.span},
                   {"weights",
                    {{"placement", NameOf(plan.options.weights)},
                     {"shared_bytes", plan.weights.shared},
                     {"alike_bytes", plan.weights.alike},
                     {"piece_bytes", plan.weights.pieces},
                     {"unpadded_bytes", plan.weights.unpadded},
                     {"replicated_bytes", plan.weights.replicated}}},
                   {"stage", std::move(stages)},
                   {"layers", std::move(layers)}};
  if (plan.emitted) document.Set("step_time_s", plan.emitted->step_time_s);
  if (!tried.empty()) document.Set("tried", TriedJson(tried));
  return document.Text();
}

}  // namespace gshard::pipeline
