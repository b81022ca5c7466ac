// Grouping devices along tile dims, and back.
#include <algorithm>
#include <numeric>

#include "ir/device_atoms.h"
#include "ir/diagnostic.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

using Ints = std::vector<int64_t>;

// result[g, coordinate] = groups[g, inner[coordinate]]; dims: the number of groups, then inner's
// dims.
TileAssignment Compose(const TileAssignment& groups, const TileAssignment& inner) {
  Ints dims = {groups.dim(0)};
  dims.insert(dims.end(), inner.dims().begin(), inner.dims().end());
  const auto group_axes = groups.AxesByDim();
  if (group_axes && inner.has_axes()) {
    // Places inside a group are numbers in the radix of the member axes; refine it by inner's axes.
    std::vector<DeviceAxis> places;
    int64_t stride = groups.dim(1);
    for (const DeviceAxis& axis : (*group_axes)[1]) {
      stride /= axis.size;
      places.push_back({axis.size, stride});
    }
    DeviceAtoms atoms(groups.dim(1));
    atoms.Cut(places);
    atoms.Cut(inner.axes());
    if (atoms.Finish()) {
      std::vector<DeviceAxis> axes = (*group_axes)[0];
      for (int atom : atoms.Of(inner.axes())) {
        for (size_t k = 0; k < places.size(); ++k) {
          const int64_t offset = atoms.stride(atom) / places[k].stride;
          if (atoms.stride(atom) < places[k].stride || offset >= places[k].size) continue;
          axes.push_back({atoms.size(atom), (*group_axes)[1][k].stride * offset});
        }
      }
      return TileAssignment::FromAxes(dims, std::move(axes));
    }
  }
  const Ints inner_list = inner.ToList();
  Ints list;
  list.reserve(static_cast<size_t>(groups.device_count()));
  for (int64_t g = 0; g < groups.dim(0); ++g) {
    for (int64_t place : inner_list) list.push_back(groups.DeviceAtFlat(g * groups.dim(1) + place));
  }
  return TileAssignment::List(dims, std::move(list));
}

// `s` as an array over the devices of a group: untiled kinds are one subgroup dim of all devices.
struct InsideTiles {
  TileAssignment tiles;
  std::vector<SubgroupType> subgroups;
};

InsideTiles TilesInside(const Sharding* inside, int64_t data_rank, int64_t devices) {
  if (inside->IsTiled()) return {inside->tiles, inside->subgroups};
  SubgroupType type = SubgroupType::kReplicated;
  if (inside->IsManual()) type = SubgroupType::kManual;
  if (inside->IsUnreduced()) type = SubgroupType::kUnreduced;
  CheckInternal(inside->IsReplicated() || inside->IsManual() || inside->IsUnreduced(),
                "no sharding over all devices is this inside each group");
  Ints dims(static_cast<size_t>(data_rank), 1);
  dims.push_back(devices);
  return {TileAssignment::Iota(dims), {type}};
}

}  // namespace

TileAssignment CollectiveGroups(const Sharding* s, std::span<const int64_t> dims) {
  CheckInternal(s->IsTiled(), "groups of a sharding that is not tiled");
  Ints permutation;
  int64_t size = 1;
  for (int64_t i = 0; i < s->tiles.rank(); ++i) {
    if (std::ranges::find(dims, i) == dims.end()) permutation.push_back(i);
  }
  for (int64_t dim : dims) {
    permutation.push_back(dim);
    size *= s->tiles.dim(dim);
  }
  return s->tiles.Transpose(permutation).Reshape(Ints{s->device_count() / size, size});
}

DeviceGroups GroupOnDims(Context& ctx, const Sharding* s, std::span<const int64_t> dims,
                         std::span<const int64_t> kept) {
  CheckInternal(s->IsTiled(), "groups of a sharding that is not tiled");
  CheckInternal(kept.empty() || kept.size() == dims.size(), "one kept count per dim expected");
  // Cut each grouped dim in (groups, kept), then bring the group parts to the front.
  Ints kept_of(static_cast<size_t>(s->tiles.rank()), 0);  // 0: not grouped
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto dim = static_cast<size_t>(dims[i]);
    kept_of[dim] = kept.empty() ? 1 : kept[i];
    CheckInternal(s->tiles.dims()[dim] % kept_of[dim] == 0,
                  "kept tiles do not divide the tile count");
  }
  Ints cut_dims, inside_dims, group_part(kept_of.size(), -1), inside_parts;
  for (size_t i = 0; i < kept_of.size(); ++i) {
    const int64_t count = s->tiles.dims()[i];
    inside_dims.push_back(kept_of[i] > 0 ? kept_of[i] : count);
    if (kept_of[i] > 0) {
      group_part[i] = static_cast<int64_t>(cut_dims.size());
      cut_dims.push_back(count / kept_of[i]);
    }
    inside_parts.push_back(static_cast<int64_t>(cut_dims.size()));
    cut_dims.push_back(inside_dims.back());
  }
  Ints permutation;
  int64_t group_count = 1;
  DeviceGroups result;
  result.data_rank = s->data_rank();
  for (int64_t dim : dims) {
    const auto i = static_cast<size_t>(dim);
    permutation.push_back(group_part[i]);
    group_count *= s->tiles.dims()[i] / kept_of[i];
    result.types.push_back(dim < s->data_rank()
                               ? SubgroupType::kReplicated
                               : s->subgroups[static_cast<size_t>(dim - s->data_rank())]);
  }
  permutation.insert(permutation.end(), inside_parts.begin(), inside_parts.end());
  const int64_t group_size = s->device_count() / group_count;
  result.groups =
      s->tiles.Reshape(cut_dims).Transpose(permutation).Reshape(Ints{group_count, group_size});
  if (group_size == 1) {
    result.inside = ctx.Replicated();
    return result;
  }
  Sharding inside;
  inside.kind = ShardingKind::kTiled;
  inside.tiles = TileAssignment::Iota(inside_dims);
  inside.subgroups = s->subgroups;
  inside.reduction = s->reduction;
  result.inside = ctx.Intern(std::move(inside));
  return result;
}

const Sharding* Ungroup(Context& ctx, const DeviceGroups& groups, std::span<const int64_t> dims,
                        std::span<const int64_t> counts, const Sharding* inside) {
  CheckInternal(dims.size() == counts.size(), "one number of groups per dim expected");
  const InsideTiles inner = TilesInside(inside, groups.data_rank, groups.group_size());
  const int64_t inner_rank = inner.tiles.rank();
  const int64_t data_rank = inner_rank - std::ssize(inner.subgroups);
  // Array with one dim per grouped dim, then inner's dims; bring each group dim before its data
  // dim, and the subgroup dims to the end.
  Ints cut_dims(counts.begin(), counts.end());
  cut_dims.insert(cut_dims.end(), inner.tiles.dims().begin(), inner.tiles.dims().end());
  Ints permutation, result_dims;
  const auto grouped = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < inner_rank; ++i) {
    int64_t count = inner.tiles.dim(i);
    for (size_t k = 0; k < dims.size() && i < data_rank; ++k) {
      if (dims[k] != i) continue;
      permutation.push_back(static_cast<int64_t>(k));
      count *= counts[k];
    }
    permutation.push_back(grouped + i);
    result_dims.push_back(count);
  }
  Sharding result;
  result.kind = ShardingKind::kTiled;
  result.subgroups = inner.subgroups;
  result.reduction = inside->reduction;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] < data_rank) continue;
    permutation.push_back(static_cast<int64_t>(k));
    result_dims.push_back(counts[k]);
    result.subgroups.push_back(groups.types[k]);
  }
  result.tiles = Compose(groups.groups, inner.tiles)
                     .Reshape(cut_dims)
                     .Transpose(permutation)
                     .Reshape(result_dims);
  return ctx.Intern(std::move(result));
}

DeviceGroups GroupOnReplicated(Context& ctx, const Sharding* s, int64_t devices,
                               int64_t group_count, std::span<const int64_t> allowed_dims) {
  CheckInternal(devices % group_count == 0, "the number of groups does not divide the devices");
  if (s->IsTiled()) {
    Ints dims, kept;
    int64_t wanted = group_count;
    const auto borrow = [&](int64_t dim) {
      const int64_t part = std::gcd(s->tiles.dim(dim), wanted);
      if (part == 1) return;
      dims.push_back(dim);
      kept.push_back(s->tiles.dim(dim) / part);
      wanted /= part;
    };
    if (s->IsPartiallyReplicated()) borrow(s->SubgroupDim(SubgroupType::kReplicated));
    for (int64_t dim : allowed_dims) borrow(dim);
    if (wanted == 1) return GroupOnDims(ctx, s, dims, kept);
  }
  DeviceGroups result;
  result.groups = TileAssignment::Iota(Ints{group_count, devices / group_count});
  result.inside = ctx.Replicated();
  result.data_rank = s->IsTiled() ? s->data_rank() : 0;
  return result;
}

}  // namespace gshard
