// Replica groups spelled by mesh axes; SpelledByMesh is declared in ir/sharding_text.h.
#include <algorithm>

#include "ir/device_text.h"
#include "ir/named_sharding.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

// The part of a mesh axis that takes the most minor steps of `axis` of a device array.
std::optional<AxisRef> MinorPart(const Mesh& mesh, DeviceAxis axis) {
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const auto own = mesh.devices.AxesOfDim(static_cast<int64_t>(i));
    if (!own.has_value() || own->size() != 1) continue;
    const DeviceAxis& whole = (*own)[0];
    // The part starts `minor` steps above the axis' own stride.
    const int64_t minor = axis.stride / whole.stride;
    if (minor < 1 || axis.stride % whole.stride != 0 || minor >= whole.size ||
        whole.size % minor != 0) {
      continue;
    }
    const int64_t available = whole.size / minor;
    const int64_t size = std::min(axis.size, available);
    if (available % size != 0 || axis.size % size != 0) continue;
    return AxisRef{.axis = static_cast<int>(i), .pre_size = available / size, .size = size};
  }
  return std::nullopt;
}

// The parts of mesh axes that together step through `axis`, major first. False if no parts do.
bool PartsOf(const Mesh& mesh, DeviceAxis axis, std::vector<AxisRef>& parts) {
  std::vector<AxisRef> minor_first;
  while (axis.size > 1) {
    const std::optional<AxisRef> part = MinorPart(mesh, axis);
    if (!part.has_value()) return false;
    minor_first.push_back(*part);
    axis = {axis.size / part->size, axis.stride * part->size};
  }
  parts.insert(parts.end(), minor_first.rbegin(), minor_first.rend());
  return true;
}

}  // namespace

std::optional<ReplicaGroups> SpelledByMesh(const ReplicaGroups& groups, const Mesh& mesh) {
  const TileAssignment* tiles = groups.tiles();
  if (tiles == nullptr || tiles->device_count() != mesh.device_count()) return std::nullopt;
  const auto members = tiles->AxesOfDim(1);
  if (!members.has_value()) return std::nullopt;
  std::vector<AxisRef> parts;
  for (const DeviceAxis& axis : *members) {
    if (!PartsOf(mesh, axis, parts)) return std::nullopt;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!WhyAxisConflicts(mesh, std::span<const AxisRef>(parts).first(i), parts[i]).empty()) {
      return std::nullopt;
    }
  }
  if (parts.empty()) return std::nullopt;
  Canonicalise(mesh, parts);
  // Blocks of equal steps tile the devices in one way only: equal members make equal groups.
  TileAssignment along = GroupsAlong(mesh, parts);
  if (along.AxesOfDim(1) != members) return std::nullopt;
  ReplicaGroups named = ReplicaGroups::FromTiles(std::move(along));
  std::string text = "mesh";
  AppendMeshBody(text, mesh);
  text += ' ';
  AppendAxes(text, mesh, parts, ",");
  named.set_mesh_text(std::move(text));
  return named;
}

}  // namespace gshard
