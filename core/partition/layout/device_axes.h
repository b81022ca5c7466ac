// Arithmetic on lists of mesh axes: which part of a device number says what.
//
// A DeviceAxis {size, stride} is the sub-axis (device / stride) % size. Lists are major to minor;
// merged means that neighbours which continue each other are one axis. All functions cost the
// number of axes, never the number of devices.
#ifndef GSHARD_CORE_PARTITION_LAYOUT_DEVICE_AXES_H_
#define GSHARD_CORE_PARTITION_LAYOUT_DEVICE_AXES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/tile_assignment.h"

namespace gshard {

using AxisList = std::vector<DeviceAxis>;
using AxisSpan = std::span<const DeviceAxis>;

// The list of a dim that is not cut.
const AxisList& NoAxes();
// Number of combinations of sub-axes.
int64_t AxesSize(AxisSpan axes);
// No axis of size 1, and no neighbours that are one axis.
bool IsMerged(AxisSpan axes);
// Drops size 1, joins neighbours.
AxisList MergedAxes(AxisSpan axes);
// a followed by b, merged.
AxisList JoinedAxes(AxisSpan a, AxisSpan b);
// Mixed-radix number that the coordinates of `device` on the sub-axes form.
int64_t CoordinateOnAxes(AxisSpan axes, int64_t device);
// The device numbers' sub-axes that are in none of `used`, major first, merged. The axes of `used`
// must be disjoint sub-axes of one mixed-radix system of `device_count` devices.
AxisList ComplementAxes(AxisSpan used, int64_t device_count);
// By decreasing stride, merged: for lists whose order means nothing.
AxisList SortedAxes(AxisSpan axes);

// The coarsest sub-axes (major first) that every axis of `axes` is a run of; nothing if there are
// none: {2,3},{3,1} and {3,2},{2,1} cut 6 devices in ways that share no sub-axes.
std::optional<AxisList> CommonSubAxes(AxisSpan axes, int64_t device_count);
// Neighbours in a list of sub-axes, as indices.
struct SubAxisRun {
  struct Iterator {
    int index;
    int operator*() const { return index; }
    void operator++() { ++index; }
    bool operator!=(const Iterator& other) const { return index != other.index; }
  };
  int first = 0;
  int last = 0;  // exclusive
  Iterator begin() const { return {first}; }
  Iterator end() const { return {last}; }
};
// `axis` as the run of `sub_axes` (by decreasing stride) it consists of. They must refine it.
SubAxisRun SubAxesOf(AxisSpan sub_axes, const DeviceAxis& axis);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_LAYOUT_DEVICE_AXES_H_
