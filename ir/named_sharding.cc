#include "ir/named_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/context.h"
#include "ir/device_atoms.h"
#include "ir/device_subsets.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

// The axes of a mesh cut finely enough for a set of axis parts, in mesh order, major first.
class MeshParts {
 public:
  explicit MeshParts(const Mesh& mesh) : cuts_(mesh.axes.size()) {
    for (size_t i = 0; i < cuts_.size(); ++i) cuts_[i] = {1, mesh.axes[i].size};
  }
  void Cut(std::span<const AxisRef> refs) {
    for (const AxisRef& ref : refs) {
      std::vector<int64_t>& cuts = cuts_[static_cast<size_t>(ref.axis)];
      cuts.push_back(ref.pre_size);
      cuts.push_back(ref.pre_size * ref.size);
    }
  }
  void Finish() {
    for (std::vector<int64_t>& cuts : cuts_) {
      std::ranges::sort(cuts);
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      first_.push_back(static_cast<int64_t>(sizes_.size()));
      for (size_t k = 0; k + 1 < cuts.size(); ++k) sizes_.push_back(cuts[k + 1] / cuts[k]);
    }
    used_.resize(sizes_.size(), false);
  }
  std::span<const int64_t> sizes() const { return sizes_; }

  // Appends the parts of `refs` to `order`, marks them used; the product of their sizes.
  int64_t Take(std::span<const AxisRef> refs, std::vector<int64_t>& order) {
    int64_t product = 1;
    for (const AxisRef& ref : refs) {
      const std::vector<int64_t>& cuts = cuts_[static_cast<size_t>(ref.axis)];
      for (size_t k = 0; k + 1 < cuts.size(); ++k) {
        if (cuts[k] < ref.pre_size || cuts[k] >= ref.pre_size * ref.size) continue;
        product *= TakePart(static_cast<size_t>(first_[static_cast<size_t>(ref.axis)]) + k, order);
      }
    }
    return product;
  }
  int64_t TakeRest(std::vector<int64_t>& order) {
    int64_t product = 1;
    for (size_t part = 0; part < sizes_.size(); ++part) {
      if (!used_[part]) product *= TakePart(part, order);
    }
    return product;
  }

 private:
  int64_t TakePart(size_t part, std::vector<int64_t>& order) {
    CheckInternal(!used_[part], "mesh axis used twice");
    used_[part] = true;
    order.push_back(static_cast<int64_t>(part));
    return sizes_[part];
  }

  std::vector<std::vector<int64_t>> cuts_;  // per axis, ascending: a chain of divisors
  std::vector<int64_t> first_;              // per axis, index of its first part
  std::vector<int64_t> sizes_;              // per part
  std::vector<bool> used_;
};

// `tiles` with every device replaced by its place in the mesh; nothing if there is no axis form.
std::optional<TileAssignment> RelativeTo(const Mesh& mesh, const TileAssignment& tiles) {
  if (mesh.devices == TileAssignment::Iota(mesh.devices.dims())) return tiles;
  std::vector<int64_t> list = tiles.ToList();
  for (int64_t& device : list) device = mesh.devices.FlatIndexOf(device);
  TileAssignment relative = TileAssignment::List(tiles.dims(), std::move(list));
  if (!relative.has_axes()) return std::nullopt;
  return relative;
}

std::optional<NamedSharding> NameTiles(const Sharding* s, const Mesh* mesh) {
  if (!HaveSameDevices(mesh->devices, s->tiles)) return std::nullopt;
  const auto relative = RelativeTo(*mesh, s->tiles);
  if (!relative) return std::nullopt;
  const auto tile_axes = relative->AxesByDim();
  if (!tile_axes) return std::nullopt;

  std::vector<DeviceAxis> mesh_axes;  // strides of the mesh axes in flat mesh positions
  int64_t stride = mesh->device_count();
  for (const MeshAxis& axis : mesh->axes) {
    stride /= axis.size;
    mesh_axes.push_back({axis.size, stride});
  }
  DeviceAtoms atoms(mesh->device_count());
  atoms.Cut(mesh_axes);
  for (const std::vector<DeviceAxis>& axes : *tile_axes) atoms.Cut(axes);
  if (!atoms.Finish()) return std::nullopt;

  const auto refs_of = [&](size_t dim) {
    std::vector<AxisRef> refs;
    for (int atom : atoms.Of((*tile_axes)[dim])) {
      const DeviceAxis part = atoms.axis(atom);
      for (size_t i = 0; i < mesh_axes.size(); ++i) {
        const int64_t top = mesh_axes[i].stride * mesh_axes[i].size;
        if (mesh_axes[i].size == 1 || part.stride < mesh_axes[i].stride || part.stride >= top)
          continue;
        refs.push_back({static_cast<int>(i), top / (part.stride * part.size), part.size});
      }
    }
    return refs;
  };
  NamedSharding named;
  const auto data_rank = static_cast<size_t>(s->data_rank());
  for (size_t i = 0; i < data_rank; ++i) named.dims.push_back({refs_of(i), false});
  for (size_t i = 0; i < s->subgroups.size(); ++i) {
    switch (s->subgroups[i]) {
      case SubgroupType::kManual:
        named.manual = refs_of(data_rank + i);
        break;
      case SubgroupType::kUnreduced:
        named.unreduced = refs_of(data_rank + i);
        named.reduction = s->reduction;
        break;
      case SubgroupType::kReplicated:
        break;
      case SubgroupType::kMaximal:
        return std::nullopt;
    }
  }
  return named;
}

}  // namespace

std::string WhyAxisConflicts(const Mesh& mesh, std::span<const AxisRef> used, const AxisRef& ref) {
  std::vector<int64_t> cuts = {ref.pre_size, ref.pre_size * ref.size};
  for (const AxisRef& other : used) {
    if (other.axis != ref.axis) continue;
    cuts.push_back(other.pre_size);
    cuts.push_back(other.pre_size * other.size);
    if (std::max(other.pre_size, ref.pre_size) <
            std::min(other.pre_size * other.size, ref.pre_size * ref.size) ||
        other == ref) {
      return other == ref
                 ? fmt::format("axis {} is used twice", ToString(mesh, ref))
                 : fmt::format("{} overlaps {}", ToString(mesh, ref), ToString(mesh, other));
    }
  }
  std::ranges::sort(cuts);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i + 1] % cuts[i] != 0) {
      return fmt::format("{} and another part of its axis do not nest", ToString(mesh, ref));
    }
  }
  return "";
}

void Canonicalise(const Mesh& mesh, std::vector<AxisRef>& refs) {
  std::vector<AxisRef> merged;
  for (const AxisRef& ref : refs) {
    if (ref.size == 1 && mesh.axes[static_cast<size_t>(ref.axis)].size > 1) continue;
    if (!merged.empty() && merged.back().axis == ref.axis &&
        merged.back().pre_size * merged.back().size == ref.pre_size) {
      merged.back().size *= ref.size;
    } else {
      merged.push_back(ref);
    }
  }
  refs = std::move(merged);
}

void Canonicalise(NamedSharding& named) {
  for (NamedSharding::Dim& dim : named.dims) Canonicalise(*named.mesh, dim.axes);
  for (std::vector<AxisRef>* set : {&named.replicated, &named.unreduced, &named.manual}) {
    std::ranges::sort(*set, [](const AxisRef& a, const AxisRef& b) {
      return a.axis != b.axis ? a.axis < b.axis : a.pre_size < b.pre_size;
    });
    if (!set->empty()) Canonicalise(*named.mesh, *set);
  }
  if (named.unreduced.empty()) named.reduction = ReductionKind::kSum;
  if (named.dims.empty() && named.replicated.empty() && named.unreduced.empty() &&
      named.manual.empty() && named.form == NamedSharding::Form::kDims) {
    named.form = NamedSharding::Form::kReplicated;
  }
}

Sharding ShardingOf(const NamedSharding& named, int64_t device) {
  Sharding result;
  switch (named.form) {
    case NamedSharding::Form::kReplicated:
      return result;
    case NamedSharding::Form::kManual:
      result.kind = ShardingKind::kManual;
      return result;
    case NamedSharding::Form::kUnreduced:
      result.kind = ShardingKind::kUnreduced;
      return result;
    case NamedSharding::Form::kMaximal:
      result.kind = ShardingKind::kMaximal;
      result.device = device;
      return result;
    case NamedSharding::Form::kDims:
      break;
  }
  MeshParts parts(*named.mesh);
  for (const NamedSharding::Dim& dim : named.dims) parts.Cut(dim.axes);
  parts.Cut(named.manual);
  parts.Cut(named.unreduced);
  parts.Finish();

  std::vector<int64_t> order, dims;
  for (const NamedSharding::Dim& dim : named.dims) dims.push_back(parts.Take(dim.axes, order));
  const auto add_subgroup = [&](SubgroupType type, int64_t size) {
    dims.push_back(size);
    result.subgroups.push_back(type);
  };
  if (!named.manual.empty()) add_subgroup(SubgroupType::kManual, parts.Take(named.manual, order));
  if (!named.unreduced.empty()) {
    add_subgroup(SubgroupType::kUnreduced, parts.Take(named.unreduced, order));
  }
  add_subgroup(SubgroupType::kReplicated, parts.TakeRest(order));
  result.kind = ShardingKind::kTiled;
  result.tiles = named.mesh->devices.Reshape(parts.sizes()).Transpose(order).Reshape(dims);
  result.reduction = named.reduction;
  return result;
}

TileAssignment GroupsAlong(const Mesh& mesh, std::span<const AxisRef> refs) {
  MeshParts parts(mesh);
  parts.Cut(refs);
  parts.Finish();
  std::vector<int64_t> members, order;
  const int64_t size = parts.Take(refs, members);
  const int64_t groups = parts.TakeRest(order);
  order.insert(order.end(), members.begin(), members.end());
  const std::vector<int64_t> dims = {groups, size};
  return mesh.devices.Reshape(parts.sizes()).Transpose(order).Reshape(dims);
}

bool HasSubAxes(std::string_view text) { return text.find("':(") != text.npos; }

const Sharding* SpelledByMesh(Context& ctx, const Sharding* s, const Mesh* mesh, bool sugar) {
  NamedSharding named;
  switch (s->kind) {
    case ShardingKind::kTuple: {
      std::vector<const Sharding*> elements;
      for (const Sharding* element : s->elements) {
        elements.push_back(SpelledByMesh(ctx, element, mesh, sugar));
      }
      return ctx.TupleOf(std::move(elements));
    }
    case ShardingKind::kUnknown:
      return s;
    case ShardingKind::kReplicated:
      named.form = NamedSharding::Form::kReplicated;
      break;
    case ShardingKind::kManual:
      named.form = NamedSharding::Form::kManual;
      break;
    case ShardingKind::kUnreduced:
      if (s->reduction != ReductionKind::kSum) return s;
      named.form = NamedSharding::Form::kUnreduced;
      break;
    case ShardingKind::kMaximal:
      named.form = NamedSharding::Form::kMaximal;
      break;
    case ShardingKind::kTiled: {
      auto found = NameTiles(s, mesh);
      if (!found) return s;
      named = std::move(*found);
      break;
    }
  }
  named.mesh = sugar || named.form != NamedSharding::Form::kMaximal ? mesh : nullptr;
  named.sugar = sugar;
  Canonicalise(named);
  Sharding spelled = ShardingOf(named, s->device);
  spelled.named = ctx.Intern(std::move(named));
  spelled.group_kind = s->group_kind;
  spelled.group_id = s->group_id;
  spelled.metadata = s->metadata;
  const Sharding* result = ctx.Intern(std::move(spelled));
  return SameSharding(result, s) ? result : s;
}

}  // namespace gshard
