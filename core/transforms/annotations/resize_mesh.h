// Gives a mesh other sizes: what was split along an axis is split along the same axis of the other
// mesh. `{devices=[4,1,2]<=[8] last_tile_dim_replicate}`, [data, _] on data=4,model=2, becomes
// [data, _] on data=16,model=8. Sweeps over mesh shapes and `annotate --mesh` rest on it.
#ifndef GSHARD_CORE_TRANSFORMS_ANNOTATIONS_RESIZE_MESH_H_
#define GSHARD_CORE_TRANSFORMS_ANNOTATIONS_RESIZE_MESH_H_

#include <span>

#include "ir/mesh.h"
#include "ir/module.h"

namespace gshard {

struct ResizeMeshOptions {
  // Only shardings that are written by the axes of `from`; else all that its axes can say, and the
  // others are errors.
  bool only_named = false;
};

// Axis i of `from` becomes axis axis_of[i] of `to`; -1: it is of size 1 and goes. Shapes are global
// and stay. The header's declaration of `from` and the number of partitions follow. Meshes belong
// to the module's context. Errors, located: a sharding along a part of an axis (E-ANNOTATE-009), or
// along no axes (E-ANNOTATE-013); a manual region, whose shapes are those of its mesh
// (E-ANNOTATE-014).
Expected<void> ResizeMesh(Module& module, const Mesh* from, const Mesh* to,
                          std::span<const int> axis_of, const ResizeMeshOptions& options = {});

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_ANNOTATIONS_RESIZE_MESH_H_
