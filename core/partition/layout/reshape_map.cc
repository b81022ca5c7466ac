#include "core/partition/layout/reshape_map.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <numeric>

#include "ir/hash.h"

namespace gshard {

std::vector<ReshapeSegment> Segments(Dims from, Dims to) {
  std::vector<ReshapeSegment> segments;
  size_t f = 0, t = 0;
  while (f < from.size() || t < to.size()) {
    ReshapeSegment segment{f, f, t, t};
    int64_t from_size = 1, to_size = 1;
    if (f < from.size()) from_size = from[f++];
    if (t < to.size()) to_size = to[t++];
    while (from_size != to_size) {
      if (from_size < to_size && f < from.size()) {
        from_size *= from[f++];
      } else if (to_size < from_size && t < to.size()) {
        to_size *= to[t++];
      } else {
        break;  // an empty array
      }
    }
    segment.from_end = f;
    segment.to_end = t;
    segments.push_back(segment);
  }
  return segments;
}

namespace {

// Sub-axes of `axes` (major first) such that their product divides `size`, and the rest.
AxisList LargestPrefixDividing(const AxisList& axes, int64_t size) {
  AxisList prefix;
  for (const DeviceAxis& axis : axes) {
    int64_t part = std::gcd(axis.size, size);
    if (part == 1) break;
    prefix.push_back({part, axis.stride * (axis.size / part)});
    size /= part;
    if (part != axis.size) break;
  }
  return prefix;
}

// The sub-axes that cut a run of dims, laid over another run of dims of the same total size:
// possible for the leading sub-axes, while every dim but the last one cut is cut completely.
void MapSegment(Dims from, const std::vector<AxisList>& from_axes, Dims to,
                std::vector<AxisList>& kept, std::vector<AxisList>& mapped) {
  kept.assign(from.size(), {});
  mapped.assign(to.size(), {});
  size_t t = 0;
  int64_t t_left = to.empty() ? 1 : to[0];  // uncut part of to[t]
  for (size_t f = 0; f < from.size(); ++f) {
    int64_t f_left = from[f];
    AxisList rest = from_axes[f];
    if (from.size() == 1 && to.size() == 1) {  // also uneven
      kept[0] = mapped[0] = rest;
      return;
    }
    while (!rest.empty()) {
      while (t < to.size() && t_left == 1) {
        if (++t < to.size()) t_left = to[t];
      }
      if (t == to.size()) return;
      AxisList part = LargestPrefixDividing(rest, std::gcd(f_left, t_left));
      int64_t size = AxesSize(part);
      if (size == 1) return;
      kept[f] = JoinedAxes(kept[f], part);
      mapped[t] = JoinedAxes(mapped[t], part);
      f_left /= size;
      t_left /= size;
      AxisList left;
      int64_t skip = size;
      for (const DeviceAxis& axis : rest) {
        int64_t taken = std::min(skip, axis.size);
        if (axis.size > taken) left.push_back({axis.size / taken, axis.stride});
        skip /= taken;
      }
      rest = std::move(left);
    }
    // What remains of this dim is minor to its sub-axes: it must be matched in full before the next
    // dim may be cut.
    if (f_left > 1) return;
  }
}

ReshapedLayouts MapLayout(MeshLayoutTable& layouts, Dims from, Dims to, const MeshLayout* layout) {
  std::vector<AxisList> kept(from.size()), mapped(to.size());
  for (const ReshapeSegment& segment : Segments(from, to)) {
    // Dims of size 1 hold no elements to cut: they are left out of the run.
    std::vector<size_t> from_dims, to_dims;
    std::vector<int64_t> from_sizes, to_sizes;
    std::vector<AxisList> from_axes;
    for (size_t d = segment.from_begin; d < segment.from_end; ++d) {
      if (from[d] == 1) continue;
      from_dims.push_back(d);
      from_sizes.push_back(from[d]);
      from_axes.push_back(layout->dims[d]);
    }
    for (size_t d = segment.to_begin; d < segment.to_end; ++d) {
      if (to[d] == 1) continue;
      to_dims.push_back(d);
      to_sizes.push_back(to[d]);
    }
    std::vector<AxisList> kept_part, mapped_part;
    MapSegment(from_sizes, from_axes, to_sizes, kept_part, mapped_part);
    for (size_t i = 0; i < from_dims.size(); ++i) kept[from_dims[i]] = kept_part[i];
    for (size_t i = 0; i < to_dims.size(); ++i) mapped[to_dims[i]] = mapped_part[i];
  }
  return {layouts.WithDims(layout, std::move(kept)), layouts.WithDims(layout, std::move(mapped))};
}

struct ReshapeKey {
  const Shape* from;
  const Shape* to;
  const MeshLayout* layout;
  bool operator==(const ReshapeKey&) const = default;
};

struct ReshapeKeyHash {
  size_t operator()(const ReshapeKey& key) const {
    return HashPointer(HashPointer(HashPointer(0, key.from), key.to), key.layout);
  }
};

}  // namespace

struct ReshapeMap::Impl {
  MeshLayoutTable& layouts;
  tsl::robin_map<ReshapeKey, std::unique_ptr<ReshapedLayouts>, ReshapeKeyHash> known;
};

ReshapeMap::ReshapeMap(MeshLayoutTable& layouts) : impl_(new Impl{layouts, {}}) {}
ReshapeMap::~ReshapeMap() = default;

const ReshapedLayouts& ReshapeMap::Map(const Shape* from, const Shape* to,
                                       const MeshLayout* layout) {
  ReshapeKey key{from->bare(), to->bare(), layout};
  auto found = impl_->known.find(key);
  if (found == impl_->known.end()) {
    ReshapedLayouts made = MapLayout(impl_->layouts, from->dims(), to->dims(), layout);
    found = impl_->known.emplace(key, std::make_unique<ReshapedLayouts>(made)).first;
  }
  return *found->second;
}

}  // namespace gshard
