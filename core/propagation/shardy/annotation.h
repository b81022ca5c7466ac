// What the text says of a value's sharding, by axes of the mesh.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_ANNOTATION_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_ANNOTATION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/propagation/shardy/tensor.h"
#include "ir/context.h"
#include "ir/module.h"
#include "ir/shardy_text.h"

namespace gshard::shardy {

// The header's xla.sdy.meshes; empty if it has none.
std::string ShardyMeshesText(const Module& module);

// What a sharding says by axes of the mesh, whatever the value.
struct SpelledSharding {
  bool has_spelling = false;
  std::vector<Dim> dims;  // of a tensor's others no axis cuts them, and they are closed
  Axes replicated, unreduced;
};

// Shardings of the text that bear no marks, by how they are spelled.
using ShardingsBySpelling = std::unordered_map<const NamedSharding*, const Sharding*>;

// What reading needs to know of the module; outlives no change of it.
struct AnnotationReader {
  AnnotationReader(Context& context_in, AxisTable& axes_in, const Mesh* mesh_in,
                   ShardyMeshes meshes_in)
      : context(context_in), axes(axes_in), mesh(mesh_in), meshes(std::move(meshes_in)) {}
  Context& context;
  AxisTable& axes;
  const Mesh* mesh;     // over all devices
  ShardyMeshes meshes;  // those that attributes name
  // What attributes xla.sdy.sharding say, by the frontend attributes that they stand in: many
  // instructions have the same.
  mutable std::unordered_map<std::string_view, std::vector<ShardySharding>> read;
  // Shardings spelled by axes of `mesh`; null: there is no spelling.
  mutable std::unordered_map<const Sharding*, const NamedSharding*> named;
  mutable std::unordered_map<const Sharding*, SpelledSharding> spelled;
  mutable ShardingsBySpelling by_spelling;
};

// Gives `tensor` the sharding that leaf `leaf` of `x` carries: its axes, and from the frontend
// attribute xla.sdy.sharding or unspecified_dims which dims are open and their priorities. Dims are
// closed where nothing says otherwise; axes of size 1 are left out. False, and the tensor is as it
// was, if the leaf has no sharding that axes of `mesh` can spell.
bool ReadAnnotation(const AnnotationReader& reader, const Instruction& x, int64_t leaf,
                    Tensor& tensor);

// The axes that are manual where `x` is, as its sharding says.
AxisList ManualAxesOf(const AnnotationReader& reader, const Instruction& x);

// The tensor's sharding as a module has it, one of `known` if that is spelled alike; `manual`: the
// axes of the region that it is seen from.
const Sharding* ShardingOf(Context& context, const ShardingsBySpelling& known, const Tensor& tensor,
                           bool inside, const AxisList& manual, const Mesh* mesh);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_ANNOTATION_H_
