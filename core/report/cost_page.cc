// See cost_page.h.

#include "core/report/cost_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/analysis/meshes.h"
#include "core/json.h"
#include "core/report/cost_findings.h"
#include "core/report/cost_json.h"
#include "core/report/embedded_page.h"

namespace gshard {
namespace {

constexpr size_t kMaxPoints = 1500;   // of the memory curve
constexpr size_t kMaxEvents = 4000;   // of the timeline
constexpr size_t kMaxTensors = 400;   // at the peak; the sum of the others is known
constexpr size_t kMaxPictures = 200;  // tensors whose sharding is drawn

// Five digits are more than a screen shows.
double Rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 5);
  return unit > 0 ? std::round(value / unit) * unit : 0;
}

Json Curve(const MemoryReport& memory) {
  const std::vector<MemoryPoint>& curve = memory.curve;
  auto total = [](const MemoryPoint& point) {
    int64_t sum = 0;
    for (const int64_t bytes : point.bytes) sum += bytes;
    return sum;
  };
  const size_t step = std::max<size_t>(1, (curve.size() + kMaxPoints - 1) / kMaxPoints);
  std::vector<std::string> names, classes;
  std::vector<std::vector<int64_t>> bytes(kBufferClasses);
  int64_t highest = -1;
  size_t peak = 0;
  for (size_t begin = 0; begin < curve.size(); begin += step) {
    const auto end = curve.begin() + static_cast<int64_t>(std::min(begin + step, curve.size()));
    auto most = std::max_element(
        curve.begin() + static_cast<int64_t>(begin), end,
        [&](const MemoryPoint& a, const MemoryPoint& b) { return total(a) < total(b); });
    if (total(*most) > highest) {
      highest = total(*most);
      peak = names.size();
    }
    names.emplace_back(most->instruction == nullptr ? "" : most->instruction->name());
    for (size_t kind = 0; kind < kBufferClasses; ++kind) bytes[kind].push_back(most->bytes[kind]);
  }
  Json rows = Json::Array();
  for (size_t kind = 0; kind < kBufferClasses; ++kind) {
    classes.emplace_back(BufferClassName(static_cast<BufferClass>(kind)));
    rows.Append(bytes[kind]);
  }
  return {{"limit_bytes", memory.limit_bytes},
          {"limit_name", memory.limit_name},
          {"classes", classes},
          {"points", curve.size()},
          {"peak", peak},
          {"names", names},
          {"bytes", std::move(rows)}};
}

// The longest events and the loops around them, in their order.
std::vector<bool> Drawn(const Timeline& timeline) {
  const std::vector<TimelineEvent>& events = timeline.events;
  std::vector<bool> drawn(events.size(), events.size() <= kMaxEvents);
  if (events.size() <= kMaxEvents) return drawn;
  std::vector<size_t> order(events.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto length = [&](size_t i) { return events[i].end_s - events[i].start_s; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return length(a) > length(b); });
  for (size_t i = 0; i < kMaxEvents; ++i) {
    for (int at = static_cast<int>(order[i]); at >= 0 && !drawn[static_cast<size_t>(at)];
         at = events[static_cast<size_t>(at)].parent) {
      drawn[static_cast<size_t>(at)] = true;
    }
  }
  return drawn;
}

Json TimelineJson(const Timeline& timeline) {
  const std::vector<bool> drawn = Drawn(timeline);
  std::vector<int> index(timeline.events.size(), -1);
  Json events = Json::Array();
  int kept = 0;
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    if (!drawn[i]) continue;
    const TimelineEvent& event = timeline.events[i];
    index[i] = kept++;
    Json row = Json::Array();
    row.Append(event.instruction == nullptr ? std::string_view() : event.instruction->name());
    row.Append(WorkClassName(event.work_class));
    row.Append(event.stream);
    row.Append(Rounded(event.start_s));
    row.Append(Rounded(event.end_s));
    row.Append(event.trip_count);
    row.Append(event.parent < 0 ? -1 : index[static_cast<size_t>(event.parent)]);
    row.Append(event.is_critical);
    events.Append(std::move(row));
  }
  return {{"streams", timeline.streams},
          {"events", std::move(events)},
          {"dropped", timeline.events.size() - static_cast<size_t>(kept)}};
}

// What core/report/html/sharding.js unfolds into the devices of each tile.
Json ShardingJson(const Sharding& sharding) {
  if (sharding.IsMaximal()) {
    return {{"tiles", std::vector<int64_t>{}}, {"list", std::vector<int64_t>{sharding.device}}};
  }
  Json json{std::initializer_list<Json::Member>{}};
  if (!sharding.IsTiled()) return json;
  const std::span<const int64_t> dims = sharding.tiles.dims();
  json.Set("tiles", std::vector<int64_t>(dims.begin(), dims.end()));
  if (!sharding.tiles.has_axes()) {
    json.Set("list", sharding.tiles.ToList());
    return json;
  }
  Json axes = Json::Array();
  for (const DeviceAxis& axis : sharding.tiles.axes()) {
    axes.Append(std::vector<int64_t>{axis.size, axis.stride});
  }
  json.Set("axes", std::move(axes));
  return json;
}

void AddPictures(Json& data, const MemoryReport& memory, int64_t devices) {
  Json tensors = Json::Array(), shardings = Json::Array();
  std::unordered_map<const Sharding*, int64_t> known;
  size_t count = 0;
  for (const LiveBuffer& buffer : memory.at_peak) {
    const Sharding* sharding = buffer.sharding;
    if (devices == 1 || sharding == nullptr || buffer.global_shape == nullptr) continue;
    if (!buffer.global_shape->IsArray() || sharding->IsManual() || sharding->IsTuple()) continue;
    if (++count > kMaxPictures) break;
    auto [it, is_new] = known.emplace(sharding, static_cast<int64_t>(known.size()));
    if (is_new) shardings.Append(ShardingJson(*sharding));
    const std::span<const int64_t> dims = buffer.global_shape->dims();
    tensors.Append({{"name", buffer.instruction->name()},
                    {"bytes", buffer.bytes},
                    {"shape", ToString(buffer.shape, false)},
                    {"global_shape", ToString(buffer.global_shape, false)},
                    {"dims", std::vector<int64_t>(dims.begin(), dims.end())},
                    {"sharding", buffer.sharding_text},
                    {"free_axes", buffer.free_axes},
                    {"picture", it->second}});
  }
  data.Set("tensors", std::move(tensors));
  data.Set("shardings", std::move(shardings));
}

}  // namespace

std::string CostPage(Module& module, const CostReport& report, const Chip& chip,
                     const CollectiveReport* collectives,
                     const std::vector<TriedAdvice>& advice) {
  const Mesh* mesh = MainMesh(module);
  Json axes = Json::Array();
  if (mesh != nullptr) {
    for (const MeshAxis& axis : mesh->axes) {
      axes.Append({{"name", axis.name}, {"size", axis.size}});
    }
  }
  Json findings = Json::Array();
  for (const CostFinding& finding : WorstFindings(module, report, collectives, advice)) {
    findings.Append({{"title", finding.title},
                     {"detail", finding.detail},
                     {"fix", finding.fix},
                     {"view", finding.view},
                     {"name", finding.name}});
  }
  Json data = {{"schema", "gshard.page/1"},
               {"report", Json::Parse(CostAsJson(module, report, kMaxTensors))},
               {"chip",
                {{"name", chip.name},
                 {"nominal_flops", chip.NominalFlops()},
                 {"hbm_bytes", chip.hbm_bytes},
                 {"hbm_bytes_per_s", chip.hbm_bytes_per_s}}},
               {"mesh", std::move(axes)},
               {"findings", std::move(findings)},
               {"memory", Curve(report.memory)},
               {"timeline", TimelineJson(report.timeline)}};
  AddPictures(data, report.memory, report.devices);
  const std::string title = fmt::format("{}: {} device{}, {}", module.name(), report.devices,
                                        report.devices == 1 ? "" : "s", report.chip);
  return HtmlPage(title, data, PageScript::kCost);
}

std::string MeshSweepPage(const MeshSweep& sweep) {
  const std::string title =
      fmt::format("{}: {} meshes, {}", sweep.module, sweep.points.size(), sweep.chip);
  return HtmlPage(title, Json::Parse(MeshSweepAsJson(sweep)), PageScript::kSweep);
}

}  // namespace gshard
