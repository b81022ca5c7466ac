#include "backends/cpu/verify/widened_copy.h"

namespace gshard::cpu {

std::unique_ptr<Module> WidenedCopy(const Module& module, const WideningOptions& options) {
  std::unique_ptr<Module> wide = module.Clone();
  WidenFloats(*wide, options);
  return wide;
}

MeshRunOptions WidenedMesh(MeshRunOptions narrow, Context& context) {
  MeshRunOptions mesh = std::move(narrow);
  mesh.keep.clear();
  mesh.keep_forms.clear();
  mesh.probes = {};
  for (const Shape*& shape : mesh.global_results) shape = WidenedShape(context, shape);
  return mesh;
}

}  // namespace gshard::cpu
