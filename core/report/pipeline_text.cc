// See pipeline_text.h.

#include "core/report/pipeline_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/report/quantity_text.h"
#include "core/report/table_text.h"

namespace gshard {
namespace {

std::string PreciseShare(double share) { return fmt::format("{:.1f}%", 100 * share); }

// "0..3", "0,2,4", "0,4,8,.. (64)".
std::string DevicesText(const std::vector<int64_t>& devices) {
  const auto count = static_cast<int64_t>(devices.size());
  if (count == 1) return fmt::format("{}", devices[0]);
  if (devices.back() - devices.front() == count - 1) {
    return fmt::format("{}..{}", devices.front(), devices.back());
  }
  if (count <= 4) return fmt::format("{}", fmt::join(devices, ","));
  return fmt::format("{},{},{},.. ({})", devices[0], devices[1], devices[2], count);
}

char MarkOf(const PipelineTick& tick, size_t stage, const PipelinePass& pass) {
  if (pass.is_idle) return '.';
  if (pass.is_padding) return '~';
  const std::string_view kind = PassKindName(pass);
  if (kind == "weights") return '+';
  if (kind == "recompute") return '-';
  const int64_t i = tick.microbatch.empty() ? 0 : std::max<int64_t>(0, tick.microbatch[stage]);
  if (kind == "backward") return static_cast<char>('a' + i % 26);
  return static_cast<char>('0' + i % 10);
}

}  // namespace

std::string_view PassKindName(const PipelinePass& pass) {
  if (pass.is_idle) return "idle";
  if (pass.is_padding) return "padding";
  if (pass.is_shift) return pass.is_backward ? "backward" : "forward";
  const std::string_view name = pass.computation->name();
  auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  if (has("weight")) return "weights";
  if (has("recompute")) return "recompute";
  if (has("backward")) return "backward";
  if (has("forward")) return "forward";
  return "pass";
}

std::string PipelineHeadline(const PipelineReport& pipeline, double step_s,
                             std::string_view indent) {
  std::string out = fmt::format("{}{} stages", indent, pipeline.stages.size());
  if (pipeline.microbatches > 0) {
    out += fmt::format(", {} micro-batch{}", pipeline.microbatches,
                       pipeline.microbatches == 1 ? "" : "es");
  }
  if (!pipeline.schedule.empty()) out += ", " + pipeline.schedule;
  if (pipeline.repeats > 1) out += fmt::format(" with {} repeats", pipeline.repeats);
  out += fmt::format(": {} ticks in {}, {} of the step\n", pipeline.ticks.size(),
                     HumanSeconds(pipeline.span_s),
                     PreciseShare(step_s > 0 ? pipeline.span_s / step_s : 0));
  out += fmt::format("{}bubble {}", indent, PreciseShare(pipeline.bubble_share));
  if (pipeline.is_shift) {
    out += " (computing on padding)";
  } else if (pipeline.planned_bubble) {
    out += fmt::format(" (planned without waits for neighbours {})",
                       PreciseShare(*pipeline.planned_bubble));
  }
  out += fmt::format(", recompute {}, imbalance {:.2f}, transfers between ticks {}\n",
                     PreciseShare(pipeline.recompute_share), pipeline.imbalance,
                     HumanSeconds(pipeline.transfer_s));
  if (pipeline.is_shift) {
    const double useful = pipeline.FlopsPerDevice(), padding = pipeline.PaddingFlopsPerDevice();
    out += fmt::format(
        "{}work of its passes a device {}: {} on micro-batches ({}), {} on padding\n", indent,
        HumanFlops(useful + padding), HumanFlops(useful),
        PreciseShare(useful + padding > 0 ? useful / (useful + padding) : 1), HumanFlops(padding));
  }
  return out;
}

std::string PipelineTable(const PipelineReport& pipeline, bool markdown) {
  TextTable table;
  table.columns = {{"stage", true},        {"devices"},
                   {"busy", true},         {"recompute", true},
                   {"waits inside", true}, {pipeline.is_shift ? "on padding" : "idle", true},
                   {"work", true},         {"sent", true},
                   {"peak memory", true}};
  if (pipeline.is_shift) table.columns.insert(table.columns.begin() + 7, {"padded work", true});
  for (size_t k = 0; k < pipeline.stages.size(); ++k) {
    const PipelineStage& stage = pipeline.stages[k];
    table.rows.push_back({fmt::format("{}", k), DevicesText(stage.devices),
                          HumanSeconds(stage.busy_s), HumanSeconds(stage.recompute_s),
                          HumanSeconds(stage.exposed_s), HumanSeconds(stage.idle_s),
                          HumanFlops(stage.flops), HumanBytes(stage.sent_bytes),
                          HumanBytes(static_cast<double>(stage.peak_bytes))});
    if (!pipeline.is_shift) continue;
    auto& row = table.rows.back();
    row.insert(row.begin() + 7, HumanFlops(stage.padding_flops));
  }
  return markdown ? TableAsMarkdown(table) : TableAsText(table);
}

std::string PipelineGantt(const PipelineReport& pipeline, int width) {
  if (pipeline.span_s <= 0 || pipeline.ticks.empty()) return "";
  std::string out = fmt::format(
      "\npipeline, {} (digits: forward, letters: backward, {})\n", HumanSeconds(pipeline.span_s),
      pipeline.is_shift ? "~: on padding" : "+: gradients of weights, .: idle");
  const double column_s = pipeline.span_s / width;
  for (size_t k = 0; k < pipeline.stages.size(); ++k) {
    std::string row(static_cast<size_t>(width), '.');
    size_t at = 0;
    // Ticks in which the stage does nothing take no time of it.
    auto next = [&](size_t i) {
      for (++i; i < pipeline.ticks.size() && pipeline.passes[pipeline.ticks[i].pass[k]].is_idle;)
        ++i;
      return i;
    };
    for (int column = 0; column < width; ++column) {
      const double middle = (column + 0.5) * column_s;
      for (size_t i = next(at); i < pipeline.ticks.size(); i = next(at)) {
        if (pipeline.ticks[i].stage_s[k] > middle) break;
        at = i;
      }
      const PipelineTick& tick = pipeline.ticks[at];
      const PipelinePass& pass = pipeline.passes[tick.pass[k]];
      const double start_s = tick.stage_s[k];
      const bool runs = middle >= start_s && middle < start_s + pass.time_s;
      row[static_cast<size_t>(column)] = runs ? MarkOf(tick, k, pass) : '.';
    }
    out += fmt::format("  {:>5} |{}|\n", k, row);
  }
  return out;
}

Json PipelineAsJson(const PipelineReport& pipeline, size_t most_ticks) {
  Json stages = Json::Array(), passes = Json::Array(), ticks = Json::Array();
  for (const PipelineStage& stage : pipeline.stages) {
    stages.Append({{"devices", stage.devices},
                   {"busy_s", stage.busy_s},
                   {"recompute_s", stage.recompute_s},
                   {"exposed_communication_s", stage.exposed_s},
                   {"idle_s", stage.idle_s},
                   {"flops", stage.flops},
                   {"padding_flops", stage.padding_flops},
                   {"sent_bytes", stage.sent_bytes},
                   {"peak_bytes", stage.peak_bytes}});
  }
  for (const PipelinePass& pass : pipeline.passes) {
    passes.Append({{"name", pass.computation->name()},
                   {"kind", PassKindName(pass)},
                   {"time_s", pass.time_s}});
  }
  for (size_t i = 0; i < std::min(most_ticks, pipeline.ticks.size()); ++i) {
    const PipelineTick& tick = pipeline.ticks[i];
    const std::vector<int64_t> taken(tick.pass.begin(), tick.pass.end());
    ticks.Append({{"start_s", tick.start_s},
                  {"end_s", tick.end_s},
                  {"stage_s", tick.stage_s},
                  {"pass", taken},
                  {"microbatch", tick.microbatch}});
  }
  Json json = {{"loop", pipeline.loop->name()},
               {"schedule", pipeline.schedule},
               {"microbatches", pipeline.microbatches},
               {"repeats", pipeline.repeats},
               {"span_s", pipeline.span_s},
               {"transfer_s", pipeline.transfer_s},
               {"bubble_share", pipeline.bubble_share},
               {"recompute_share", pipeline.recompute_share},
               {"imbalance", pipeline.imbalance},
               {"flops_per_device", pipeline.FlopsPerDevice()},
               {"padding_flops_per_device", pipeline.PaddingFlopsPerDevice()},
               {"tick_count", pipeline.ticks.size()},
               {"stages", std::move(stages)},
               {"passes", std::move(passes)},
               {"ticks", std::move(ticks)}};
  if (pipeline.planned_bubble) json.Set("planned_bubble_share", *pipeline.planned_bubble);
  return json;
}

}  // namespace gshard
