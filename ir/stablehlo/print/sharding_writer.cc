#include "ir/stablehlo/print/sharding_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/sharding_text.h"
#include "ir/shardy_attribute.h"
#include "ir/shardy_text.h"
#include "ir/stablehlo/print/dense_text.h"
#include "ir/stablehlo/syntax/attribute.h"

namespace gshard::stablehlo {
namespace {

template <typename Visit>
void ForEachLeaf(const Sharding* sharding, Visit&& visit) {
  if (sharding == nullptr) return;
  if (!sharding->IsTuple()) return visit(sharding);
  for (const Sharding* leaf : sharding->elements) visit(leaf);
}

std::string AxesText(const Mesh& mesh, const std::vector<AxisRef>& axes, bool open) {
  std::string text = "{";
  for (const AxisRef& ref : axes) {
    const MeshAxis& axis = mesh.axes[static_cast<size_t>(ref.axis)];
    if (text.size() > 1) text += ", ";
    text += fmt::format("\"{}\"", axis.name);
    if (ref.pre_size != 1 || ref.size != axis.size) {
      text += fmt::format(":({}){}", ref.pre_size, ref.size);
    }
  }
  if (open) text += text.size() > 1 ? ", ?" : "?";
  return text + "}";
}

std::string MeshText(const Mesh& mesh) {
  std::string text = "<[";
  for (const MeshAxis& axis : mesh.axes) {
    if (text.size() > 2) text += ", ";
    text += fmt::format("\"{}\"={}", axis.name, axis.size);
  }
  text += ']';
  std::vector<int64_t> dims;
  for (const MeshAxis& axis : mesh.axes) dims.push_back(axis.size);
  if (!(mesh.devices == TileAssignment::Iota(dims))) {
    text += ", device_ids=[";
    bool first = true;
    for (const int64_t device : mesh.devices.ToList()) {
      if (!first) text += ", ";
      first = false;
      text += std::to_string(device);
    }
    text += ']';
  }
  return text + ">";
}

bool IsShardyMarker(const Instruction& x) {
  return IsCustomCallTo(x, "xla.sdy.GlobalToLocalShape") ||
         IsCustomCallTo(x, "xla.sdy.LocalToGlobalShape");
}

// What a mesh-form sharding says of its mesh.
const Mesh* MeshOf(Context& context, const std::string& mesh_form) {
  const auto sharding = ParseSharding(context, "{" + mesh_form + ", []}");
  return sharding.has_value() && (*sharding)->named != nullptr ? (*sharding)->named->mesh : nullptr;
}

}  // namespace

ShardingWriter::ShardingWriter(const Module& module, bool gspmd)
    : module_(module), devices_(module.DeviceCount()), gspmd_(gspmd) {
  FindMeshes();
  if (meshes_.empty()) gspmd_ = true;
  for (const Computation* computation : module.computations()) {
    has_manual_regions_ |= std::ranges::any_of(
        computation->instructions(), [](const Instruction* x) { return IsShardyMarker(*x); });
  }
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() == nullptr) ReadAttribute(x);
      ForEachLeaf(Of(x), [&](const Sharding* leaf) {
        if (!gspmd_ && !CanSpell(leaf)) gspmd_ = true;
      });
    }
  }
}

const Sharding* ShardingWriter::Of(const Instruction* x) const {
  if (x->sharding() != nullptr) return x->sharding();
  const auto it = by_attribute_.find(x);
  return it == by_attribute_.end() ? nullptr : it->second;
}

void ShardingWriter::ReadAttribute(const Instruction* x) {
  if (x->frontend_attributes().find("xla.sdy.sharding") == std::string_view::npos) return;
  const std::string text = FrontendAttribute(x->frontend_attributes(), "xla.sdy.sharding");
  if (text.empty() || HasStaleShardyAttribute(*x)) return;  // xla.sdy.sharding_rule, say
  const auto fail = [&](std::string_view why) {
    if (error_.has_value()) return;
    error_ = module_.ErrorAt(
        x, "E-SDY-001",
        fmt::format("cannot read the xla.sdy.sharding of '{}', {}: {}", x->name(), text, why));
  };
  std::vector<ShardySharding> list;
  TextError error;
  if (!ReadShardyShardings(text, declared_, list, &error)) return fail(error.message);
  const auto count = static_cast<size_t>(x->shape()->leaf_count());
  std::vector<const Sharding*> leaves;
  for (const ShardySharding& sharding : list) {
    const auto leaf = ParseSharding(module_.context(), MeshFormOf(sharding));
    if (!leaf.has_value()) return fail(leaf.error().message);
    leaves.push_back(*leaf);
  }
  if (leaves.size() == 1) leaves.resize(std::max<size_t>(count, 1), leaves[0]);
  if (leaves.size() != std::max<size_t>(count, 1)) {
    return fail(fmt::format("{} shardings for {} values", leaves.size(), count));
  }
  if (!leaves.empty()) {
    by_attribute_[x] =
        x->shape()->IsTuple() ? module_.context().TupleOf(std::move(leaves)) : leaves[0];
  }
}

void ShardingWriter::AddMesh(const Mesh* mesh, std::string name, std::string text) {
  for (const NamedMesh& other : meshes_) {
    if (other.text == text) return;
  }
  const std::string base = name.empty() ? "mesh" : name;
  name = base;
  for (int i = 1; std::ranges::any_of(meshes_, [&](const NamedMesh& m) { return m.name == name; });
       ++i) {
    name = fmt::format("{}_{}", base, i);
  }
  meshes_.push_back({name, std::move(text), mesh});
}

void ShardingWriter::FindMeshes() {
  Context& context = module_.context();
  for (const auto& [key, value] : ParseFrontendAttributes(module_.header().frontend_attributes)) {
    if (key != "xla.sdy.meshes") continue;
    const std::string text = value.starts_with('"') ? Unquoted(value) : std::string(value);
    std::vector<NamedAttribute> fields;
    ShardyMeshes meshes;
    if (!SplitFields(text, fields) || !ReadShardyMeshes(text, meshes)) continue;
    declared_ = meshes;
    for (const NamedAttribute& field : fields) {
      const auto it = meshes.find(field.key);
      const size_t angle = field.value.find('<');
      if (it == meshes.end() || angle == field.value.npos) continue;
      AddMesh(it->second.has_axes ? MeshOf(context, it->second.text) : nullptr,
              std::string(field.key), std::string(field.value.substr(angle)));
    }
  }
  for (const Mesh* mesh : module_.header().meshes) AddMesh(mesh, mesh->name, MeshText(*mesh));
  for (const Computation* computation : module_.computations()) {
    for (const Instruction* x : computation->instructions()) {
      ForEachLeaf(x->sharding(), [&](const Sharding* leaf) {
        if (leaf->IsMaximal()) {
          AddMesh(nullptr, fmt::format("maximal_mesh_{}", leaf->device),
                  fmt::format("<[], device_ids=[{}]>", leaf->device));
        } else if (leaf->named != nullptr && leaf->named->mesh != nullptr) {
          AddMesh(leaf->named->mesh, leaf->named->mesh->name, MeshText(*leaf->named->mesh));
        }
      });
    }
  }
}

const ShardingWriter::NamedMesh* ShardingWriter::MeshFor(const Sharding* leaf,
                                                         const NamedSharding** named) const {
  for (const NamedMesh& entry : meshes_) {
    if (leaf->IsMaximal()) {
      if (entry.text == fmt::format("<[], device_ids=[{}]>", leaf->device)) return &entry;
      continue;
    }
    if (entry.mesh == nullptr) continue;
    if (leaf->named != nullptr && leaf->named->mesh == entry.mesh) {
      *named = leaf->named;
      return &entry;
    }
    const Sharding* spelled = SpelledByMesh(module_.context(), leaf, entry.mesh, /*sugar=*/false);
    if (spelled->named == nullptr || spelled->named->mesh != entry.mesh) continue;
    *named = spelled->named;
    return &entry;
  }
  return nullptr;
}

bool ShardingWriter::CanSpell(const Sharding* leaf) const {
  if (leaf->IsUnknown()) return true;
  // Shardy's regions say themselves what is manual.
  if (leaf->IsManual()) return has_manual_regions_;
  if (leaf->IsTiled() && leaf->HasManualSubgroup() && !has_manual_regions_) return false;
  if (leaf->group_kind != ShardGroupKind::kNone) return false;
  const NamedSharding* named = nullptr;
  if (MeshFor(leaf, &named) == nullptr) return false;
  // Shardy's meshes have all devices.
  return named == nullptr || named->mesh->device_count() == devices_;
}

std::string ShardingWriter::MeshLines() const {
  std::string lines;
  if (gspmd_ && !has_manual_regions_) return lines;
  for (const NamedMesh& mesh : meshes_) {
    lines += fmt::format("  sdy.mesh @{} = {}\n", mesh.name, mesh.text);
  }
  return lines;
}

ShardyMeshes ShardingWriter::Meshes() const {
  ShardyMeshes meshes;
  for (const NamedMesh& mesh : meshes_) {
    ReadShardyMeshes(fmt::format("{{{} = #sdy.mesh{}}}", mesh.name, mesh.text), meshes);
  }
  return meshes;
}

bool ShardingWriter::CanRead(const std::string& per_value, int64_t count) const {
  std::vector<ShardySharding> list;
  return ReadShardyShardings(per_value, Meshes(), list) &&
         static_cast<int64_t>(list.size()) == count;
}

std::string ShardingWriter::ShardyText(const Sharding* leaf, const Instruction* x,
                                       int64_t rank) const {
  if (leaf == nullptr || leaf->IsUnknown() || leaf->IsManual()) return {};
  // The text it came from has open dims and priorities, too.
  const std::string known = x != nullptr
                                ? FrontendAttribute(x->frontend_attributes(), "xla.sdy.sharding")
                                : std::string();
  if (!known.empty()) {
    std::vector<ShardySharding> list;
    if (ReadShardyShardings(known, Meshes(), list) && list.size() == 1) {
      const auto parsed = ParseSharding(module_.context(), MeshFormOf(list[0]));
      if (parsed.has_value() && SameSharding(*parsed, leaf)) {
        const size_t begin =
            known.find('<', known.find("per_value") == known.npos ? 0 : known.find('['));
        const size_t end = known.rfind(known.find("per_value") == known.npos ? '>' : ']');
        return known.find("per_value") == known.npos ? known.substr(begin)
                                                     : known.substr(begin, end - begin);
      }
    }
  }
  const NamedSharding* named = nullptr;
  const NamedMesh* mesh = MeshFor(leaf, &named);
  if (mesh == nullptr) return {};
  if (leaf->IsMaximal()) return fmt::format("<@{}, []>", mesh->name);
  std::string dims;
  for (int64_t i = 0; i < rank; ++i) {
    if (i > 0) dims += ", ";
    const bool written = static_cast<size_t>(i) < named->dims.size();
    dims += written ? AxesText(*named->mesh, named->dims[static_cast<size_t>(i)].axes,
                               named->dims[static_cast<size_t>(i)].open)
                    : std::string("{}");
  }
  std::string text = fmt::format("<@{}, [{}]", mesh->name, dims);
  const std::string_view reduction = leaf->reduction == ReductionKind::kMax   ? "max"
                                     : leaf->reduction == ReductionKind::kMin ? "min"
                                                                              : "";
  if (!named->replicated.empty()) {
    text += ", replicated=" + AxesText(*named->mesh, named->replicated, false);
  }
  if (!named->unreduced.empty()) {
    text +=
        fmt::format(", unreduced={}{}", reduction, AxesText(*named->mesh, named->unreduced, false));
  } else if (leaf->IsUnreduced()) {
    std::vector<AxisRef> all;
    for (size_t i = 0; i < named->mesh->axes.size(); ++i) {
      all.push_back({static_cast<int>(i), 1, named->mesh->axes[i].size});
    }
    text += fmt::format(", unreduced={}{}", reduction, AxesText(*named->mesh, all, false));
  }
  return text + ">";
}

std::string ShardingWriter::ArgumentAttribute(const Sharding* leaf, const Instruction* x,
                                              int64_t rank) const {
  if (leaf == nullptr || leaf->IsUnknown()) return {};
  if (gspmd_) return "mhlo.sharding = " + QuotedMlir(ToString(leaf, {.tiles = true}));
  const std::string text = ShardyText(leaf, x, rank);
  return text.empty() ? std::string() : "sdy.sharding = #sdy.sharding" + text;
}

std::string ShardingWriter::OperationAttribute(const Instruction* x,
                                               std::span<const size_t> chosen) const {
  const Sharding* sharding = Of(x);
  if (sharding == nullptr || sharding->IsUnknown()) return {};
  std::vector<const Shape*> leaves = LeafShapes(x->shape());
  if (!chosen.empty()) {
    std::vector<const Shape*> shapes;
    std::vector<const Sharding*> elements;
    for (const size_t leaf : chosen) {
      shapes.push_back(leaves[leaf]);
      elements.push_back(sharding->IsTuple() ? sharding->elements[leaf] : sharding);
    }
    leaves = std::move(shapes);
    sharding = elements.size() == 1 ? elements[0] : module_.context().TupleOf(std::move(elements));
    if (sharding->IsUnknown()) return {};
  }
  // An operation without results has one sharding all the same.
  if (leaves.empty() && sharding->IsTuple() && sharding->elements.size() == 1) {
    const std::string text = gspmd_ ? std::string() : ShardyText(sharding->elements[0], x, 0);
    if (!text.empty()) return fmt::format("sdy.sharding = #sdy.sharding_per_value<[{}]>", text);
  }
  // A tuple of one value is that value.
  if (leaves.size() == 1 && sharding->IsTuple()) sharding = sharding->elements[0];
  if (gspmd_) return "mhlo.sharding = " + QuotedMlir(ToString(sharding, {.tiles = true}));
  std::string list;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const Sharding* leaf = sharding->IsTuple() ? sharding->elements[i] : sharding;
    const std::string text = ShardyText(leaf, leaves.size() == 1 ? x : nullptr, leaves[i]->rank());
    if (text.empty()) return {};
    if (i > 0) list += ", ";
    list += text;
  }
  return list.empty() ? std::string()
                      : fmt::format("sdy.sharding = #sdy.sharding_per_value<[{}]>", list);
}

}  // namespace gshard::stablehlo
