#include "core/analysis/axis_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <vector>

#include "ir/sharding_text.h"

namespace gshard {
namespace {

// "model", "model(outer 2)", "model(inner 4)"; of 2x4x2 the 4 is "model(4 within outer 2)".
std::string PartInWords(std::string_view axis, int64_t pre_size, int64_t size, int64_t axis_size) {
  if (pre_size == 1 && size == axis_size) return std::string(axis);
  if (pre_size == 1) return fmt::format("{}(outer {})", axis, size);
  if (pre_size * size == axis_size) return fmt::format("{}(inner {})", axis, size);
  return fmt::format("{}({} within outer {})", axis, size, pre_size);
}

// Axes of size 1 say nothing and are left out.
std::string Joined(const Mesh& mesh, std::span<const AxisRef> refs) {
  std::string text;
  for (const AxisRef& ref : refs) {
    const MeshAxis& axis = mesh.axes[static_cast<size_t>(ref.axis)];
    if (ref.size == 1) continue;
    if (!text.empty()) text += '+';
    text += PartInWords(axis.name, ref.pre_size, ref.size, axis.size);
  }
  return text;
}

const char* PartialName(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kSum:
      return "partial";
    case ReductionKind::kMax:
      return "partial maxima";
    case ReductionKind::kMin:
      return "partial minima";
  }
  return "";
}

std::string DimsText(const NamedSharding& named) {
  const Mesh& mesh = *named.mesh;
  std::string text;
  bool is_whole = true;
  for (const NamedSharding::Dim& dim : named.dims) {
    text += text.empty() ? "[" : ", ";
    std::string axes = Joined(mesh, dim.axes);
    is_whole = is_whole && axes.empty() && !dim.open;
    if (dim.open) axes += axes.empty() ? "*" : "+*";
    text += axes.empty() ? "_" : axes;
  }
  text = is_whole ? "replicated" : text + "]";
  if (!named.unreduced.empty()) {
    text = fmt::format("{}{} over {}", is_whole ? "" : text + " ", PartialName(named.reduction),
                       Joined(mesh, named.unreduced));
  }
  if (!named.manual.empty()) text += " manual over " + Joined(mesh, named.manual);
  return text;
}

std::vector<AxisRef> AllAxes(const Mesh& mesh) {
  std::vector<AxisRef> all;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    all.push_back({static_cast<int>(i), 1, mesh.axes[i].size});
  }
  return all;
}

// The leaf's spelling by a mesh, its own before `mesh`; null if there is none.
const NamedSharding* NamedOf(Context& ctx, const Sharding* leaf, const Mesh* mesh) {
  const NamedSharding* named = leaf->named;
  if (named == nullptr) named = SpelledByMesh(ctx, leaf, mesh, /*sugar=*/false)->named;
  return named == nullptr || named->mesh == nullptr ? nullptr : named;
}

}  // namespace

std::string MeshText(std::span<const MeshAxis> axes) {
  std::string text;
  for (const MeshAxis& axis : axes) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name, axis.size);
  }
  return text;
}

std::string AxisText(Context& ctx, const Sharding* sharding, const Mesh* mesh) {
  if (mesh == nullptr) return ToString(sharding);
  if (sharding->IsTuple()) {
    std::string text;
    for (const Sharding* element : sharding->elements) {
      text += text.empty() ? "(" : ", ";
      text += AxisText(ctx, element, mesh);
    }
    return text.empty() ? "()" : text + ")";
  }
  if (sharding->IsReplicated()) return "replicated";
  if (sharding->IsManual()) return "manual";
  if (sharding->IsMaximal()) return fmt::format("device {}", sharding->device);
  const NamedSharding* named = NamedOf(ctx, sharding, mesh);
  if (named == nullptr) return ToString(sharding);
  if (named->form == NamedSharding::Form::kDims) return DimsText(*named);
  if (named->form != NamedSharding::Form::kUnreduced) return ToString(sharding);
  return fmt::format("{} over {}", PartialName(named->reduction), Joined(*mesh, AllAxes(*mesh)));
}

std::string AxesInWords(std::span<const std::string> axes, std::span<const MeshAxis> mesh) {
  if (axes.empty()) return "-";
  std::string text;
  for (const std::string& axis : axes) {
    if (!text.empty()) text += '+';
    const size_t open = axis.rfind(":("), close = axis.rfind(')');
    const std::string_view name = std::string_view(axis).substr(0, open);
    auto whole = std::ranges::find(mesh, name, &MeshAxis::name);
    int64_t pre_size = 0, size = 0;
    if (open != axis.npos && close != axis.npos) {
      std::from_chars(axis.data() + open + 2, axis.data() + close, pre_size);
      std::from_chars(axis.data() + close + 1, axis.data() + axis.size(), size);
    }
    text += pre_size < 1 || size < 1 || whole == mesh.end()
                ? axis
                : PartInWords(name, pre_size, size, whole->size);
  }
  return text;
}

std::string FreeAxesText(Context& ctx, const Sharding* sharding, const Mesh* mesh) {
  if (mesh == nullptr) return "";
  std::vector<AxisRef> free = AllAxes(*mesh);
  if (sharding == nullptr || sharding->IsReplicated()) return Joined(*mesh, free);
  const NamedSharding* named = NamedOf(ctx, sharding, mesh);
  // The mesh may be written in the sharding itself, without the name that the module's has.
  const bool is_on_mesh =
      named != nullptr && (named->mesh == mesh || (named->mesh->axes == mesh->axes &&
                                                   named->mesh->devices == mesh->devices));
  if (!is_on_mesh || named->form != NamedSharding::Form::kDims) return "";
  auto take = [&](const std::vector<AxisRef>& used) {
    for (const AxisRef& ref : used) {
      std::erase_if(free, [&](const AxisRef& axis) { return axis.axis == ref.axis; });
    }
  };
  for (const NamedSharding::Dim& dim : named->dims) take(dim.axes);
  take(named->unreduced);
  take(named->manual);
  return Joined(*mesh, free);
}

}  // namespace gshard
