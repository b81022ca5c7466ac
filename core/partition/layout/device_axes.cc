#include "core/partition/layout/device_axes.h"

#include <algorithm>

#include "ir/diagnostic.h"

namespace gshard {

const AxisList& NoAxes() {
  static const AxisList kNone;
  return kNone;
}

int64_t AxesSize(AxisSpan axes) {
  int64_t size = 1;
  for (const DeviceAxis& axis : axes) size *= axis.size;
  return size;
}

namespace {

void AppendMerged(AxisList& list, const DeviceAxis& axis) {
  if (axis.size == 1) return;
  if (!list.empty() && list.back().stride == axis.size * axis.stride) {
    list.back() = {list.back().size * axis.size, axis.stride};
  } else {
    list.push_back(axis);
  }
}

}  // namespace

bool IsMerged(AxisSpan axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].size == 1) return false;
    if (i > 0 && axes[i - 1].stride == axes[i].size * axes[i].stride) return false;
  }
  return true;
}

AxisList MergedAxes(AxisSpan axes) {
  AxisList merged;
  for (const DeviceAxis& axis : axes) AppendMerged(merged, axis);
  return merged;
}

AxisList JoinedAxes(AxisSpan a, AxisSpan b) {
  AxisList joined(a.begin(), a.end());
  for (const DeviceAxis& axis : b) AppendMerged(joined, axis);
  return joined;
}

int64_t CoordinateOnAxes(AxisSpan axes, int64_t device) {
  int64_t coordinate = 0;
  for (const DeviceAxis& axis : axes) {
    coordinate = coordinate * axis.size + (device / axis.stride) % axis.size;
  }
  return coordinate;
}

AxisList ComplementAxes(AxisSpan used, int64_t device_count) {
  std::vector<DeviceAxis> sorted(used.begin(), used.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const DeviceAxis& a, const DeviceAxis& b) { return a.stride < b.stride; });
  AxisList gaps;
  int64_t reached = 1;
  for (const DeviceAxis& axis : sorted) {
    CheckInternal(axis.stride % reached == 0, "axes that are not sub-axes of one number system");
    gaps.push_back({axis.stride / reached, reached});
    reached = axis.stride * axis.size;
  }
  CheckInternal(device_count % reached == 0, "axes beyond the device count");
  gaps.push_back({device_count / reached, reached});
  std::reverse(gaps.begin(), gaps.end());
  return MergedAxes(gaps);
}

AxisList SortedAxes(AxisSpan axes) {
  AxisList sorted(axes.begin(), axes.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const DeviceAxis& a, const DeviceAxis& b) { return a.stride > b.stride; });
  return MergedAxes(sorted);
}

std::optional<AxisList> CommonSubAxes(AxisSpan axes, int64_t device_count) {
  std::vector<int64_t> cuts = {1, device_count};
  for (const DeviceAxis& axis : axes) {
    cuts.push_back(axis.stride);
    cuts.push_back(axis.stride * axis.size);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  AxisList sub_axes;
  for (size_t i = cuts.size() - 1; i > 0; --i) {
    if (cuts[i] % cuts[i - 1] != 0) return std::nullopt;
    sub_axes.push_back({cuts[i] / cuts[i - 1], cuts[i - 1]});
  }
  return sub_axes;
}

SubAxisRun SubAxesOf(AxisSpan sub_axes, const DeviceAxis& axis) {
  size_t first = 0;
  while (first < sub_axes.size() && sub_axes[first].stride >= axis.stride * axis.size) ++first;
  size_t last = first;
  while (last < sub_axes.size() && sub_axes[last].stride >= axis.stride) ++last;
  return {static_cast<int>(first), static_cast<int>(last)};
}

}  // namespace gshard
