// The same program over another mesh: annotations by axis name are applied again, to other sizes.
#ifndef GSHARD_CORE_TRANSFORMS_ANNOTATIONS_REMESH_H_
#define GSHARD_CORE_TRANSFORMS_ANNOTATIONS_REMESH_H_

#include <vector>

#include "core/transforms/annotations/annotate.h"
#include "ir/mesh.h"
#include "ir/module.h"

namespace gshard {

// Which mesh a program's annotations speak of; `axes` is empty if nothing is sharded.
struct AnnotatedMesh {
  const Mesh* mesh = nullptr;  // of the module's context
  std::vector<MeshAxis> axes;
};
// Imports Shardy's attributes first. Errors: E-SDY-*.
Expected<AnnotatedMesh> FindAnnotatedMesh(Module& module);

// The mesh that `module`'s annotations are to be applied to if the user names `axes`: axes of the
// same name are the same. Those of the module that are not named keep their sizes, in the module's
// order. If no name is common, as many axes are renamed in order. Errors (E-MESH-001): neither.
Expected<std::vector<MeshAxis>> MeshAfterRenaming(const std::vector<MeshAxis>& of_module,
                                                  const std::vector<MeshAxis>& axes);

// Resizes the module's mesh to `axes`, as MeshAfterRenaming made them, and applies `rules`. On the
// mesh that it was written for the program stays as it is, manual regions too. Errors: those of
// ResizeMesh and Annotate; (E-MESH-002): nothing is sharded and there are no rules.
Expected<void> Remesh(Module& module, const std::vector<MeshAxis>& axes,
                      const std::vector<AnnotationRule>& rules);

// Annotated arrays with a dim that its tiles do not divide, in text order: their devices compute on
// padding.
std::vector<const Instruction*> UnevenArrays(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_ANNOTATIONS_REMESH_H_
