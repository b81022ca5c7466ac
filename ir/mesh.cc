#include "ir/mesh.h"

#include <fmt/format.h>

namespace gshard {

int Mesh::FindAxis(std::string_view axis_name) const {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == axis_name) return static_cast<int>(i);
  }
  return -1;
}

std::string ToString(const Mesh& mesh, const AxisRef& ref) {
  const MeshAxis& axis = mesh.axes[static_cast<size_t>(ref.axis)];
  if (ref.pre_size == 1 && ref.size == axis.size) return fmt::format("'{}'", axis.name);
  return fmt::format("'{}':({}){}", axis.name, ref.pre_size, ref.size);
}

}  // namespace gshard
