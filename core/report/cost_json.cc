// The JSON view of a cost report. See cost_json.h.

#include "core/report/cost_json.h"

#include <algorithm>

#include "core/check/findings_json.h"
#include "core/json.h"
#include "core/report/cost_text.h"
#include "core/report/memory_text.h"
#include "core/report/pipeline_text.h"
#include "ir/metadata.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

// Beyond these many, rows of the long lists add little: their sums are in the totals.
constexpr size_t kMaxRows = 200;

// `top` rows, all of them if it is 0.
Json AtPeakRows(const Module& module, const MemoryReport& memory, size_t top) {
  Json rows = Json::Array();
  const BufferPlaces places(module, memory);
  size_t count = top == 0 ? memory.at_peak.size() : std::min(top, memory.at_peak.size());
  for (size_t i = 0; i < count; ++i) {
    const LiveBuffer& buffer = memory.at_peak[i];
    const Shape* global = buffer.global_shape;
    rows.Append({{"name", buffer.instruction->name()},
                 {"leaf", buffer.leaf},
                 {"bytes", buffer.bytes},
                 {"dense_bytes", DenseBytes(buffer)},
                 {"class", BufferClassName(buffer.kind)},
                 {"shape", ToString(buffer.shape, false)},
                 {"global_shape", global != nullptr ? ToString(global, false) : ""},
                 {"sharding", buffer.sharding_text},
                 {"free_axes", buffer.free_axes},
                 {"op_name", OpNameOf(*buffer.instruction)},
                 {"source", places.Of(buffer)}});
  }
  return rows;
}

Json AsWrittenJson(const CostReport& report) {
  if (!report.attention_as_written) return Json();
  const auto& [step_time_s, peak_bytes] = *report.attention_as_written;
  return {
      {"step_time_s", step_time_s}, {"peak_bytes", peak_bytes}, {"fits", FitsAsWritten(report)}};
}

Json CountedOnceJson(const CostReport& report) {
  Json rows = Json::Array();
  for (const LoopCountedOnce& loop : report.loops_counted_once) {
    rows.Append({{"name", loop.name},
                 {"trip_time_s", loop.trip_s},
                 {"most_trips", loop.most_trips ? Json(*loop.most_trips) : Json()}});
  }
  return rows;
}

Json CollectiveRows(const CostReport& report) {
  Json rows = Json::Array();
  for (const CollectiveRow& row : report.collectives) {
    rows.Append({{"kind", row.kind},
                 {"axes", row.axes},
                 {"count", row.count},
                 {"bytes_per_device", row.bytes_per_device},
                 {"time_s", row.time_s},
                 {"exposed_s", row.exposed_s},
                 {"cause", row.cause}});
  }
  return rows;
}

Json CollectiveCalls(const SourceLines& lines, const CostReport& report) {
  Json rows = Json::Array();
  for (size_t i = 0; i < std::min(kMaxRows, report.collective_calls.size()); ++i) {
    const CollectiveCall& call = report.collective_calls[i];
    rows.Append({{"name", call.instruction->name()},
                 {"kind", call.cost.kind},
                 {"axes", call.cost.axes},
                 {"group_size", call.cost.group_size},
                 {"count", call.count},
                 {"bytes_per_device", call.count * call.cost.bytes_per_device},
                 {"time_s", call.time_s},
                 {"exposed_s", call.exposed_s},
                 {"cause", call.cost.cause},
                 {"op_name", OpNameOf(*call.instruction)},
                 {"source", lines.TextOf(*call.instruction)}});
  }
  return rows;
}

Json Kernels(const SourceLines& lines, const CostReport& report) {
  Json rows = Json::Array();
  for (size_t i = 0; i < std::min(kMaxRows, report.kernels.size()); ++i) {
    const KernelRow& kernel = report.kernels[i];
    rows.Append({{"name", kernel.root->name()},
                 {"opcode", OpcodeName(kernel.root->opcode())},
                 {"class", WorkClassName(kernel.work_class)},
                 {"count", kernel.count},
                 {"flops", kernel.flops},
                 {"bytes", kernel.bytes},
                 {"time_s", kernel.time_s},
                 {"text_time_s", kernel.text_time_s.value_or(0)},
                 {"model_time_s", kernel.model_time_s},
                 {"op_name", OpNameOf(*kernel.root)},
                 {"source", lines.TextOf(*kernel.root)}});
  }
  return rows;
}

Json WorkRows(const std::vector<WorkRow>& work) {
  Json rows = Json::Array();
  for (const WorkRow& row : work) {
    rows.Append({{"key", row.key},
                 {"count", row.count},
                 {"flops", row.flops},
                 {"bytes", row.bytes},
                 {"communication_bytes", row.communication_bytes},
                 {"time_s", row.time_s},
                 {"text_time_s", row.text_time_s},
                 {"model_time_s", row.model_time_s}});
  }
  return rows;
}

Json Breakdown(const CostBreakdown& parts) {
  return {{"dot_s", parts.dot_s},
          {"attention_s", parts.attention_s},
          {"movement_s", parts.movement_s},
          {"other_s", parts.other_s},
          {"exposed_communication_s", parts.exposed_communication_s},
          {"bubble_s", parts.bubble_s}};
}

}  // namespace

std::string CostAsJson(const Module& module, const CostReport& report, size_t top,
                       const CommunicationFindings& findings, std::span<const FailedCheck> failed,
                       std::span<const TriedAdvice> advice, AsXlaLists xla) {
  Json tried = Json::Array();
  for (const TriedAdvice& one : advice) {
    tried.Append({{"kind", AdviceKindName(one.kind)},
                  {"what", one.what},
                  {"instruction", one.instruction},
                  {"step_time_s", one.step_time_s},
                  {"peak_bytes", one.peak_bytes}});
  }
  Json mesh = Json::Array();
  for (const MeshAxis& axis : report.mesh) mesh.Append({{"name", axis.name}, {"size", axis.size}});
  const SourceLines lines(module);
  Json document = {{"schema", "gshard.cost/1"},
                   {"module", module.name()},
                   {"devices", report.devices},
                   {"chip", report.chip},
                   {"stack", NameOf(report.stack)},
                   {"sustained", report.sustained},
                   {"failed_checks", FailedChecksAsJson(failed)},
                   {"advice", std::move(tried)},
                   {"mesh", std::move(mesh)},
                   {"mesh_is_inferred", report.mesh_is_inferred},
                   {"propagation", report.propagation},
                   {"network", report.network},
                   {"overlap", OverlapName(report.overlap)},
                   {"fits", report.memory.Fits()},
                   {"memory_limit_bytes", report.memory.limit_bytes},
                   {"step_time_s", report.step_time_s},
                   {"compute_time_s", report.compute_time_s},
                   {"exposed_communication_s", report.exposed_communication_s},
                   {"recompute_s", report.recompute_s},
                   {"mean_branch_step_time_s", report.mean_branch_step_time_s},
                   {"breakdown", Breakdown(report.breakdown)},
                   {"flops_per_device", report.flops_per_device},
                   {"transcendentals_per_device", report.transcendentals_per_device},
                   {"useful_flops_per_device", report.useful_flops_per_device},
                   {"recompute_flops_per_device", report.recompute_flops_per_device},
                   {"padding_flops_per_device", report.padding_flops_per_device},
                   {"masked_flops_per_device", report.masked_flops_per_device},
                   {"tells_recomputation", report.tells_recomputation},
                   {"mfu", report.mfu},
                   {"hfu", report.hfu},
                   {"hbm_bytes_per_device", report.hbm_bytes_per_device},
                   {"unknown_trip_counts", report.loops_counted_once.size()},
                   {"loops_counted_once", CountedOnceJson(report)},
                   {"dense_ragged_dot_groups", report.dense_ragged_dot_groups},
                   {"written_out_ragged_dot_groups", report.written_out_ragged_dot_groups},
                   {"unknown_calls", report.unknown_calls},
                   {"python_partitioned_calls", report.python_partitioned_calls},
                   {"attention_as_written", AsWrittenJson(report)},
                   {"memory",
                    {{"peak_bytes", report.memory.peak_bytes},
                     {"argument_bytes", report.memory.argument_bytes},
                     {"output_bytes", report.memory.output_bytes},
                     {"temp_bytes", report.memory.temp_bytes},
                     {"fragmentation_bytes", report.memory.fragmentation_bytes},
                     {"host_bytes", report.memory.host_peak_bytes},
                     {"fast_bytes", report.memory.fast_peak_bytes},
                     {"at_peak", AtPeakRows(module, report.memory, top)}}},
                   {"collectives", CollectiveRows(report)},
                   {"as_xla", std::move(xla.as_xla)},
                   {"xla_full_rematerializations", std::move(xla.xla_full_rematerializations)},
                   {"collective_calls", CollectiveCalls(lines, report)},
                   {"kernels", Kernels(lines, report)},
                   {"by_opcode", WorkRows(report.by_opcode)},
                   {"by_source", WorkRows(report.by_source)},
                   {"by_group", WorkRows(report.by_group)},
                   {"findings", FindingsJson(findings)}};
  if (report.pipeline) document.Set("pipeline", PipelineAsJson(*report.pipeline));
  return document.Text();
}

}  // namespace gshard
