// See mesh_sweep.h.

#include "core/report/mesh_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>
#include <mutex>
#include <thread>

#include "core/json.h"
#include "core/report/quantity_text.h"
#include "core/report/table_text.h"
#include "core/transforms/annotate.h"

namespace gshard {
namespace {

constexpr size_t kMostShapes = 10'000;

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
    if (point.error) continue;
    point.pareto = std::none_of(points.begin(), points.end(), [&](const SweepPoint& other) {
      return !other.error && other.step_time_s <= point.step_time_s &&
             other.peak_bytes <= point.peak_bytes &&
             (other.step_time_s < point.step_time_s || other.peak_bytes < point.peak_bytes);
    });
  }
}

std::string MeshText(const MeshShape& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh) {
    if (!text.empty()) text += ',';
    text += fmt::format("{}={}", axis.name, axis.size);
  }
  return text;
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
      if (longer.size() > kMostShapes) {
        return Error(fmt::format("'{}' makes more than {} meshes", text, kMostShapes));
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

std::vector<SweepPoint> SweepMeshes(const std::vector<MeshShape>& shapes,
                                    const EstimatePoint& estimate, int threads) {
  std::vector<SweepPoint> points(shapes.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr thrown;
  auto work = [&] {
    for (size_t i = next++; i < points.size(); i = next++) {
      points[i].mesh = shapes[i];
      try {
        estimate(points[i]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!thrown) thrown = std::current_exception();
        next = points.size();
      }
    }
  };
  if (threads <= 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<std::jthread> workers;
  for (int i = 1; i < threads && static_cast<size_t>(i) < points.size(); ++i) {
    workers.emplace_back(work);
  }
  work();
  workers.clear();  // joins
  if (thrown) std::rethrow_exception(thrown);
  MarkPareto(points);
  return points;
}

std::string MeshSweepAsText(const MeshSweep& sweep, bool markdown) {
  TextTable table{{{"", false},
                   {"mesh", false},
                   {"devices", true},
                   {"step time", true},
                   {"compute", true},
                   {"exposed", true},
                   {"MFU", true},
                   {"peak memory", true},
                   {"", false}},
                  {}};
  std::string failures;
  size_t optimal = 0;
  for (const SweepPoint* point : ByTime(sweep)) {
    if (point->error) {
      failures += fmt::format("{}{}: {}\n", markdown ? "- " : "  ", MeshText(point->mesh),
                              point->error->message);
      continue;
    }
    optimal += point->pareto ? 1 : 0;
    table.rows.push_back(
        {point->pareto ? "*" : "", MeshText(point->mesh), fmt::format("{}", DevicesOf(point->mesh)),
         HumanSeconds(point->step_time_s), HumanSeconds(point->compute_time_s),
         HumanSeconds(point->exposed_communication_s), fmt::format("{:.1f}%", 100 * point->mfu),
         HumanBytes(static_cast<double>(point->peak_bytes)), point->fits ? "" : "does not fit"});
  }
  std::string text = fmt::format("{}: {} mesh{} on {}", sweep.module, table.rows.size(),
                                 table.rows.size() == 1 ? "" : "es", sweep.chip);
  if (sweep.memory_limit_bytes > 0) {
    text += fmt::format(" of {}", HumanBytes(static_cast<double>(sweep.memory_limit_bytes)));
  }
  text += fmt::format("; * {} that no other beats in both time and memory\n{}", optimal,
                      markdown ? "\n" : "");
  text += markdown ? TableAsMarkdown(table) : TableAsText(table);
  if (!failures.empty()) text += "\nno estimate:\n" + failures;
  return text;
}

std::string MeshSweepAsJson(const MeshSweep& sweep) {
  Json points = Json::Array(), failed = Json::Array();
  for (const SweepPoint& point : sweep.points) {
    Json mesh{std::initializer_list<Json::Member>{}};
    for (const MeshAxis& axis : point.mesh) mesh.Set(axis.name, axis.size);
    if (point.error) {
      failed.Append({{"mesh", std::move(mesh)},
                     {"code", point.error->code},
                     {"message", point.error->message}});
      continue;
    }
    points.Append({{"mesh", std::move(mesh)},
                   {"devices", DevicesOf(point.mesh)},
                   {"step_time_s", point.step_time_s},
                   {"compute_time_s", point.compute_time_s},
                   {"exposed_communication_s", point.exposed_communication_s},
                   {"mfu", point.mfu},
                   {"peak_bytes", point.peak_bytes},
                   {"fits", point.fits},
                   {"pareto", point.pareto}});
  }
  const Json document = {
      {"schema", "gshard.sweep/1"},  {"module", sweep.module},
      {"chip", sweep.chip},          {"memory_limit_bytes", sweep.memory_limit_bytes},
      {"points", std::move(points)}, {"failed", std::move(failed)}};
  return document.Text();
}

}  // namespace gshard
