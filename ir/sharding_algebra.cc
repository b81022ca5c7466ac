#include "ir/sharding_algebra.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/device_subsets.h"
#include "ir/diagnostic.h"
#include "ir/dims.h"

namespace gshard {
namespace {

std::vector<int64_t> Identity(int64_t rank) {
  std::vector<int64_t> permutation(static_cast<size_t>(rank));
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  return permutation;
}

// One flag per data dim.
std::vector<bool> Mask(const Sharding* s, std::span<const int64_t> dims) {
  std::vector<bool> mask(static_cast<size_t>(s->data_rank()), false);
  for (int64_t dim : dims) {
    CheckInternal(dim >= 0 && dim < s->data_rank(), "no such data dim in a sharding");
    mask[static_cast<size_t>(dim)] = true;
  }
  return mask;
}

const Sharding* ReplicateMasked(Context& ctx, const Sharding* s, const std::vector<bool>& mask) {
  std::vector<int64_t> permutation, dims;
  std::vector<int64_t> replicated_dims;
  int64_t replicas = 1;
  for (int64_t i = 0; i < s->tiles.rank(); ++i) {
    const bool replicate = static_cast<size_t>(i) < mask.size() && mask[static_cast<size_t>(i)];
    dims.push_back(replicate ? 1 : s->tiles.dim(i));
    if (replicate) {
      replicated_dims.push_back(i);
      replicas *= s->tiles.dim(i);
    } else {
      permutation.push_back(i);
    }
  }
  if (replicas == 1) return s->canonical;
  permutation.insert(permutation.end(), replicated_dims.begin(), replicated_dims.end());
  dims.push_back(replicas);
  Sharding result;
  result.kind = ShardingKind::kTiled;
  result.tiles = s->tiles.Transpose(permutation).Reshape(dims);
  result.subgroups = s->subgroups;
  result.subgroups.push_back(SubgroupType::kReplicated);
  result.reduction = s->reduction;
  return ctx.Intern(std::move(result));
}

// `s` with the same flat device order read with other data dims.
const Sharding* WithDataDims(Context& ctx, const Sharding* s, const TileAssignment& tiles,
                             std::vector<int64_t> data_dims) {
  for (int64_t i = s->data_rank(); i < s->tiles.rank(); ++i) data_dims.push_back(s->tiles.dim(i));
  Sharding result;
  result.kind = ShardingKind::kTiled;
  result.tiles = tiles.Reshape(data_dims);
  result.subgroups = s->subgroups;
  result.reduction = s->reduction;
  return ctx.Intern(std::move(result));
}

std::vector<int64_t> DataDims(const Sharding* s) {
  return {s->data_dims().begin(), s->data_dims().end()};
}

int64_t CeilDivide(int64_t n, int64_t t) { return n / t + (n % t != 0 ? 1 : 0); }

const Shape* ShardShapeOfLeaves(Context& ctx, const Shape* shape,
                                std::span<const Sharding* const> leaves, size_t& next) {
  if (shape->IsTuple()) {
    std::vector<const Shape*> elements;
    for (const Shape* element : shape->elements()) {
      elements.push_back(ShardShapeOfLeaves(ctx, element, leaves, next));
    }
    return ctx.Tuple(elements);
  }
  return ShardShape(ctx, shape, leaves[next++]);
}

// Of the devices alone.
std::string WhyNotOnDevices(const Sharding* s, int64_t devices, bool subsets) {
  if (s->IsMaximal() && s->device >= devices) {
    return fmt::format("device {} does not exist: there are {} devices", s->device, devices);
  }
  if (!s->IsTiled()) return "";
  if (const int64_t limit = DeviceLimit(s->tiles); limit > s->device_count()) {
    if (limit <= devices) return "";
    return fmt::format("device {} does not exist: there are {} devices", limit - 1, devices);
  }
  if (s->device_count() == devices || (subsets && s->device_count() < devices)) return "";
  return fmt::format("the sharding is for {} devices, there are {}", s->device_count(), devices);
}

std::string WhyLeafNotApplicable(const Sharding* s, const Shape* shape, int64_t devices,
                                 bool subsets) {
  if (devices > 0) {
    if (std::string why = WhyNotOnDevices(s, devices, subsets); !why.empty()) return why;
  }
  if (!shape->IsArray()) return "";
  if (s->IsTiled() && s->data_rank() != shape->rank()) {
    return fmt::format("the sharding has {} data dims, the shape {} has {}", s->data_rank(),
                       ToString(shape, false), shape->rank());
  }
  if (s->named != nullptr && s->named->form == NamedSharding::Form::kDims &&
      std::ssize(s->named->dims) != shape->rank()) {
    return fmt::format("the sharding has {} dims, the shape {} has {}", s->named->dims.size(),
                       ToString(shape, false), shape->rank());
  }
  return "";
}

}  // namespace

const Sharding* ReplicateOnDims(Context& ctx, const Sharding* s, std::span<const int64_t> dims) {
  if (!s->IsTiled()) return s->canonical;
  return ReplicateMasked(ctx, s, Mask(s, dims));
}

const Sharding* KeepOnlyDims(Context& ctx, const Sharding* s, std::span<const int64_t> dims) {
  if (!s->IsTiled()) return s->canonical;
  std::vector<bool> mask = Mask(s, dims);
  mask.flip();
  return ReplicateMasked(ctx, s, mask);
}

const Sharding* ReplicateAllDataDims(Context& ctx, const Sharding* s, int64_t rank) {
  const Sharding* kept = KeepOnlyDims(ctx, s, {});
  if (!kept->IsTiled() || kept->data_rank() == rank) return kept;
  return WithDataDims(ctx, kept, kept->tiles, std::vector<int64_t>(static_cast<size_t>(rank), 1));
}

const Sharding* RemoveDims(Context& ctx, const Sharding* s, std::span<const int64_t> dims) {
  if (!s->IsTiled()) return s->canonical;
  const std::vector<bool> mask = Mask(s, dims);
  std::vector<int64_t> kept;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (!mask[i]) kept.push_back(s->tiles.dims()[i]);
    CheckInternal(!mask[i] || s->tiles.dims()[i] == 1, "a dim to remove is tiled");
  }
  return WithDataDims(ctx, s, s->tiles, std::move(kept));
}

const Sharding* AddDims(Context& ctx, const Sharding* s, std::span<const int64_t> dims) {
  if (!s->IsTiled()) return s->canonical;
  std::vector<int64_t> sorted(dims.begin(), dims.end());
  std::ranges::sort(sorted);
  std::vector<int64_t> data_dims = DataDims(s);
  for (int64_t dim : sorted) {
    CheckInternal(dim >= 0 && dim <= std::ssize(data_dims), "a dim to add leaves a gap");
    data_dims.insert(data_dims.begin() + dim, 1);
  }
  return WithDataDims(ctx, s, s->tiles, std::move(data_dims));
}

const Sharding* TransposeSharding(Context& ctx, const Sharding* s,
                                  std::span<const int64_t> permutation) {
  if (!s->IsTiled()) return s->canonical;
  CheckInternal(std::ssize(permutation) == s->data_rank(),
                "permutation does not match the sharding");
  std::vector<int64_t> whole = Identity(s->tiles.rank());
  std::ranges::copy(permutation, whole.begin());
  Sharding result;
  result.kind = ShardingKind::kTiled;
  result.tiles = s->tiles.Transpose(whole);
  result.subgroups = s->subgroups;
  result.reduction = s->reduction;
  return ctx.Intern(std::move(result));
}

const Sharding* MapDims(Context& ctx, const Sharding* s, std::span<const int64_t> source_to_target,
                        int64_t target_rank) {
  if (!s->IsTiled()) return s->canonical;
  CheckInternal(std::ssize(source_to_target) == s->data_rank(),
                "dim map does not match the sharding");
  std::vector<int64_t> source_of(static_cast<size_t>(target_rank), -1);
  std::vector<int64_t> permutation, dropped;
  for (int64_t i = 0; i < s->data_rank(); ++i) {
    const int64_t target = source_to_target[static_cast<size_t>(i)];
    if (target < 0) {
      if (s->tiles.dim(i) != 1) return nullptr;
      dropped.push_back(i);
      continue;
    }
    CheckInternal(target < target_rank && source_of[static_cast<size_t>(target)] < 0,
                  "two dims map to one");
    source_of[static_cast<size_t>(target)] = i;
  }
  std::vector<int64_t> data_dims;
  for (int64_t source : source_of) {
    data_dims.push_back(source < 0 ? 1 : s->tiles.dim(source));
    if (source >= 0) permutation.push_back(source);
  }
  permutation.insert(permutation.end(), dropped.begin(), dropped.end());
  for (int64_t i = s->data_rank(); i < s->tiles.rank(); ++i) permutation.push_back(i);
  return WithDataDims(ctx, s, s->tiles.Transpose(permutation), std::move(data_dims));
}

const Sharding* AlongDims(Context& ctx, const Sharding* s, std::span<const int64_t> from,
                          std::span<const int64_t> to, int64_t target_rank) {
  CheckInternal(from.size() == to.size(), "dims to map differ in number");
  const Sharding* kept = KeepOnlyDims(ctx, s, from);
  if (!kept->IsTiled()) return kept;
  std::vector<int64_t> source_to_target(static_cast<size_t>(kept->data_rank()), -1);
  for (size_t i = 0; i < from.size(); ++i) source_to_target[static_cast<size_t>(from[i])] = to[i];
  return MapDims(ctx, kept, source_to_target, target_rank);
}

const Sharding* ReverseSharding(Context& ctx, const Sharding* s, std::span<const int64_t> dims) {
  if (!s->IsTiled()) return s->canonical;
  return WithDataDims(ctx, s, s->tiles.Reverse(dims), DataDims(s));
}

const Sharding* SplitDim(Context& ctx, const Sharding* s, int64_t dim, int64_t k) {
  if (!s->IsTiled()) return s->canonical;
  std::vector<int64_t> data_dims = DataDims(s);
  int64_t& count = data_dims[static_cast<size_t>(dim)];
  CheckInternal(count % k == 0, "the tile count of a dim to split is no multiple");
  const int64_t minor = count / k;
  count = k;
  data_dims.insert(data_dims.begin() + dim + 1, minor);
  return WithDataDims(ctx, s, s->tiles, std::move(data_dims));
}

const Sharding* MergeDims(Context& ctx, const Sharding* s, int64_t dim) {
  if (!s->IsTiled()) return s->canonical;
  std::vector<int64_t> data_dims = DataDims(s);
  data_dims[static_cast<size_t>(dim)] *= data_dims[static_cast<size_t>(dim) + 1];
  data_dims.erase(data_dims.begin() + dim + 1);
  return WithDataDims(ctx, s, s->tiles, std::move(data_dims));
}

const Sharding* MoveTiles(Context& ctx, const Sharding* s, int64_t from, int64_t to) {
  if (!s->IsTiled() || from == to) return s->canonical;
  std::vector<int64_t> permutation;
  for (int64_t i = 0; i < s->tiles.rank(); ++i) {
    if (i != from) permutation.push_back(i);
    if (i == to) permutation.push_back(from);
  }
  std::vector<int64_t> data_dims = DataDims(s);
  data_dims[static_cast<size_t>(to)] *= data_dims[static_cast<size_t>(from)];
  data_dims[static_cast<size_t>(from)] = 1;
  return WithDataDims(ctx, s, s->tiles.Transpose(permutation), std::move(data_dims));
}

// --- geometry

const Shape* ShardShape(Context& ctx, const Shape* shape, const Sharding* s) {
  if (shape->IsTuple()) {
    const std::vector<const Sharding*> leaves = LeafShardings(shape, s);
    size_t next = 0;
    return ShardShapeOfLeaves(ctx, shape, leaves, next);
  }
  if (shape->kind() == ShapeKind::kBuffer) {
    return ctx.Buffer(ShardShape(ctx, shape->element(0), s));
  }
  if (!s->IsTiled() || !shape->IsArray()) return shape;
  CheckInternal(s->data_rank() == shape->rank(), "the rank of a sharding differs from its shape");
  std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != Shape::kUnbounded) dims[i] = CeilDivide(dims[i], s->tiles.dims()[i]);
  }
  return ctx.WithDims(shape, dims);
}

std::vector<int64_t> TileIndexOf(const Sharding* s, int64_t device, int64_t rank) {
  if (!s->IsTiled()) return std::vector<int64_t>(static_cast<size_t>(rank), 0);
  std::vector<int64_t> coordinate = s->tiles.CoordinateOf(device);
  coordinate.resize(static_cast<size_t>(s->data_rank()));
  return coordinate;
}

bool DividesEvenly(const Sharding* s, const Shape* shape) {
  if (s->IsTuple()) {
    size_t next = 0;
    const auto divides = [&](const auto& self, const Shape* part) -> bool {
      if (!part->IsTuple()) return DividesEvenly(s->elements[next++], part);
      return std::ranges::all_of(part->elements(), [&](const Shape* e) { return self(self, e); });
    };
    return divides(divides, shape);
  }
  if (shape->IsTuple()) {
    return std::ranges::all_of(shape->elements(),
                               [&](const Shape* e) { return DividesEvenly(s, e); });
  }
  if (!s->IsTiled() || !shape->IsArray()) return true;
  for (int64_t i = 0; i < shape->rank(); ++i) {
    if (shape->dim(i) % s->TileCount(i) != 0) return false;
  }
  return true;
}

// --- tuples

std::vector<const Sharding*> LeafShardings(const Shape* shape, const Sharding* s) {
  if (s->IsTuple()) {
    // Of an outfeed, whose sharding may list its data's before its own.
    if (!shape->IsTuple() && !s->elements.empty()) return {s->elements.back()};
    return s->elements;
  }
  return std::vector<const Sharding*>(static_cast<size_t>(shape->leaf_count()), s);
}

const Sharding* ElementSharding(Context& ctx, const Shape* shape, const Sharding* s,
                                int64_t index) {
  const Shape* element = shape->element(index);
  if (!s->IsTuple()) {
    if (!element->IsTuple()) return s;
    return ctx.TupleOf(LeafShardings(element, s));
  }
  const auto leaves = std::span(s->elements)
                          .subspan(static_cast<size_t>(shape->first_leaf(index)),
                                   static_cast<size_t>(element->leaf_count()));
  if (!element->IsTuple()) return leaves[0];
  return ctx.TupleOf({leaves.begin(), leaves.end()});
}

std::string WhyNotApplicable(const Sharding* s, const Shape* shape, int64_t devices, bool subsets) {
  if (!shape->IsTuple()) {
    if (s->IsTuple()) {
      return fmt::format("a sharding of a tuple on the shape {}, which is none",
                         ToString(shape, false));
    }
    return WhyLeafNotApplicable(s, shape, devices, subsets);
  }
  if (s->IsTuple()) {
    // An empty tuple may have no entry or one.
    const auto entries = std::ssize(s->elements);
    if (entries != shape->leaf_count() && !(shape->leaf_count() == 0 && entries == 1)) {
      return fmt::format("the sharding has {} entries, the tuple has {} leaves", entries,
                         shape->leaf_count());
    }
  }
  size_t next = 0;
  const auto check = [&](const auto& self, const Shape* part) -> std::string {
    if (!part->IsTuple()) {
      return WhyLeafNotApplicable(s->IsTuple() ? s->elements[next++] : s, part, devices, subsets);
    }
    for (const Shape* element : part->elements()) {
      if (std::string why = self(self, element); !why.empty()) return why;
    }
    return "";
  };
  return check(check, shape);
}

std::string WhyNotApplicable(const Instruction& x, int64_t devices, bool subsets) {
  if (x.opcode() != Opcode::kOutfeed || !x.sharding()->IsTuple()) {
    return WhyNotApplicable(x.sharding(), x.shape(), devices, subsets);
  }
  const std::vector<const Shape*> shapes = LeafShapes(x.operand(0)->shape());
  const std::vector<const Sharding*>& elements = x.sharding()->elements;
  if (elements.size() != shapes.size() && elements.size() != shapes.size() + 1) {
    return fmt::format("the sharding has {} entries, the data of the outfeed has {} leaves",
                       elements.size(), shapes.size());
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::string why = WhyLeafNotApplicable(elements[i], shapes[i], devices, subsets);
    if (!why.empty()) return why;
  }
  return "";
}

std::vector<const Sharding*> OutfeedShardings(const Instruction& outfeed) {
  const Sharding* s = outfeed.sharding();
  const auto leaves = static_cast<size_t>(outfeed.operand(0)->shape()->leaf_count());
  if (s == nullptr || !s->IsTuple()) return std::vector<const Sharding*>(leaves, s);
  std::vector<const Sharding*> shardings = s->elements;
  shardings.resize(leaves, nullptr);  // without the token's
  return shardings;
}

}  // namespace gshard
