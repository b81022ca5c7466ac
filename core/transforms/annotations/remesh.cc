// See remesh.h.

#include "core/transforms/annotations/remesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/analysis/meshes.h"
#include "core/propagation/shardy_import.h"
#include "core/transforms/annotations/resize_mesh.h"

namespace gshard {
namespace {

int FindAxis(const std::vector<MeshAxis>& axes, const std::string& name) {
  auto it = std::find_if(axes.begin(), axes.end(),
                         [&](const MeshAxis& axis) { return axis.name == name; });
  return it == axes.end() ? -1 : static_cast<int>(it - axes.begin());
}

std::string NamesOf(const std::vector<MeshAxis>& axes) {
  std::string text;
  for (const MeshAxis& axis : axes) {
    if (!text.empty()) text += ", ";
    text += axis.name;
  }
  return text;
}

bool IsSharded(const Sharding* sharding) {
  if (sharding == nullptr) return false;
  if (!sharding->IsTuple()) {
    return !sharding->IsReplicated() && !sharding->IsUnknown() && !sharding->IsMaximal();
  }
  return std::any_of(sharding->elements.begin(), sharding->elements.end(), IsSharded);
}

bool IsUneven(const Shape* shape, const Sharding* sharding) {
  if (!shape->IsArray() || !sharding->IsTiled() || sharding->data_rank() != shape->rank()) {
    return false;
  }
  for (int64_t dim = 0; dim < shape->rank(); ++dim) {
    if (shape->dim(dim) % sharding->TileCount(dim) != 0) return true;
  }
  return false;
}

bool HasCommonName(const std::vector<MeshAxis>& a, const std::vector<MeshAxis>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const MeshAxis& axis) { return FindAxis(b, axis.name) >= 0; });
}

}  // namespace

Expected<AnnotatedMesh> FindAnnotatedMesh(Module& module) {
  if (auto imported = ImportShardyShardings(module); !imported) return Fail(imported.error());
  AnnotatedMesh found;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* instruction : computation->instructions()) {
      if (!IsSharded(instruction->sharding())) continue;
      found.mesh = MainMesh(module);
      if (found.mesh != nullptr) found.axes = found.mesh->axes;
      return found;
    }
  }
  return found;
}

Expected<std::vector<MeshAxis>> MeshAfterRenaming(const std::vector<MeshAxis>& of_module,
                                                  const std::vector<MeshAxis>& axes) {
  if (of_module.empty()) return axes;
  if (!HasCommonName(of_module, axes)) {
    if (of_module.size() == axes.size()) return axes;
    return Fail(
        MakeError("E-MESH-001",
                  of_module.size() == 1
                      ? fmt::format("the axis of the program's mesh, {}, is not named",
                                    NamesOf(of_module))
                      : fmt::format("the program's mesh has {} axes, {}, and none of them is named",
                                    of_module.size(), NamesOf(of_module)),
                  "name those to resize, or as many as there are to rename them"));
  }
  const bool all_named = std::all_of(of_module.begin(), of_module.end(), [&](const MeshAxis& axis) {
    return axis.size == 1 || FindAxis(axes, axis.name) >= 0;
  });
  if (all_named) return axes;
  std::vector<MeshAxis> mesh;
  for (const MeshAxis& axis : of_module) {
    const int named = FindAxis(axes, axis.name);
    mesh.push_back(named < 0 ? axis : axes[static_cast<size_t>(named)]);
  }
  for (const MeshAxis& axis : axes) {
    if (FindAxis(of_module, axis.name) < 0) mesh.push_back(axis);
  }
  return mesh;
}

Expected<void> Remesh(Module& module, const std::vector<MeshAxis>& axes,
                      const std::vector<AnnotationRule>& rules) {
  Expected<AnnotatedMesh> annotated = FindAnnotatedMesh(module);
  if (!annotated) return Fail(std::move(annotated.error()));
  if (annotated->mesh == nullptr && rules.empty()) {
    return Fail(MakeError("E-MESH-002", "nothing in the program is sharded",
                          "say what is, by axis names: --rules FILE or --shard 'REGEX=data,_'"));
  }
  const bool stays = annotated->mesh != nullptr && annotated->axes == axes;
  if (stays && rules.empty()) return {};
  if (annotated->mesh != nullptr && !stays) {
    const std::vector<MeshAxis>& from = annotated->axes;
    std::vector<int64_t> sizes;
    for (const MeshAxis& axis : axes) sizes.push_back(axis.size);
    // The name of a declared mesh stays.
    const Mesh* to =
        module.context().Intern(Mesh{annotated->mesh->name, axes, TileAssignment::Iota(sizes), ""});
    const bool by_name = HasCommonName(from, axes);
    std::vector<int> axis_of;
    for (size_t i = 0; i < from.size(); ++i) {
      const int named = by_name ? FindAxis(axes, from[i].name) : static_cast<int>(i);
      axis_of.push_back(named);  // -1: of size 1
    }
    auto resized = ResizeMesh(module, annotated->mesh, to, axis_of);
    if (!resized) return resized;
  }
  return Annotate(module, {.mesh = axes, .rules = rules});
}

std::vector<const Instruction*> UnevenArrays(const Module& module) {
  std::vector<const Instruction*> uneven;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() != nullptr && IsUneven(x->shape(), x->sharding())) uneven.push_back(x);
    }
  }
  return uneven;
}

}  // namespace gshard
