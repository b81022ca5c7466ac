// See as_xla.h.

#include "core/report/xla/as_xla.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "core/analysis/axis_text.h"
#include "core/report/collective_report.h"
#include "core/report/quantity_text.h"
#include "core/spmd/per_device_module.h"

namespace gshard {
namespace {

using Kind = std::pair<std::string, std::vector<std::string>>;  // and axes

std::map<Kind, double> BytesByKind(Module& partitioned) {
  std::map<Kind, double> bytes;
  for (const auto& collective : MakeCollectiveReport(partitioned, nullptr).collectives) {
    bytes[{collective.cost.kind, collective.cost.axes}] += collective.Bytes();
  }
  return bytes;
}

bool Differs(const AsXlaRow& row) {
  const auto [less, more] = std::minmax(row.bytes_per_device, row.xla_bytes_per_device);
  return more - less > 0.01 * more;
}

}  // namespace

Expected<std::vector<AsXlaRow>> CompareAsXla(Module& propagated, Module& partitioned) {
  PassContext context;
  context.partition.policies = PartitionPolicies::AsXla();
  PerDeviceOptions way;
  way.propagate = false;
  if (auto done = MakePerDeviceModule(propagated, context, way); !done) {
    return Fail(std::move(done.error()));
  }
  std::map<Kind, AsXlaRow> rows;
  for (const auto& [kind, bytes] : BytesByKind(partitioned)) {
    rows[kind] = {kind.first, kind.second, bytes, 0};
  }
  for (const auto& [kind, bytes] : BytesByKind(propagated)) {
    AsXlaRow& row = rows.try_emplace(kind, AsXlaRow{kind.first, kind.second, 0, 0}).first->second;
    row.xla_bytes_per_device = bytes;
  }
  std::vector<AsXlaRow> sorted;
  for (auto& [kind, row] : rows) sorted.push_back(std::move(row));
  if (std::ranges::none_of(sorted, Differs)) return std::vector<AsXlaRow>();
  std::ranges::stable_sort(sorted, std::greater<>(), [](const AsXlaRow& row) {
    return std::max(row.bytes_per_device, row.xla_bytes_per_device);
  });
  return sorted;
}

std::string AsXlaText(const std::vector<AsXlaRow>& rows, const std::vector<MeshAxis>& mesh) {
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

Json AsXlaJson(const std::vector<AsXlaRow>& rows) {
  Json list = Json::Array();
  for (const AsXlaRow& row : rows) {
    list.Append({{"kind", row.kind},
                 {"axes", row.axes},
                 {"bytes_per_device", row.bytes_per_device},
                 {"xla_bytes_per_device", row.xla_bytes_per_device}});
  }
  return list;
}

}  // namespace gshard
