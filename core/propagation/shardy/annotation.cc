#include "core/propagation/shardy/annotation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/named_sharding.h"
#include "ir/sharding_text.h"
#include "ir/shardy_text.h"
#include "ir/unspecified_dims.h"

namespace gshard::shardy {
namespace {

const Sharding* LeafOf(const Sharding* s, int64_t leaf) {
  if (s == nullptr || !s->IsTuple()) return s;
  return At(leaf) < s->elements.size() ? s->elements[At(leaf)] : nullptr;
}

// The axes of another mesh as those of `mesh`, by name and size; nothing if one is not there.
std::optional<AxisList> OnMesh(const AxisList& axes, const Mesh& from, const Mesh& mesh) {
  AxisList list;
  const bool is_same = &from == &mesh;
  for (AxisRef axis : axes) {
    const MeshAxis& named = from.axes[static_cast<size_t>(axis.axis)];
    if (named.size == 1) continue;
    if (!is_same) axis.axis = mesh.FindAxis(named.name);
    if (axis.axis < 0 || mesh.axes[static_cast<size_t>(axis.axis)].size != named.size) {
      return std::nullopt;
    }
    Append(list, axis);
  }
  return list;
}

// The sharding's spelling by axes of the mesh; null if there is none.
const NamedSharding* NamedOn(const AnnotationReader& reader, const Sharding* s) {
  if (s->named != nullptr && s->named->mesh != nullptr) return s->named;
  const auto [it, fresh] = reader.named.try_emplace(s, nullptr);
  if (fresh) it->second = SpelledByMesh(reader.context, s, reader.mesh, /*sugar=*/false)->named;
  return it->second;
}

SpelledSharding Spell(const AnnotationReader& reader, const Sharding* s) {
  SpelledSharding spelled;
  spelled.has_spelling = true;
  if (!s->IsTiled() && s->named == nullptr) return spelled;
  const NamedSharding* named = NamedOn(reader, s);
  if (named == nullptr || (named->form != NamedSharding::Form::kDims &&
                           named->form != NamedSharding::Form::kReplicated)) {
    return {};
  }
  bool all_there = true;
  const auto take = [&](const AxisList& axes) {
    const auto list = OnMesh(axes, *named->mesh, *reader.mesh);
    all_there = all_there && list.has_value();
    return list ? reader.axes.Make(*list) : Axes();
  };
  for (const NamedSharding::Dim& dim : named->dims) {
    spelled.dims.push_back({.axes = take(dim.axes), .open = dim.open});
  }
  spelled.replicated = take(named->replicated);
  spelled.unreduced = take(named->unreduced);
  return all_there ? spelled : SpelledSharding();
}

const std::vector<ShardySharding>& ShardingsInAttribute(const AnnotationReader& reader,
                                                        const Instruction& x) {
  const auto [it, fresh] = reader.read.try_emplace(x.frontend_attributes());
  if (fresh) {
    const std::string text = FrontendAttribute(x.frontend_attributes(), "xla.sdy.sharding");
    if (text.empty() || !ReadShardyShardings(text, reader.meshes, it->second)) it->second.clear();
  }
  return it->second;
}

// Which dims the text leaves open, and their priorities.
void ReadOpenDims(const AnnotationReader& reader, const Instruction& x, int64_t leaf,
                  std::span<Dim> dims) {
  if (!x.backend_config().empty()) {
    for (const int64_t d : UnspecifiedDims(x)) {
      if (At(d) < dims.size()) dims[At(d)].open = true;
    }
  }
  if (x.frontend_attributes().find("xla.sdy.sharding") == std::string_view::npos) return;
  const std::vector<ShardySharding>& shardings = ShardingsInAttribute(reader, x);
  if (At(leaf) >= shardings.size()) return;
  const ShardySharding& sharding = shardings[At(leaf)];
  if (sharding.dims.size() != dims.size()) return;
  for (const int64_t d : sharding.open_dims) dims[At(d)].open = true;
  for (size_t d = 0; d < dims.size(); ++d) dims[d].priority = sharding.priorities[d];
}

}  // namespace

std::string ShardyMeshesText(const Module& module) {
  const std::string_view header = module.header().frontend_attributes;
  if (header.find("xla.sdy.meshes") == std::string_view::npos) return {};
  for (const auto& [key, value] : ParseFrontendAttributes(header)) {
    if (key != "xla.sdy.meshes") continue;
    return value.starts_with('"') ? Unquoted(value) : std::string(value);
  }
  return {};
}

bool ReadAnnotation(const AnnotationReader& reader, const Instruction& x, int64_t leaf,
                    Tensor& tensor) {
  const Sharding* s = LeafOf(x.sharding(), leaf);
  if (s == nullptr || s->IsUnknown() || s->IsMaximal()) return false;
  const auto [it, fresh] = reader.spelled.try_emplace(s);
  if (fresh) {
    it->second = Spell(reader, s);
    const bool is_marked = s->group_kind != ShardGroupKind::kNone || !s->metadata.empty();
    if (s->named != nullptr && !is_marked) reader.by_spelling.emplace(s->named, s);
  }
  const SpelledSharding& spelled = it->second;
  if (!spelled.has_spelling) return false;
  std::ranges::fill(tensor.dims, Dim{.axes = {}, .open = false});
  std::copy_n(spelled.dims.begin(), std::min(spelled.dims.size(), tensor.dims.size()),
              tensor.dims.begin());
  ReadOpenDims(reader, x, leaf, tensor.dims);
  tensor.mesh = reader.mesh;
  tensor.is_annotated = true;
  tensor.replicated = spelled.replicated;
  tensor.unreduced = spelled.unreduced;
  return true;
}

AxisList ManualAxesOf(const AnnotationReader& reader, const Instruction& x) {
  const Mesh* mesh = reader.mesh;
  const Sharding* s = LeafOf(x.sharding(), 0);
  AxisList all;
  for (size_t i = 0; i < mesh->axes.size(); ++i) {
    if (mesh->axes[i].size > 1) all.push_back({static_cast<int>(i), 1, mesh->axes[i].size});
  }
  if (s == nullptr) return {};
  if (s->IsManual()) return all;
  if (!s->IsTiled() || !s->HasManualSubgroup()) return {};
  const NamedSharding* named = NamedOn(reader, s);
  if (named == nullptr) return {};
  return OnMesh(named->manual, *named->mesh, *mesh).value_or(AxisList());
}

const Sharding* ShardingOf(Context& context, const ShardingsBySpelling& known, const Tensor& tensor,
                           bool inside, const AxisList& manual, const Mesh* mesh) {
  NamedSharding named;
  named.mesh = mesh;
  named.sugar = !mesh->name.empty();
  for (const Dim& dim : tensor.dims) {
    NamedSharding::Dim& out = named.dims.emplace_back();
    const std::span<const AxisRef> visible = VisibleAxes(dim, {-1, inside});
    out.axes.assign(visible.begin(), visible.end());
  }
  named.unreduced.assign(tensor.unreduced.list().begin(), tensor.unreduced.list().end());
  named.manual = manual;
  const bool whole = std::ranges::all_of(named.dims, [](const auto& d) { return d.axes.empty(); });
  if (whole && named.unreduced.empty() && manual.empty()) return context.Replicated();
  Canonicalise(named);
  const NamedSharding* spelled = context.Intern(std::move(named));
  if (const auto it = known.find(spelled); it != known.end()) return it->second;
  Sharding s = gshard::ShardingOf(*spelled);
  s.spelling = Spelling::kNamed;
  s.named = spelled;
  return context.Intern(std::move(s));
}

}  // namespace gshard::shardy
