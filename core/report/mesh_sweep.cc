// See mesh_sweep.h.

#include "core/report/mesh_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/analysis/axis_text.h"
#include "core/estimate/parallel_for.h"
#include "core/json.h"
#include "core/report/quantity_text.h"
#include "core/report/table_text.h"
#include "core/transforms/annotations/annotate.h"

namespace gshard {
namespace {

constexpr size_t kMaxShapes = 10'000;

struct AxisRange {
  std::string name;
  std::vector<int64_t> sizes;
};

tl::unexpected<Diagnostic> Error(std::string message) {
  return Fail(MakeError("E-MESH-003", std::move(message),
                        "write axes as NAME=SIZE or NAME=FROM..TO (powers of two), major first: "
                        "data=2..64,model=4"));
}

// "data=2..64", and "data=4" as "data=4..4".
Expected<AxisRange> ParseRange(std::string_view part) {
  const size_t dots = part.find("..");
  const std::string from(part.substr(0, dots));
  auto first = ParseMeshFlag(from);
  if (!first || first->size() != 1) return Error(fmt::format("'{}' is no mesh axis", part));
  const MeshAxis& axis = first->front();
  if (dots == std::string_view::npos) return AxisRange{axis.name, {axis.size}};
  auto last = ParseMeshFlag(fmt::format("{}={}", axis.name, part.substr(dots + 2)));
  if (!last || last->front().size < axis.size) {
    return Error(fmt::format("'{}' is no range of sizes", part));
  }
  AxisRange range{axis.name, {}};
  const auto least = static_cast<uint64_t>(axis.size);
  for (uint64_t size = std::bit_ceil(least); static_cast<int64_t>(size) <= last->front().size;
       size *= 2) {
    range.sizes.push_back(static_cast<int64_t>(size));
  }
  if (range.sizes.empty()) return Error(fmt::format("'{}' holds no power of two", part));
  return range;
}

void MarkPareto(std::vector<SweepPoint>& points) {
  for (SweepPoint& point : points) {
    if (point.error || !point.fits) continue;
    point.pareto = std::none_of(points.begin(), points.end(), [&](const SweepPoint& other) {
      return !other.error && other.fits && other.step_time_s <= point.step_time_s &&
             other.peak_bytes <= point.peak_bytes &&
             (other.step_time_s < point.step_time_s || other.peak_bytes < point.peak_bytes);
    });
  }
}

std::string PointText(const SweepPoint& point) {
  std::string text = MeshText(point.mesh);
  if (point.pipeline.stages == 0) return text;
  return fmt::format("{}{}stages={} microbatches={} {}", text, text.empty() ? "" : " ",
                     point.pipeline.stages, point.pipeline.microbatches, point.pipeline.schedule);
}

// "does not fit; pads x and 2 more".
std::string RemarkOn(const SweepPoint& point) {
  std::string text = point.fits ? "" : "does not fit";
  if (point.uneven.empty()) return text;
  text += fmt::format("{}pads {}", text.empty() ? "" : "; ", point.uneven.front());
  if (point.uneven.size() > 1) text += fmt::format(" and {} more", point.uneven.size() - 1);
  return text;
}

bool HasStages(const MeshSweep& sweep) {
  return std::any_of(sweep.points.begin(), sweep.points.end(),
                     [](const SweepPoint& point) { return point.pipeline.stages > 0; });
}

std::vector<const SweepPoint*> ByTime(const MeshSweep& sweep) {
  std::vector<const SweepPoint*> order;
  for (const SweepPoint& point : sweep.points) order.push_back(&point);
  std::stable_sort(order.begin(), order.end(), [](const SweepPoint* a, const SweepPoint* b) {
    return std::pair(a->error.has_value(), a->step_time_s) <
           std::pair(b->error.has_value(), b->step_time_s);
  });
  return order;
}

}  // namespace

int64_t DevicesOf(const MeshShape& mesh) {
  int64_t devices = 1;
  for (const MeshAxis& axis : mesh) devices *= axis.size;
  return devices;
}

Expected<std::vector<MeshShape>> ParseMeshShapes(std::string_view text) {
  std::vector<MeshShape> shapes = {{}};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    Expected<AxisRange> range = ParseRange(text.substr(begin, end - begin));
    if (!range) return Fail(std::move(range.error()));
    std::vector<MeshShape> longer;
    for (const MeshShape& shape : shapes) {
      for (const MeshAxis& axis : shape) {
        if (axis.name == range->name) return Error(fmt::format("'{}' is named twice", axis.name));
      }
      for (const int64_t size : range->sizes) {
        if (size > TileAssignment::kMaxDevices / DevicesOf(shape)) break;
        longer.push_back(shape);
        longer.back().push_back({range->name, size});
      }
      if (longer.size() > kMaxShapes) {
        return Error(fmt::format("'{}' makes more than {} meshes", text, kMaxShapes));
      }
    }
    shapes = std::move(longer);
    begin = end + 1;
  }
  if (shapes.empty()) {
    return Error(
        fmt::format("'{}' has no mesh of at most {} devices", text, TileAssignment::kMaxDevices));
  }
  return shapes;
}

Expected<std::vector<int64_t>> ParseSizes(std::string_view text) {
  std::vector<int64_t> sizes;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    Expected<AxisRange> range = ParseRange(fmt::format("n={}", text.substr(begin, end - begin)));
    if (!range) {
      return Fail(MakeError("E-MESH-003", fmt::format("'{}' is no list of numbers", text),
                            "write 4, 1,3,6 or 1..8 (powers of two)"));
    }
    sizes.insert(sizes.end(), range->sizes.begin(), range->sizes.end());
    begin = end + 1;
  }
  return sizes;
}

Json MeshAsJson(const MeshShape& mesh) {
  Json axes{std::initializer_list<Json::Member>{}};
  for (const MeshAxis& axis : mesh) axes.Set(axis.name, axis.size);
  return axes;
}

int64_t DevicesOf(const SweepPoint& point) {
  return DevicesOf(point.mesh) * std::max<int64_t>(1, point.pipeline.stages);
}

std::vector<SweepPoint> PointsOf(const std::vector<MeshShape>& shapes,
                                 const std::vector<SweepPipeline>& pipelines) {
  std::vector<SweepPoint> points;
  for (const MeshShape& shape : shapes) {
    for (const SweepPipeline& pipeline : pipelines) {
      points.emplace_back();
      points.back().mesh = shape;
      points.back().pipeline = pipeline;
    }
  }
  return points;
}

std::vector<SweepPoint> SweepPoints(std::vector<SweepPoint> points, const EstimatePoint& estimate,
                                    int threads) {
  ParallelFor(points.size(), ThreadsOrCores(threads),
              [&](size_t index, size_t) { estimate(points[index]); });
  MarkPareto(points);
  return points;
}

std::string MeshSweepAsText(const MeshSweep& sweep, bool markdown) {
  const bool has_stages = HasStages(sweep);
  TextTable table{{{"", false}, {"mesh", false}}, {}};
  if (has_stages) {
    table.columns.insert(table.columns.end(),
                         {{"stages", true}, {"micro-batches", true}, {"schedule", false}});
  }
  table.columns.insert(
      table.columns.end(),
      {{"devices", true}, {"step time", true}, {"compute", true}, {"exposed", true}});
  if (has_stages) table.columns.push_back({"bubble", true});
  table.columns.insert(table.columns.end(), {{"MFU", true}, {"peak memory", true}, {"", false}});
  std::string failures;
  size_t optimal = 0;
  for (const SweepPoint* point : ByTime(sweep)) {
    if (point->error) {
      failures += fmt::format("{}{}: {}\n", markdown ? "- " : "  ", PointText(*point),
                              point->error->message);
      continue;
    }
    optimal += point->pareto ? 1 : 0;
    const SweepPipeline& pipeline = point->pipeline;
    std::vector<std::string> row = {point->pareto ? "*" : "", MeshText(point->mesh)};
    if (has_stages) {
      row.insert(row.end(), {fmt::format("{}", pipeline.stages),
                             fmt::format("{}", pipeline.microbatches), pipeline.schedule});
    }
    row.insert(row.end(),
               {fmt::format("{}", DevicesOf(*point)), HumanSeconds(point->step_time_s),
                HumanSeconds(point->compute_time_s), HumanSeconds(point->exposed_communication_s)});
    if (has_stages) row.push_back(fmt::format("{:.1f}%", 100 * point->bubble_share));
    row.insert(row.end(), {fmt::format("{:.1f}%", 100 * point->mfu),
                           HumanBytes(static_cast<double>(point->peak_bytes)), RemarkOn(*point)});
    table.rows.push_back(std::move(row));
  }
  const std::string_view what = has_stages ? "point" : "mesh";
  std::string text = fmt::format("{}: {} {}{} on {}", sweep.module, table.rows.size(), what,
                                 table.rows.size() == 1 ? ""
                                 : has_stages           ? "s"
                                                        : "es",
                                 sweep.chip);
  if (sweep.memory_limit_bytes > 0) {
    text += fmt::format(" of {}", HumanBytes(static_cast<double>(sweep.memory_limit_bytes)));
  }
  text += fmt::format("; * {} that fit{} and that no other beats in both time and memory\n{}",
                      optimal, optimal == 1 ? "s" : "", markdown ? "\n" : "");
  text += markdown ? TableAsMarkdown(table) : TableAsText(table);
  if (!failures.empty()) text += "\nno estimate:\n" + failures;
  return text;
}

std::string MeshSweepAsJson(const MeshSweep& sweep) {
  Json points = Json::Array(), failed = Json::Array();
  for (const SweepPoint& point : sweep.points) {
    Json row = {{"mesh", MeshAsJson(point.mesh)}};
    const SweepPipeline& pipeline = point.pipeline;
    if (pipeline.stages > 0) {
      row.Set("stages", pipeline.stages);
      row.Set("microbatches", pipeline.microbatches);
      row.Set("schedule", pipeline.schedule);
    }
    if (point.error) {
      row.Set("code", point.error->code);
      row.Set("message", point.error->message);
      failed.Append(std::move(row));
      continue;
    }
    row.Set("devices", DevicesOf(point));
    row.Set("step_time_s", point.step_time_s);
    row.Set("compute_time_s", point.compute_time_s);
    row.Set("exposed_communication_s", point.exposed_communication_s);
    if (pipeline.stages > 0) row.Set("bubble_share", point.bubble_share);
    row.Set("mfu", point.mfu);
    row.Set("peak_bytes", point.peak_bytes);
    row.Set("fits", point.fits);
    Json uneven = Json::Array();
    for (const std::string& name : point.uneven) uneven.Append(name);
    row.Set("uneven", std::move(uneven));
    row.Set("pareto", point.pareto);
    points.Append(std::move(row));
  }
  const Json document = {
      {"schema", "gshard.sweep/1"},  {"module", sweep.module},
      {"chip", sweep.chip},          {"memory_limit_bytes", sweep.memory_limit_bytes},
      {"points", std::move(points)}, {"failed", std::move(failed)}};
  return document.Text();
}

}  // namespace gshard
