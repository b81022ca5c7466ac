// Named meshes: an array of devices whose dims have names (docs/sharding.md, "Named shardings").
// Interned by a Context; compared by pointer; immutable.
#ifndef GSHARD_IR_MESH_H_
#define GSHARD_IR_MESH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/tile_assignment.h"

namespace gshard {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};

struct Mesh {
  std::string name;  // of sugar meshes ("pod"); empty for meshes written inside a sharding
  std::vector<MeshAxis> axes;
  TileAssignment devices;  // dims = axis sizes
  // device_ids=([4,2]T(1,0)) as written, so that it prints back; empty for the plain iota.
  std::string device_ids_text;

  int64_t device_count() const { return devices.device_count(); }
  // Index of the axis called `name`, or -1.
  int FindAxis(std::string_view axis_name) const;
};

// 'a' or the sub-axis 'a':(pre)size, which takes the middle part of `a` seen as (pre, size, rest).
struct AxisRef {
  int axis = 0;          // index into Mesh::axes
  int64_t pre_size = 1;  // product of what is major to the part
  int64_t size = 1;      // of the part
  bool operator==(const AxisRef&) const = default;
};

// "'data'" or "'data':(2)4".
std::string ToString(const Mesh& mesh, const AxisRef& ref);

}  // namespace gshard

#endif  // GSHARD_IR_MESH_H_
