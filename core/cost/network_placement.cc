// Lays mesh axes on a chip's network: Network::Make. See network.h.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/cost/network.h"
#include "ir/parser_errors.h"

namespace gshard {
namespace {

constexpr std::string_view kTorusNames[] = {"x", "y", "z"};

// A choice of dims, outermost first, and what of them each axis takes.
struct Placement {
  std::vector<NetworkDim> dims;
  std::vector<std::vector<NetworkSegment>> segments;  // by axis, major to minor
  // Worse in this order: dims that several axes share, sum of the extents (long slices).
  std::pair<int64_t, int64_t> badness;
};

struct Request {
  std::string name;
  int64_t size = 1;
  std::vector<std::string> dims;  // that it is bound to, major first; empty: any
};

int64_t LargestDivisorUpTo(int64_t n, int64_t limit) {
  for (int64_t d = std::min(n, limit); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

// All ways to write `chips` as a product of extents, each within `limits`.
void ForEachShape(int64_t chips, std::span<const int64_t> limits, std::vector<int64_t>& shape,
                  auto&& visit) {
  if (limits.size() == 1) {
    if (chips > limits[0]) return;
    shape.push_back(chips);
    visit(shape);
    shape.pop_back();
    return;
  }
  for (int64_t d = 1; d <= std::min(chips, limits[0]); ++d) {
    if (chips % d != 0) continue;
    shape.push_back(d);
    ForEachShape(chips / d, limits.subspan(1), shape, visit);
    shape.pop_back();
  }
}

// Gives each axis parts of the dims, innermost axis and innermost dim first; false if an axis does
// not fit where it is bound to.
bool Fill(std::span<const Request> axes, std::span<const size_t> order, bool skip_core_first,
          Placement& placement) {
  std::vector<int64_t> left, used(placement.dims.size(), 1);
  for (const NetworkDim& dim : placement.dims) left.push_back(dim.extent);
  placement.segments.assign(axes.size(), {});
  bool skip_core = skip_core_first;
  for (size_t axis : order) {
    const Request& request = axes[axis];
    int64_t rest = request.size;
    auto take = [&](size_t dim) {
      int64_t part = std::gcd(rest, left[dim]);
      if (part == 1) return;
      placement.segments[axis].insert(placement.segments[axis].begin(), {dim, part, used[dim]});
      used[dim] *= part;
      left[dim] /= part;
      rest /= part;
    };
    for (size_t dim = placement.dims.size(); dim-- > 0 && rest > 1;) {
      const NetworkDim& candidate = placement.dims[dim];
      if (!request.dims.empty() && std::find(request.dims.begin(), request.dims.end(),
                                             candidate.name) == request.dims.end()) {
        continue;
      }
      if (skip_core && request.dims.empty() && candidate.kind == NetworkDim::Kind::kCore) continue;
      take(dim);
    }
    if (skip_core && request.dims.empty()) {
      skip_core = false;
    }
    if (rest > 1) return false;
  }
  std::vector<int64_t> takers(placement.dims.size());
  for (const auto& segments : placement.segments) {
    for (const NetworkSegment& segment : segments) ++takers[segment.dim];
  }
  placement.badness = {0, 0};
  for (size_t dim = 0; dim < takers.size(); ++dim) {
    placement.badness.first += std::max<int64_t>(0, takers[dim] - 1);
    placement.badness.second += placement.dims[dim].extent;
  }
  return true;
}

NetworkDim SwitchDim(const NetworkLevel& level, int64_t extent) {
  return {NetworkDim::Kind::kSwitch,
          level.name,
          extent,
          false,
          level.bytes_per_s * level.efficiency,
          level.latency_s};
}

// Tries every slice shape and, with several devices a chip, every axis order that matters.
std::optional<Placement> BestPlacement(const Chip& chip, int64_t devices,
                                       std::span<const Request> axes) {
  // Bound axes choose first, then the others from the innermost on.
  std::vector<size_t> order;
  for (bool bound : {true, false}) {
    for (size_t i = axes.size(); i-- > 0;) {
      if (axes[i].dims.empty() != bound) order.push_back(i);
    }
  }
  std::vector<NetworkDim> inner;  // innermost first
  const NetworkLevel* torus = nullptr;
  int64_t rest = devices;
  if (chip.devices_per_chip > 1 && rest % chip.devices_per_chip == 0) {
    double latency = chip.network.empty() ? 0 : chip.network[0].latency_s;
    inner.push_back({NetworkDim::Kind::kCore, "core", chip.devices_per_chip, false, 0, latency});
    rest /= chip.devices_per_chip;
  }
  std::vector<NetworkDim> outer;
  int64_t torus_chips = 1;
  std::vector<int64_t> limits;
  for (const NetworkLevel& level : chip.network) {
    if (level.kind == NetworkLevel::Kind::kTorus) {
      torus = &level;
      limits = level.extents;
      if (limits.empty()) {  // a ring for every mesh axis
        for (const Request& axis : axes) limits.push_back(axis.size);
      }
      int64_t most = 1;
      for (int64_t extent : limits) most *= extent;
      torus_chips = LargestDivisorUpTo(rest, most);
      rest /= torus_chips;
      continue;
    }
    const bool is_last = &level == &chip.network.back();
    int64_t extent = level.devices == 0 || is_last ? rest : LargestDivisorUpTo(rest, level.devices);
    rest /= extent;
    if (extent > 1) outer.push_back(SwitchDim(level, extent));
  }
  if (torus != nullptr && rest > 1) torus_chips *= rest;  // more than a pod: as if it were larger

  std::optional<Placement> best;
  auto consider = [&](std::span<const int64_t> shape) {
    Placement placement;
    placement.dims.assign(outer.rbegin(), outer.rend());
    for (size_t i = 0; i < shape.size(); ++i) {
      bool wraps = torus->wrap_multiple > 0 && shape[i] > 1 && shape[i] % torus->wrap_multiple == 0;
      placement.dims.push_back({NetworkDim::Kind::kTorus,
                                i < 3 ? std::string(kTorusNames[i]) : fmt::format("dim{}", i),
                                shape[i], wraps, torus->bytes_per_s * torus->efficiency,
                                torus->latency_s, torus->all_to_all_wraps});
    }
    placement.dims.insert(placement.dims.end(), inner.begin(), inner.end());
    for (bool skip_core : {false, true}) {
      Placement candidate = placement;
      if (!Fill(axes, order, skip_core, candidate)) continue;
      if (!best || candidate.badness < best->badness) best = std::move(candidate);
    }
  };
  if (torus == nullptr) {
    consider({});
  } else {
    std::vector<int64_t> shape;
    ForEachShape(torus_chips, limits, shape, consider);
    if (!best) {  // no slice of the pod has this many: one long line
      consider(std::vector<int64_t>{torus_chips});
    }
  }
  return best;
}

std::vector<std::string> SplitAtPlus(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t plus = std::min(text.find('+'), text.size());
    parts.emplace_back(text.substr(0, plus));
    text.remove_prefix(std::min(plus + 1, text.size()));
  }
  return parts;
}

}  // namespace

Expected<Network> Network::Make(const Chip& chip, int64_t devices, const Mesh* mesh,
                                const std::map<std::string, std::string>& mesh_map) {
  Network network;
  network.on_chip_bytes_per_s_ = chip.hbm_bytes_per_s / 2;  // written once, read once
  network.launch_s_ = chip.collective_launch_s;
  std::vector<Request> axes;
  if (mesh == nullptr) {
    axes.push_back({"", devices, {}});
  } else {
    for (const MeshAxis& axis : mesh->axes) axes.push_back({axis.name, axis.size, {}});
  }
  std::vector<std::string> known;
  for (const NetworkLevel& level : chip.network) {
    if (level.kind == NetworkLevel::Kind::kSwitch) known.push_back(level.name);
    size_t rank = level.extents.empty() ? axes.size() : level.extents.size();
    if (level.kind == NetworkLevel::Kind::kTorus) {
      for (size_t i = 0; i < std::min<size_t>(3, rank); ++i) known.emplace_back(kTorusNames[i]);
    }
  }
  if (chip.devices_per_chip > 1) known.emplace_back("core");
  for (const auto& [axis, text] : mesh_map) {
    auto at = std::find_if(axes.begin(), axes.end(),
                           [&, &name = axis](const Request& r) { return r.name == name; });
    if (at == axes.end()) {
      std::vector<std::string> names;
      for (const Request& request : axes) names.push_back(request.name);
      return Fail(MakeError(
          "E-COST-003", fmt::format("--mesh-map: the mesh has no axis '{}'", axis),
          DidYouMean(axis, names) + fmt::format("its axes are {}", fmt::join(names, ", "))));
    }
    at->dims = SplitAtPlus(text);
    for (const std::string& dim : at->dims) {
      if (std::find(known.begin(), known.end(), dim) != known.end()) continue;
      return Fail(MakeError(
          "E-COST-003", fmt::format("--mesh-map: {} has no network dim '{}'", chip.name, dim),
          DidYouMean(dim, known) + fmt::format("it has {}", fmt::join(known, ", "))));
    }
  }
  std::optional<Placement> best = BestPlacement(chip, devices, axes);
  if (!best) {
    return Fail(MakeError(
        "E-COST-003", fmt::format("--mesh-map: no slice of {} with {} devices has the axes there",
                                  chip.name, devices)));
  }
  network.dims_ = std::move(best->dims);
  for (size_t i = 0; i < axes.size(); ++i) {
    network.axes_.push_back({axes[i].name, axes[i].size, std::move(best->segments[i])});
  }
  return network;
}

std::string Network::Description() const {
  std::vector<std::string> axes, extents;
  for (const AxisPlace& axis : axes_) {
    std::vector<std::string> dims;
    for (const NetworkSegment& segment : axis.segments) {
      const NetworkDim& dim = dims_[segment.dim];
      dims.push_back(segment.extent == dim.extent ? dim.name
                                                  : fmt::format("{}:{}", dim.name, segment.extent));
    }
    if (dims.empty()) continue;
    axes.push_back(axis.name.empty() ? fmt::format("{}", fmt::join(dims, "+"))
                                     : fmt::format("{} -> {}", axis.name, fmt::join(dims, "+")));
  }
  for (const NetworkDim& dim : dims_) {
    if (dim.extent > 1) {
      extents.push_back(fmt::format("{}={}{}", dim.name, dim.extent, dim.wraps ? " (ring)" : ""));
    }
  }
  if (axes.empty() && extents.empty()) return "";  // one device
  return fmt::format("{}; {}", fmt::join(axes, ", "), fmt::join(extents, ", "));
}

}  // namespace gshard
