#include "core/pipeline/report.h"

#include <algorithm>

#include "core/json.h"
#include "core/report/quantity_text.h"
#include "fmt/format.h"

namespace gshard::pipeline {
namespace {

int64_t EndOfStage(const PipelinePlan& plan, size_t v) {
  return v + 1 < plan.first_layers.size() ? plan.first_layers[v + 1]
                                          : static_cast<int64_t>(plan.layers.size());
}

Layer SumOf(const PipelinePlan& plan, size_t v) {
  Layer sum;
  for (int64_t i = plan.first_layers[v]; i < EndOfStage(plan, v); ++i) {
    const Layer& layer = plan.layers[static_cast<size_t>(i)];
    sum.forward_flops += layer.forward_flops;
    sum.backward_flops += layer.backward_flops;
    sum.forward_s += layer.forward_s;
    sum.backward_s += layer.backward_s;
    sum.weight_bytes += layer.weight_bytes;
    sum.saved_bytes += layer.saved_bytes;
    sum.output_bytes = layer.output_bytes;
  }
  return sum;
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
      char mark = pass.what.pass == Pass::kForward    ? static_cast<char>('0' + i % 10)
                  : pass.what.pass == Pass::kBackward ? static_cast<char>('a' + i % 26)
                                                      : '+';
      for (size_t c = column(pass.start); c < end; ++c) line[c] = mark;
    }
    text += fmt::format("{:>5} |{}|\n", d, line);
  }
  return text;
}

std::string PlanText(const PipelinePlan& plan) {
  const Schedule& schedule = plan.schedule;
  std::string text = fmt::format(
      "{} stages, {} micro-batches of {} examples, schedule {}{}, {} layers\n\n", schedule.stages,
      schedule.microbatches, plan.batch / schedule.microbatches, NameOf(schedule.kind),
      schedule.repeats > 1 ? fmt::format(" with {} repeats", schedule.repeats) : "",
      plan.layers.size());
  text += "stage   layers     forward FLOP  backward FLOP    weights   boundary      saved\n";
  for (size_t v = 0; v < plan.first_layers.size(); ++v) {
    Layer sum = SumOf(plan, v);
    text += fmt::format("{:>5}   {:<9}  {:>12.4g}  {:>13.4g} {:>10} {:>10} {:>10}\n", v,
                        fmt::format("{}..{}", plan.first_layers[v], EndOfStage(plan, v) - 1),
                        sum.forward_flops, sum.backward_flops,
                        HumanBytes(static_cast<double>(sum.weight_bytes)),
                        HumanBytes(static_cast<double>(sum.output_bytes)),
                        HumanBytes(static_cast<double>(sum.saved_bytes)));
  }
  text += fmt::format("\nbubble {:.2f} % of {} ticks\n\n", 100 * plan.simulation.bubble_fraction,
                      schedule.ticks.size());
  text += "digits: forward, letters: backward";
  if (schedule.kind == ScheduleKind::kZeroBubble) text += ", +: gradients of weights";
  text += ", .: idle\n" + Gantt(plan.simulation);
  return text;
}

std::string PlanJson(const PipelinePlan& plan) {
  const Schedule& schedule = plan.schedule;
  Json layers = Json::Array(), stages = Json::Array();
  for (size_t v = 0; v < plan.first_layers.size(); ++v) {
    Layer sum = SumOf(plan, v);
    stages.Append({{"stage", static_cast<int64_t>(v)},
                   {"device", static_cast<int64_t>(v) % schedule.stages},
                   {"first_layer", plan.first_layers[v]},
                   {"layers", EndOfStage(plan, v) - plan.first_layers[v]},
                   {"forward_flops", sum.forward_flops},
                   {"backward_flops", sum.backward_flops},
                   {"time_s", sum.forward_s + sum.backward_s},
                   {"weight_bytes", sum.weight_bytes},
                   {"boundary_bytes", sum.output_bytes},
                   {"saved_bytes", sum.saved_bytes}});
    for (int64_t i = plan.first_layers[v]; i < EndOfStage(plan, v); ++i) {
      const Layer& layer = plan.layers[static_cast<size_t>(i)];
      layers.Append({{"name", layer.name},
                     {"stage", static_cast<int64_t>(v)},
                     {"time_s", layer.forward_s + layer.backward_s},
                     {"forward_flops", layer.forward_flops},
                     {"backward_flops", layer.backward_flops},
                     {"weight_bytes", layer.weight_bytes}});
    }
  }
  const Json document = {{"schema", "gshard.pipeline/1"},
                         {"stages", schedule.stages},
                         {"repeats", schedule.repeats},
                         {"microbatches", schedule.microbatches},
                         {"schedule", NameOf(schedule.kind)},
                         {"remat", NameOf(plan.options.remat)},
                         {"batch", plan.batch},
                         {"ticks", static_cast<int64_t>(schedule.ticks.size())},
                         {"bubble_fraction", plan.simulation.bubble_fraction},
                         {"stage", std::move(stages)},
                         {"layers", std::move(layers)}};
  return document.Text();
}

}  // namespace gshard::pipeline
