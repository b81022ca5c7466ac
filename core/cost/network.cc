// Collective times on a network. See network.h; the formulas: docs/cost.md, "Collectives".

#include "core/cost/network.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace gshard {
namespace {

int64_t ExtentOf(std::span<const NetworkSegment> segments) {
  int64_t extent = 1;
  for (const NetworkSegment& segment : segments) extent *= segment.extent;
  return extent;
}

double RoundsOf(int64_t extent) {  // of a tree over a switch
  double rounds = 0;
  for (int64_t reached = 1; reached < extent; reached *= 2) ++rounds;
  return rounds;
}

}  // namespace

std::vector<NetworkSegment> Network::SegmentsOf(std::string_view axis) const {
  size_t open = axis.rfind(":(");
  std::string_view name = axis.substr(0, open);
  auto place = std::find_if(axes_.begin(), axes_.end(),
                            [&](const AxisPlace& candidate) { return candidate.name == name; });
  if (place == axes_.end()) return {};
  if (open == std::string_view::npos) return place->segments;
  // The sub-axis covers the axis' coordinates 0, lowest, 2 lowest, .. below limit.
  int64_t pre = 1, size = 1;
  size_t close = axis.find(')', open);
  if (close == std::string_view::npos) return {};
  std::from_chars(axis.data() + open + 2, axis.data() + close, pre);
  std::from_chars(axis.data() + close + 1, axis.data() + axis.size(), size);
  if (pre < 1 || size < 1) return {};
  const int64_t lowest = std::max<int64_t>(1, place->size / (pre * size));
  const int64_t limit = lowest * size;
  std::vector<NetworkSegment> segments;
  int64_t run = 1;
  for (size_t i = place->segments.size(); i-- > 0;) {
    const NetworkSegment& whole = place->segments[i];
    int64_t from = std::max(run, lowest), to = std::min(run * whole.extent, limit);
    if (to > from)
      segments.insert(segments.begin(), {whole.dim, to / from, whole.stride * (from / run)});
    run *= whole.extent;
  }
  return segments;
}

std::vector<NetworkSegment> Network::SegmentsOf(std::span<const std::string> axes) const {
  std::vector<NetworkSegment> segments;
  for (const std::string& axis : axes) {
    for (const NetworkSegment& segment : SegmentsOf(axis)) {
      // Two axes on one dim: neighbours join, so that together they may be a whole ring.
      auto same = std::find_if(segments.begin(), segments.end(),
                               [&](const NetworkSegment& s) { return s.dim == segment.dim; });
      if (same != segments.end()) {
        same->extent *= segment.extent;
        same->stride = std::min(same->stride, segment.stride);
      } else {
        segments.push_back(segment);
      }
    }
  }
  return segments;
}

std::vector<NetworkSegment> Network::AllSegments() const {
  std::vector<NetworkSegment> segments;
  for (size_t i = 0; i < dims_.size(); ++i) segments.push_back({i, dims_[i].extent, 1});
  return segments;
}

double Network::DevicesPerChip() const {
  double devices = 1;
  for (const NetworkDim& dim : dims_) {
    if (dim.kind == NetworkDim::Kind::kCore) devices *= static_cast<double>(dim.extent);
  }
  return devices;
}

// Bytes a second that a device takes in along a torus segment while all of its group do. On a ring
// both directions carry data, for each of a chip's devices its own. A line is a ring too, there and
// back: over one of a chip's devices out and over the other home if the group has both, else
// over every other chip, once for each device of the chip. The links between the members of a
// strided segment carry other groups as well.
double Network::RingRate(const NetworkSegment& segment, std::span<const NetworkSegment> all) const {
  const NetworkDim& dim = dims_[segment.dim];
  double devices = DevicesPerChip();
  const double rate = dim.bytes_per_s / static_cast<double>(segment.stride);
  if (dim.wraps && segment.extent * segment.stride == dim.extent) return 2 * rate / devices;
  for (const NetworkSegment& other : all) {
    if (dims_[other.dim].kind == NetworkDim::Kind::kCore) {
      devices /= static_cast<double>(other.extent);
    }
  }
  return rate / devices;
}

// All-gather or reduce-scatter of `full_bytes`: every device takes in (n-1)/n of them, over all
// torus dims at once. Over switches NCCL's rings visit a node's devices one after the other and
// leave it once: all bytes cross each switch, shared by the node's links to it.
CollectiveTime Network::GatherTime(double full_bytes, const CollectiveDemand& demand) const {
  const double n = static_cast<double>(demand.group_size);
  double torus_rate = 0, latency = 0, slowest = 0, inside = 1;
  for (const NetworkSegment& segment : demand.segments) {
    const NetworkDim& dim = dims_[segment.dim];
    const double extent = static_cast<double>(segment.extent);
    if (dim.kind == NetworkDim::Kind::kTorus) {
      torus_rate += RingRate(segment, demand.segments);
      latency += dim.latency_s * (dim.wraps ? std::ceil((extent - 1) / 2) : extent - 1);
      inside *= extent;
    } else if (dim.kind == NetworkDim::Kind::kCore) {
      latency += dim.latency_s;
      inside *= extent;
    }
  }
  if (torus_rate > 0) slowest = full_bytes * (n - 1) / n / torus_rate;
  if (torus_rate == 0 && inside > 1)
    slowest = full_bytes * (inside - 1) / inside / on_chip_bytes_per_s_;
  for (const NetworkSegment& segment : demand.segments) {
    const NetworkDim& dim = dims_[segment.dim];
    if (dim.kind != NetworkDim::Kind::kSwitch) continue;
    const double extent = static_cast<double>(segment.extent);
    const double bytes = full_bytes * (n - 1) / n / inside;
    slowest = std::max(slowest, bytes / dim.bytes_per_s);
    latency += dim.latency_s * RoundsOf(segment.extent);
    inside *= extent;
  }
  return {slowest + latency, "ring"};
}

CollectiveTime Network::AllReduceTime(const CollectiveDemand& demand) const {
  CollectiveTime best = GatherTime(demand.local_bytes, demand);
  best.seconds *= 2;
  // Small ones: along one dim after the other everybody sends all it has to all and adds up.
  double seconds = 0;
  for (const NetworkSegment& segment : demand.segments) {
    const NetworkDim& dim = dims_[segment.dim];
    const double extent = static_cast<double>(segment.extent);
    const double received = demand.local_bytes * (extent - 1);
    if (dim.kind == NetworkDim::Kind::kTorus) {
      double hops = dim.wraps ? std::floor(extent / 2) : extent - 1;
      seconds += hops * dim.latency_s + received / RingRate(segment, demand.segments);
    } else {
      double rate = dim.kind == NetworkDim::Kind::kCore ? on_chip_bytes_per_s_ : dim.bytes_per_s;
      // A tree halves the partners each round instead.
      double rounds = RoundsOf(segment.extent);
      seconds += std::min(dim.latency_s + received / rate,
                          rounds * (dim.latency_s + demand.local_bytes / rate));
    }
  }
  if (seconds < best.seconds) best = {seconds, "one-shot"};
  return best;
}

// Half of the data crosses the middle of every dim, over two links each way of a ring, one of a
// line.
CollectiveTime Network::AllToAllTime(const CollectiveDemand& demand) const {
  double slowest = 0, latency = 0, inside = 1;
  const double n = static_cast<double>(demand.group_size);
  for (const NetworkSegment& segment : demand.segments) {
    const NetworkDim& dim = dims_[segment.dim];
    const double extent = static_cast<double>(segment.extent);
    double seconds = 0;
    switch (dim.kind) {
      case NetworkDim::Kind::kTorus: {
        bool is_ring =
            dim.wraps && dim.all_to_all_wraps && segment.extent * segment.stride == dim.extent;
        double crossing = demand.local_bytes * DevicesPerChip() * extent *
                          static_cast<double>(segment.stride) / (is_ring ? 8 : 4);
        seconds = crossing / dim.bytes_per_s;
        latency += dim.latency_s * (is_ring ? std::floor(extent / 2) : extent - 1);
        break;
      }
      case NetworkDim::Kind::kCore:
        seconds = demand.local_bytes * (extent - 1) / n / on_chip_bytes_per_s_;
        latency += dim.latency_s;
        break;
      case NetworkDim::Kind::kSwitch:
        seconds = demand.local_bytes * (inside == 1 ? (extent - 1) / n : (extent - 1) / extent) /
                  dim.bytes_per_s;
        latency += dim.latency_s;
        break;
    }
    slowest = std::max(slowest, seconds);
    inside *= extent;
  }
  return {slowest + latency, "bisection"};
}

CollectiveTime Network::PermuteTime(const CollectiveDemand& demand) const {
  double slowest = 0;
  for (const NetworkSegment& segment : demand.segments) {
    const NetworkDim& dim = dims_[segment.dim];
    double rate = dim.kind == NetworkDim::Kind::kCore ? on_chip_bytes_per_s_ : dim.bytes_per_s;
    if (dim.kind == NetworkDim::Kind::kTorus) {
      rate /= DevicesPerChip() * static_cast<double>(segment.stride);
    }
    slowest = std::max(slowest, demand.local_bytes / rate + dim.latency_s);
  }
  return {slowest, "neighbour"};
}

CollectiveTime Network::TimeOf(const CollectiveDemand& demand) const {
  if (demand.group_size <= 1 || ExtentOf(demand.segments) <= 1) return {};
  CollectiveDemand inner_first = demand;
  std::erase_if(inner_first.segments, [](const NetworkSegment& s) { return s.extent == 1; });
  // dims_ stand outermost first.
  std::stable_sort(inner_first.segments.begin(), inner_first.segments.end(),
                   [](const auto& a, const auto& b) { return a.dim > b.dim; });
  CollectiveTime time;
  const double n = static_cast<double>(demand.group_size);
  if (demand.kind == "all-reduce") {
    time = AllReduceTime(inner_first);
  } else if (demand.kind == "all-gather") {
    time = GatherTime(demand.local_bytes * n, inner_first);
  } else if (demand.kind == "reduce-scatter" || demand.kind == "collective-broadcast") {
    time = GatherTime(demand.local_bytes, inner_first);
  } else if (demand.kind == "collective-permute") {
    time = PermuteTime(inner_first);
  } else {
    time = AllToAllTime(inner_first);
  }
  time.seconds += launch_s_;
  return time;
}

}  // namespace gshard
