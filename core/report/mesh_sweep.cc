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
      return !other.error && other.fits && ComparedTime(other) <= ComparedTime(point) &&
             other.peak_bytes <= point.peak_bytes &&
             (ComparedTime(other) < ComparedTime(point) || other.peak_bytes < point.peak_bytes);
    });
  }
}

std::string PointText(const SweepPoint& point) {
  std::string text = MeshText(point.mesh);
  if (point.pipeline.stages > 0) {
    text +=
        fmt::format("{}stages={} microbatches={} {}", text.empty() ? "" : " ",
                    point.pipeline.stages, point.pipeline.microbatches, point.pipeline.schedule);
  }
  if (point.batch > 0) text += fmt::format("{}batch={}", text.empty() ? "" : " ", point.batch);
  return text;
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

bool HasBatches(const MeshSweep& sweep) {
  return std::any_of(sweep.points.begin(), sweep.points.end(),
                     [](const SweepPoint& point) { return point.batch > 0; });
}

std::vector<const SweepPoint*> ByTime(const MeshSweep& sweep) {
  std::vector<const SweepPoint*> order;
  for (const SweepPoint& point : sweep.points) order.push_back(&point);
  std::stable_sort(order.begin(), order.end(), [](const SweepPoint* a, const SweepPoint* b) {
    return std::pair(a->error.has_value(), ComparedTime(*a)) <
           std::pair(b->error.has_value(), ComparedTime(*b));
  });
  return order;
}

// Of one example, which is often less than a microsecond.
std::string ExampleTime(double seconds) {
  return seconds < 1e-5 ? fmt::format("{:.1f} ns", 1e9 * seconds) : HumanSeconds(seconds);
}

std::vector<TextTable::Column> ColumnsOf(const MeshSweep& sweep) {
  std::vector<TextTable::Column> columns = {{"", false}, {"mesh", false}};
  const auto append = [&](std::initializer_list<TextTable::Column> more) {
    columns.insert(columns.end(), more);
  };
  if (HasStages(sweep)) append({{"stages", true}, {"micro-batches", true}, {"schedule", false}});
  if (HasBatches(sweep)) append({{"batch", true}});
  append({{"devices", true}, {"step time", true}});
  if (HasBatches(sweep)) append({{"per example", true}});
  append({{"compute", true}, {"exposed", true}});
  if (HasStages(sweep)) append({{"bubble", true}});
  append({{"MFU", true}, {"peak memory", true}, {"", false}});
  return columns;
}

std::vector<std::string> RowOf(const MeshSweep& sweep, const SweepPoint& point) {
  const SweepPipeline& pipeline = point.pipeline;
  const bool has_stages = HasStages(sweep), has_batches = HasBatches(sweep);
  std::vector<std::string> row = {point.pareto ? "*" : "", MeshText(point.mesh)};
  const auto append = [&](std::string cell) { row.push_back(std::move(cell)); };
  if (has_stages) {
    append(fmt::format("{}", pipeline.stages));
    append(fmt::format("{}", pipeline.microbatches));
    append(pipeline.schedule);
  }
  if (has_batches) append(fmt::format("{}", point.batch));
  append(fmt::format("{}", DevicesOf(point)));
  append(HumanSeconds(point.step_time_s));
  if (has_batches) append(ExampleTime(ComparedTime(point)));
  append(HumanSeconds(point.compute_time_s));
  append(HumanSeconds(point.exposed_communication_s));
  if (has_stages) append(fmt::format("{:.1f}%", 100 * point.bubble_share));
  append(fmt::format("{:.1f}%", 100 * point.mfu));
  append(HumanBytes(static_cast<double>(point.peak_bytes)));
  append(RemarkOn(point));
  return row;
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

double ComparedTime(const SweepPoint& point) {
  return point.batch > 0 ? point.step_time_s / static_cast<double>(point.batch) : point.step_time_s;
}

std::vector<SweepPoint> PointsOf(const std::vector<MeshShape>& shapes,
                                 const std::vector<SweepPipeline>& pipelines,
                                 const std::vector<int64_t>& batches) {
  std::vector<SweepPoint> points;
  for (const MeshShape& shape : shapes) {
    for (const SweepPipeline& pipeline : pipelines) {
      for (const int64_t batch : batches) {
        points.emplace_back();
        points.back().mesh = shape;
        points.back().pipeline = pipeline;
        points.back().batch = batch;
      }
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
  TextTable table{ColumnsOf(sweep), {}};
  std::string failures;
  size_t optimal = 0;
  for (const SweepPoint* point : ByTime(sweep)) {
    if (point->error) {
      const Diagnostic& error = *point->error;
      failures +=
          fmt::format("{}{}: {}{}\n", markdown ? "- " : "  ", PointText(*point), error.message,
                      error.line > 0 ? fmt::format(" (line {})", error.line) : "");
      continue;
    }
    optimal += point->pareto ? 1 : 0;
    table.rows.push_back(RowOf(sweep, *point));
  }
  const bool has_batches = HasBatches(sweep);
  const std::string_view what = HasStages(sweep) || has_batches ? "point" : "mesh";
  std::string text = fmt::format("{}: {} {}{} on {}", sweep.module, table.rows.size(), what,
                                 table.rows.size() == 1 ? ""
                                 : what == "point"      ? "s"
                                                        : "es",
                                 sweep.chip);
  if (sweep.memory_limit_bytes > 0) {
    text += fmt::format(" of {}", HumanBytes(static_cast<double>(sweep.memory_limit_bytes)));
  }
  text += fmt::format("; * {} that fit{} and that no other beats in both time{} and memory\n{}",
                      optimal, optimal == 1 ? "s" : "", has_batches ? " per example" : "",
                      markdown ? "\n" : "");
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
    if (point.batch > 0) row.Set("batch", point.batch);
    if (point.error) {
      row.Set("code", point.error->code);
      row.Set("message", point.error->message);
      if (point.error->line > 0) row.Set("line", int64_t{point.error->line});
      failed.Append(std::move(row));
      continue;
    }
    row.Set("devices", DevicesOf(point));
    row.Set("step_time_s", point.step_time_s);
    if (point.batch > 0) row.Set("step_time_per_example_s", ComparedTime(point));
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
