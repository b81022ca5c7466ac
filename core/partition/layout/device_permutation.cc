#include "core/partition/layout/device_permutation.h"

#include "ir/diagnostic.h"
#include "ir/dims.h"

namespace gshard {
namespace {

constexpr int32_t kNobody = -1;

// coordinate = coordinate * size + place on the axis, at every position.
void AppendCoordinate(std::vector<int32_t>& coordinates, const DeviceAxis& axis) {
  auto size = static_cast<int32_t>(axis.size);
  auto stride = At(axis.stride);
  for (size_t position = 0; position < coordinates.size();) {
    for (int32_t place = 0; place < size; ++place) {
      for (size_t end = position + stride; position < end; ++position) {
        coordinates[position] = coordinates[position] * size + place;
      }
    }
  }
}

// The tile of every device, numbered over manual sub-axes and dims.
std::vector<int32_t> TileOfDevices(const MeshLayout& layout, int64_t device_count) {
  std::vector<int32_t> tile_at = CoordinatesOnAxes(layout.manual, device_count);
  for (const AxisList& axes : layout.dims) {
    for (const DeviceAxis& axis : axes) AppendCoordinate(tile_at, axis);
  }
  if (layout.order == nullptr) return tile_at;
  std::vector<int32_t> tile_of(tile_at.size());
  for (size_t device = 0; device < tile_of.size(); ++device) {
    tile_of[device] = tile_at[At(layout.order->positions[device])];
  }
  return tile_of;
}

// Pairs in order of their sources, from the receiver of each source.
std::vector<DevicePair> PairsOf(std::span<const int32_t> receiver_of) {
  std::vector<DevicePair> pairs;
  pairs.reserve(receiver_of.size());
  for (size_t source = 0; source < receiver_of.size(); ++source) {
    if (receiver_of[source] == kNobody) continue;
    pairs.push_back({static_cast<int64_t>(source), receiver_of[source]});
  }
  return pairs;
}

}  // namespace

std::vector<int32_t> CoordinatesOnAxes(AxisSpan axes, int64_t device_count) {
  std::vector<int32_t> coordinates(At(device_count), 0);
  for (const DeviceAxis& axis : axes) AppendCoordinate(coordinates, axis);
  return coordinates;
}

std::vector<DevicePair> PermutationBetween(const MeshLayout& from, const MeshLayout& to,
                                           int64_t device_count) {
  std::vector<int32_t> has = TileOfDevices(from, device_count);
  std::vector<int32_t> wants = TileOfDevices(to, device_count);
  // Holders of a tile that are not served by themselves, as a list through next_holder, lowest
  // device first.
  std::vector<int32_t> first_holder(has.size(), kNobody), next_holder(has.size(), kNobody);
  std::vector<int32_t> receiver_of(has.size(), kNobody);
  bool moves = false;
  for (size_t device = has.size(); device-- > 0;) {
    if (has[device] == wants[device]) {
      receiver_of[device] = static_cast<int32_t>(device);
      continue;
    }
    moves = true;
    int32_t& first = first_holder[At(has[device])];
    next_holder[device] = first;
    first = static_cast<int32_t>(device);
  }
  if (!moves) return {};
  for (size_t device = 0; device < has.size(); ++device) {
    if (has[device] == wants[device]) continue;
    int32_t& holder = first_holder[At(wants[device])];
    CheckInternal(holder != kNobody, "permute without a holder of a tile");
    receiver_of[At(holder)] = static_cast<int32_t>(device);
    holder = next_holder[At(holder)];
  }
  return PairsOf(receiver_of);
}

std::vector<DevicePair> PermutationAlong(AxisSpan axes, std::span<const int64_t> source_of,
                                         const DeviceOrder* order, int64_t device_count) {
  // What a coordinate adds to a position.
  std::vector<int64_t> offset_of(source_of.size(), 0);
  for (size_t coordinate = 0; coordinate < offset_of.size(); ++coordinate) {
    auto rest = static_cast<int64_t>(coordinate);
    for (size_t i = axes.size(); i-- > 0;) {
      offset_of[coordinate] += rest % axes[i].size * axes[i].stride;
      rest /= axes[i].size;
    }
  }
  std::vector<int32_t> coordinate_at = CoordinatesOnAxes(axes, device_count);
  std::vector<int32_t> receiver_of(coordinate_at.size(), kNobody);
  for (size_t position = 0; position < coordinate_at.size(); ++position) {
    size_t coordinate = At(coordinate_at[position]);
    if (source_of[coordinate] < 0) continue;
    int64_t source = static_cast<int64_t>(position) - offset_of[coordinate] +
                     offset_of[At(source_of[coordinate])];
    if (order == nullptr) {
      receiver_of[At(source)] = static_cast<int32_t>(position);
    } else {
      receiver_of[At(order->devices[At(source)])] = static_cast<int32_t>(order->devices[position]);
    }
  }
  return PairsOf(receiver_of);
}

}  // namespace gshard
