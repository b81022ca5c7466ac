// Views of a cost report. See cost_text.h.

#include "core/report/cost_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/analysis/axis_text.h"
#include "core/report/memory_text.h"
#include "core/report/pipeline_text.h"
#include "core/report/quantity_text.h"

namespace gshard {
namespace {

// "axis0=4, axis1=2 .."; axes that we have named ourselves only.
std::string InferredMeshText(const CostReport& report) {
  if (!report.mesh_is_inferred || report.mesh.size() < 2) return "";
  std::vector<std::string> axes;
  for (const MeshAxis& axis : report.mesh)
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format(
      "  mesh           {}   of its shardings, major first: the text names no axes\n",
      fmt::join(axes, ", "));
}

// "dots 57.4%, attention 1.1%, ..": parts that there are.
std::string BreakdownText(const CostReport& report) {
  const CostBreakdown& parts = report.breakdown;
  const std::pair<std::string_view, double> rows[] = {
      {"dots", parts.dot_s},
      {"attention", parts.attention_s},
      {"movement", parts.movement_s},
      {"other kernels", parts.other_s},
      {"exposed communication", parts.exposed_communication_s},
      {"bubble", parts.bubble_s}};
  std::vector<std::string> shown;
  for (const auto& [name, seconds] : rows) {
    if (seconds > 0) {
      shown.push_back(fmt::format("{} {:.1f}%", name, 100 * seconds / report.step_time_s));
    }
  }
  return shown.empty() ? "nothing to do" : fmt::format("{}", fmt::join(shown, ", "));
}

// What of the work a perfect program would not do; empty if nothing.
std::string WasteText(const CostReport& report) {
  const std::pair<std::string_view, double> rows[] = {
      {"recomputed", report.recompute_flops_per_device},
      {"on padding or twice", report.padding_flops_per_device},
      {"masked", report.masked_flops_per_device}};
  std::string out;
  for (const auto& [name, flops] : rows) {
    if (flops <= 0 || flops < 0.001 * report.flops_per_device) continue;
    out += fmt::format("{}{} {:.1f}%", out.empty() ? "" : ", ", name,
                       100 * flops / report.flops_per_device);
  }
  return out;
}

std::string GroupsText(const std::vector<WorkRow>& groups) {
  if (groups.empty()) return "";
  std::string out = fmt::format("\n  {:<32}{:>12}{:>14}{:>14}{:>14}\n", "group", "time", "work",
                                "HBM traffic", "sent");
  for (const WorkRow& row : groups) {
    out += fmt::format("  {:<32}{:>12}{:>14}{:>14}{:>14}\n", row.key.empty() ? "-" : row.key,
                       HumanSeconds(row.time_s), HumanFlops(row.flops), HumanBytes(row.bytes),
                       HumanBytes(row.communication_bytes));
  }
  return out;
}

// The compiler's estimates beside the model's, of kernels that have the former; empty without.
std::string CyclesText(const CostReport& report) {
  std::string rows;
  for (const WorkRow& row : report.by_opcode) {
    if (row.text_time_s <= 0) continue;
    rows += fmt::format("  {:<32}{:>14}{:>14}{:>10.2f}\n", row.key, HumanSeconds(row.text_time_s),
                        HumanSeconds(row.model_time_s), row.model_time_s / row.text_time_s);
  }
  if (rows.empty()) return "";
  return fmt::format("\n  {:<32}{:>14}{:>14}{:>10}  {} counts\n{}", "kernels of", "text's cycles",
                     "model", "ratio", report.uses_text_cycles ? "the text" : "the model", rows);
}

std::string CustomCallNotes(const CostReport& report) {
  std::string out;
  if (report.python_partitioned_calls > 0) {
    const bool is_one = report.python_partitioned_calls == 1;
    out += fmt::format(
        "  note: {} custom call{} partitioned by Python code (custom_partitioning) that the text "
        "does not hold: cut by {} sharding rule{}\n",
        report.python_partitioned_calls, is_one ? " is" : "s are", is_one ? "its" : "their",
        is_one ? "" : "s");
  }
  if (!report.unknown_calls.empty()) {
    out += fmt::format("  note: priced by what they read and write alone: custom calls to {}\n",
                       fmt::join(report.unknown_calls, ", "));
  }
  return out;
}

// While loops that count once; of those that end after a known number of trips, what all take.
std::string CountedOnceNote(const CostReport& report) {
  constexpr size_t kMostTold = 3;
  const std::vector<LoopCountedOnce>& loops = report.loops_counted_once;
  if (loops.empty()) return "";
  std::vector<std::string> bounded;
  for (const LoopCountedOnce& loop : loops) {
    if (!loop.most_trips) continue;
    bounded.push_back(fmt::format("{} runs {} times at most, {} each", loop.name, *loop.most_trips,
                                  HumanSeconds(loop.trip_s)));
  }
  const size_t told = std::min(bounded.size(), kMostTold);
  std::string out =
      fmt::format("  note: {} while loop{} without a known trip count {} counted once",
                  loops.size(), loops.size() == 1 ? "" : "s", loops.size() == 1 ? "is" : "are");
  for (size_t i = 0; i < told; ++i) out += (i == 0 ? ": " : "; ") + bounded[i];
  if (bounded.size() > told) out += fmt::format("; and {} more", bounded.size() - told);
  return out + "\n";
}

constexpr int64_t kWorthTelling = 100;  // fragmentation: a hundredth of the peak

// What is in use by no value, what lies elsewhere, and memory as the program is written.
std::string OtherMemoryText(const CostReport& report) {
  const MemoryReport& memory = report.memory;
  std::string out;
  if (memory.fragmentation_bytes * kWorthTelling > memory.peak_bytes) {
    out += fmt::format("  fragmentation  {:>12}   of the peak: free, in pieces too small for {}\n",
                       HumanBytes(static_cast<double>(memory.fragmentation_bytes)),
                       memory.at_peak.back().instruction->name());
  }
  if (memory.fast_peak_bytes > 0) {
    out += fmt::format("  fast memory    {:>12}   of a device, beside its memory\n",
                       HumanBytes(static_cast<double>(memory.fast_peak_bytes)));
  }
  if (report.attention_as_written) {
    out += fmt::format(
        "  as written     {:>12}   and {} a step: attention that is spelled out counts as flash "
        "kernels, which XLA does not make of it (--attention materialized)\n",
        HumanBytes(static_cast<double>(report.attention_as_written->peak_bytes)),
        HumanSeconds(report.attention_as_written->step_time_s));
  }
  if (memory.recomputed_beyond_bytes > 0 && memory.peak_bytes > memory.recomputed_beyond_bytes) {
    out += fmt::format(
        "  note: beyond {} XLA's compiler for TPUs computes values again by itself, if that helps\n",
        HumanBytes(static_cast<double>(memory.recomputed_beyond_bytes)));
  }
  if (memory.host_peak_bytes > 0) {
    out += fmt::format("  host memory    {:>12}   a device\n",
                       HumanBytes(static_cast<double>(memory.host_peak_bytes)));
  }
  return out;
}

}  // namespace

bool FitsAsWritten(const CostReport& report) {
  if (!report.attention_as_written) return report.memory.Fits();
  return report.memory.limit_bytes == 0 ||
         report.attention_as_written->peak_bytes <= report.memory.limit_bytes;
}

std::string CostVerdict(const CostReport& report) {
  std::string verdict = VerdictText(report.memory);
  if (report.memory.Fits() && !FitsAsWritten(report)) {
    verdict.pop_back();
    verdict +=
        fmt::format(" with flash kernels for its attention; as it is written it does NOT fit: {}\n",
                    HumanBytes(static_cast<double>(report.attention_as_written->peak_bytes)));
  }
  return verdict;
}

std::string CostAsText(const Module& module, const CostReport& report, size_t top) {
  std::string out = CostVerdict(report);
  out += fmt::format("{}: {} device{}, {}{}{}\n", module.name(), report.devices,
                     report.devices == 1 ? "" : "s", report.chip,
                     report.stack == Chip::Stack::kJax
                         ? ""
                         : fmt::format(", kernels as {} makes them", NameOf(report.stack)),
                     report.propagation == "shardy" ? ", propagated by Shardy's rules" : "");
  out += fmt::format("  step time      {:>12}   {}\n", HumanSeconds(report.step_time_s),
                     BreakdownText(report));
  if (report.sustained < 1) {
    out += fmt::format(
        "  sustained      {:>11.0f}%   of the rates of single kernels, as in published training "
        "steps\n",
        100 * report.sustained);
  }
  std::string waste = WasteText(report);
  out += fmt::format("  work a device  {:>12}   MFU {:.1f}%, HFU {:.1f}%{}{}, HBM traffic {}\n",
                     HumanFlops(report.flops_per_device), 100 * report.mfu, 100 * report.hfu,
                     waste.empty() ? "" : ", ", waste, HumanBytes(report.hbm_bytes_per_device));
  const MemoryReport& memory = report.memory;
  out += fmt::format("  peak memory    {:>12}   arguments {}, outputs {}, temporaries {}\n",
                     HumanBytes(static_cast<double>(memory.peak_bytes)),
                     HumanBytes(static_cast<double>(memory.argument_bytes)),
                     HumanBytes(static_cast<double>(memory.output_bytes)),
                     HumanBytes(static_cast<double>(memory.temp_bytes)));
  out += OtherMemoryText(report);
  out += InferredMeshText(report);
  if (report.devices > 1) {
    out += fmt::format("  network        {:>12}   overlap {}\n", report.network,
                       OverlapName(report.overlap));
  }
  if (!report.tells_recomputation && report.flops_per_device > 0) {
    out += "  note: the text has no op_name: what is recomputed cannot be told, MFU counts it\n";
  }
  if (report.mfu > 1) {
    out += "  note: MFU is a share of the peak of bf16, products of narrower types are faster\n";
  }
  if (report.dense_ragged_dot_groups > 1) {
    out += fmt::format(
        "  note: XLA for {} makes ragged-dots dense: every row meets the matrices of all groups, "
        "up "
        "to {} times the work\n",
        report.chip, report.dense_ragged_dot_groups);
  }
  if (report.written_out_ragged_dot_groups > 1) {
    out += fmt::format(
        "  note: this is lax.ragged_dot as JAX writes it for CPUs, {} times the work: every row "
        "meets "
        "the matrices of all groups; print the program for the chip's platform (docs/inputs.md)\n",
        report.written_out_ragged_dot_groups);
  }
  out += CountedOnceNote(report);
  out += CustomCallNotes(report);
  if (!report.collectives.empty()) {
    out += fmt::format("\n  {:<22}{:<20}{:>8}{:>16}{:>12}{:>12}  largest because of\n",
                       "collective", "axes", "count", "bytes a device", "time", "exposed");
    for (const CollectiveRow& row : report.collectives) {
      out += fmt::format("  {:<22}{:<20}{:>8}{:>16}{:>12}{:>12}  {}\n", row.kind,
                         AxesInWords(row.axes, report.mesh), row.count,
                         HumanBytes(row.bytes_per_device), HumanSeconds(row.time_s),
                         HumanSeconds(row.exposed_s), row.Because());
    }
  }
  if (report.pipeline) {
    out += fmt::format("\n{}{}", PipelineHeadline(*report.pipeline, report.step_time_s, "  "),
                       PipelineTable(*report.pipeline));
  }
  out += CyclesText(report);
  out += GroupsText(report.by_group);
  out += AtPeakText(module, memory, top);
  return out;
}

}  // namespace gshard
