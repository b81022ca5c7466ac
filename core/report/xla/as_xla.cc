// See as_xla.h.

#include "core/report/xla/as_xla.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "core/analysis/axis_text.h"
#include "core/analysis/meshes.h"
#include "core/report/annotation_advice.h"
#include "core/report/quantity_text.h"
#include "ir/metadata.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

using Kind = std::pair<std::string, std::vector<std::string>>;  // and axes

std::map<Kind, double> BytesByKind(const CollectiveReport& report) {
  std::map<Kind, double> bytes;
  for (const auto& collective : report.collectives) {
    bytes[{collective.cost.kind, collective.cost.axes}] += collective.Bytes();
  }
  return bytes;
}

bool Differs(const AsXlaRow& row) {
  const auto [less, more] = std::minmax(row.bytes_per_device, row.xla_bytes_per_device);
  return more - less > 0.01 * more;
}

// Most bytes on either side first; empty if no row differs.
std::vector<AsXlaRow> RowsOf(const CollectiveReport& here, const CollectiveReport& xla) {
  std::map<Kind, AsXlaRow> rows;
  for (const auto& [kind, bytes] : BytesByKind(here)) {
    rows[kind] = {kind.first, kind.second, bytes, 0};
  }
  for (const auto& [kind, bytes] : BytesByKind(xla)) {
    AsXlaRow& row = rows.try_emplace(kind, AsXlaRow{kind.first, kind.second, 0, 0}).first->second;
    row.xla_bytes_per_device = bytes;
  }
  std::vector<AsXlaRow> sorted;
  for (auto& [kind, row] : rows) sorted.push_back(std::move(row));
  if (std::ranges::none_of(sorted, Differs)) return {};
  std::ranges::stable_sort(sorted, std::greater<>(), [](const AsXlaRow& row) {
    return std::max(row.bytes_per_device, row.xla_bytes_per_device);
  });
  return sorted;
}

std::string RowsText(const std::vector<AsXlaRow>& rows, const std::vector<MeshAxis>& mesh) {
  if (rows.empty()) return "";
  double here = 0, there = 0;
  std::string out;
  for (const AsXlaRow& row : rows) {
    here += row.bytes_per_device;
    there += row.xla_bytes_per_device;
    if (!Differs(row)) continue;
    out += fmt::format("  {:<22}{:<20}{:>14}{:>14}\n", row.kind, AxesInWords(row.axes, mesh),
                       HumanBytes(row.bytes_per_device), HumanBytes(row.xla_bytes_per_device));
  }
  return fmt::format(
      "\n  as XLA's partitioner would: {} a device sends, here {} (--as-xla prices it)\n"
      "  {:<22}{:<20}{:>14}{:>14}\n{}",
      HumanBytes(there), HumanBytes(here), "collective", "axes", "here", "XLA", out);
}

std::string RematerializationText(const AsXlaRematerialization& r) {
  std::string out =
      fmt::format("  {:>14}  {} goes from {} to {} for {}\n",
                  HumanBytes(static_cast<double>(r.whole_bytes)), r.value, r.has, r.wants, r.user);
  if (!r.source.empty() || !r.user_source.empty()) {
    const bool is_one = r.source == r.user_source || r.user_source.empty();
    out += fmt::format("{:18}at {}{}\n", "", r.source.empty() ? r.user_source : r.source,
                       is_one || r.source.empty() ? "" : fmt::format(", for {}", r.user_source));
  }
  if (r.advice) {
    out += fmt::format("{:18}avoided by --shard '{}': a device then sends {} in place of {}\n", "",
                       r.advice->shard, HumanBytes(r.advice->bytes_per_device),
                       HumanBytes(r.program_bytes));
  }
  return out;
}

}  // namespace

std::vector<AsXlaRematerialization> RematerializationsOf(Module& as_xla,
                                                         const CollectiveReport& report) {
  auto text = [&](const Sharding* sharding) {
    return AxisText(as_xla.context(), sharding, NamedMesh(as_xla));
  };
  std::vector<AsXlaRematerialization> list;
  const SourceLines lines(as_xla);
  for (const CollectiveReport::Rematerialization& r : report.rematerializations) {
    const Instruction* value = r.cause.value;
    if (value == nullptr || !r.cause.full_rematerialization) continue;
    const Instruction* user = r.cause.user == nullptr ? value : r.cause.user;
    list.push_back({std::string(value->name()), std::string(user->name()), OpNameOf(*value),
                    lines.TextOf(*value), lines.TextOf(*user), text(r.cause.has),
                    text(r.cause.wants), value->shape()->byte_size(), r.bytes_per_device,
                    report.bytes_per_device, r.advice});
  }
  return list;
}

Expected<AsXla> CompareAsXla(Module& propagated, Module& partitioned, const AsXlaTrials& trials) {
  ExplainRecorder recorder;
  PassContext context;
  context.partition.policies = PartitionPolicies::AsXla();
  context.recorder = &recorder;
  PerDeviceOptions way;
  way.propagate = false;
  if (auto done = MakePerDeviceModule(propagated, context, way); !done) {
    return Fail(std::move(done.error()));
  }
  CollectiveReport xla = MakeCollectiveReport(propagated, &recorder);
  if (trials.written != nullptr) {
    context.recorder = nullptr;
    context.propagation = trials.propagation;
    AdviseAnnotations(*trials.written, context, trials.way, xla, trials.limit);
  }
  return AsXla{RowsOf(MakeCollectiveReport(partitioned, nullptr), xla),
               RematerializationsOf(propagated, xla)};
}

std::string AsXlaText(const AsXla& as_xla, const std::vector<MeshAxis>& mesh) {
  std::string out = RowsText(as_xla.rows, mesh);
  if (as_xla.rematerializations.empty()) return out;
  out +=
      "\n  XLA's partitioner would have these whole on every device (its warnings of involuntary "
      "full rematerialization)\n";
  for (const AsXlaRematerialization& r : as_xla.rematerializations) {
    out += RematerializationText(r);
  }
  return out;
}

Json AsXlaRematerializations(const AsXla& as_xla) {
  Json list = Json::Array();
  for (const AsXlaRematerialization& r : as_xla.rematerializations) {
    Json entry = {{"value", r.value},
                  {"user", r.user},
                  {"op_name", r.op_name},
                  {"source", r.source},
                  {"user_source", r.user_source},
                  {"has", r.has},
                  {"wants", r.wants},
                  {"whole_bytes", r.whole_bytes},
                  {"bytes_per_device", r.bytes_per_device}};
    if (r.advice) entry.Set("avoided_by", AdviceAsJson(*r.advice, r.program_bytes));
    list.Append(std::move(entry));
  }
  return list;
}

Json AsXlaRows(const AsXla& as_xla) {
  Json list = Json::Array();
  for (const AsXlaRow& row : as_xla.rows) {
    list.Append({{"kind", row.kind},
                 {"axes", row.axes},
                 {"bytes_per_device", row.bytes_per_device},
                 {"xla_bytes_per_device", row.xla_bytes_per_device}});
  }
  return list;
}

}  // namespace gshard
