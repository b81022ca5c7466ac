#include "core/partition/layout/mesh_layout.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/analysis/axis_text.h"
#include "ir/diagnostic.h"
#include "ir/hash.h"
#include "ir/sharding_text.h"

namespace gshard {

int64_t MeshLayout::TileCount() const {
  int64_t count = 1;
  for (const AxisList& list : dims) count *= AxesSize(list);
  return count;
}

bool MeshLayout::IsReplicated() const {
  if (kind != Kind::kTiled || !unreduced.empty()) return false;
  return std::all_of(dims.begin(), dims.end(), [](const AxisList& l) { return l.empty(); });
}

namespace {

size_t HashAxes(size_t seed, const AxisList& axes) {
  seed = HashCombine(seed, axes.size());
  for (const DeviceAxis& axis : axes) {
    seed = HashCombine(seed, static_cast<uint64_t>(axis.size));
    seed = HashCombine(seed, static_cast<uint64_t>(axis.stride));
  }
  return seed;
}

// A tiled layout without partial values whose parts lie elsewhere.
struct LayoutParts {
  std::span<const AxisList* const> dims;
  const AxisList& manual;
  const DeviceOrder* order;
};

struct MeshLayoutHash {
  using is_transparent = void;
  size_t operator()(const MeshLayout* layout) const {
    size_t seed = Start(layout->kind, layout->device, layout->combiner, layout->order);
    for (const AxisList& list : layout->dims) seed = HashAxes(seed, list);
    return HashAxes(HashAxes(seed, layout->unreduced), layout->manual);
  }
  size_t operator()(const LayoutParts& parts) const {
    size_t seed = Start(MeshLayout::Kind::kTiled, 0, Opcode::kAdd, parts.order);
    for (const AxisList* list : parts.dims) seed = HashAxes(seed, *list);
    return HashAxes(HashAxes(seed, AxisList()), parts.manual);
  }

 private:
  static size_t Start(MeshLayout::Kind kind, int64_t device, Opcode combiner,
                      const DeviceOrder* order) {
    size_t seed = HashCombine(static_cast<size_t>(kind), static_cast<uint64_t>(device));
    return HashPointer(HashCombine(seed, static_cast<uint64_t>(combiner)), order);
  }
};

struct MeshLayoutEqual {
  using is_transparent = void;
  bool operator()(const MeshLayout* a, const MeshLayout* b) const { return *a == *b; }
  bool operator()(const LayoutParts& a, const MeshLayout* b) const { return (*this)(b, a); }
  bool operator()(const MeshLayout* a, const LayoutParts& b) const {
    return a->kind == MeshLayout::Kind::kTiled && a->unreduced.empty() && a->order == b.order &&
           a->manual == b.manual &&
           std::equal(a->dims.begin(), a->dims.end(), b.dims.begin(), b.dims.end(),
                      [](const AxisList& x, const AxisList* y) { return x == *y; });
  }
};

struct ShardingKeyHash {
  size_t operator()(const std::pair<const Sharding*, int64_t>& key) const {
    return HashPointer(static_cast<size_t>(key.second), key.first);
  }
};

Opcode CombinerOfReduction(ReductionKind reduction) {
  switch (reduction) {
    case ReductionKind::kSum:
      return Opcode::kAdd;
    case ReductionKind::kMax:
      return Opcode::kMaximum;
    case ReductionKind::kMin:
      return Opcode::kMinimum;
  }
  return Opcode::kAdd;
}

}  // namespace

struct MeshLayoutTable::Tables {
  std::deque<MeshLayout> storage;
  tsl::robin_map<const MeshLayout*, const MeshLayout*, MeshLayoutHash, MeshLayoutEqual> interned;
  tsl::robin_map<std::pair<const Sharding*, int64_t>, const MeshLayout*, ShardingKeyHash> converted;
  tsl::robin_map<const MeshLayout*, const Sharding*> shardings;
  std::map<const MeshLayout*, std::string> texts;
  std::map<std::vector<int64_t>, std::unique_ptr<DeviceOrder>> orders;
  std::vector<const MeshLayout*> replicated;  // by rank
  std::map<std::pair<const MeshLayout*, std::vector<int64_t>>, const MeshLayout*> mirrored;
};

MeshLayoutTable::MeshLayoutTable(Context& context, int64_t device_count, const Mesh* mesh)
    : context_(context),
      device_count_(device_count),
      mesh_(mesh),
      tables_(std::make_unique<Tables>()) {}
MeshLayoutTable::~MeshLayoutTable() = default;

const MeshLayout* MeshLayoutTable::Intern(MeshLayout layout) {
  for (AxisList& list : layout.dims) {
    if (!IsMerged(list)) list = MergedAxes(list);
  }
  if (!layout.unreduced.empty()) layout.unreduced = SortedAxes(layout.unreduced);
  if (layout.unreduced.empty()) layout.combiner = Opcode::kAdd;
  if (layout.order != nullptr && layout.unreduced.empty() && layout.manual.empty() &&
      layout.TileCount() == 1) {
    layout.order = nullptr;
  }
  auto found = tables_->interned.find(&layout);
  if (found != tables_->interned.end()) return found->second;
  const MeshLayout* kept = &tables_->storage.emplace_back(std::move(layout));
  tables_->interned.emplace(kept, kept);
  return kept;
}

const MeshLayout* MeshLayoutTable::FromSharding(const Sharding* sharding, int64_t rank) {
  if (sharding == nullptr) return Replicated(rank);
  sharding = sharding->canonical;
  std::pair<const Sharding*, int64_t> key(sharding, rank);
  auto found = tables_->converted.find(key);
  if (found != tables_->converted.end()) return found->second;

  MeshLayout layout;
  layout.dims.resize(static_cast<size_t>(rank));
  switch (sharding->kind) {
    case ShardingKind::kReplicated:
    case ShardingKind::kUnknown:
      break;
    case ShardingKind::kMaximal:
      layout.kind = MeshLayout::Kind::kMaximal;
      layout.device = sharding->device;
      break;
    case ShardingKind::kManual:
      layout.kind = MeshLayout::Kind::kManual;
      break;
    case ShardingKind::kUnreduced:
      layout.unreduced = {{device_count_, 1}};
      layout.combiner = CombinerOfReduction(sharding->reduction);
      break;
    case ShardingKind::kTiled: {
      const TileAssignment* tiles = &sharding->tiles;
      TileAssignment in_order;
      bool has_view = tiles->has_axes();
      for (int64_t i = 0; has_view && i < tiles->rank(); ++i) {
        has_view = tiles->AxesOfDim(i).has_value();
      }
      if (!has_view) {
        std::vector<int64_t> devices = tiles->ToList();
        std::unique_ptr<DeviceOrder>& order = tables_->orders[devices];
        if (order == nullptr) {
          order = std::make_unique<DeviceOrder>();
          order->positions.resize(devices.size());
          for (size_t i = 0; i < devices.size(); ++i) {
            order->positions[static_cast<size_t>(devices[i])] = static_cast<int64_t>(i);
          }
          order->devices = std::move(devices);
        }
        layout.order = order.get();
        in_order = TileAssignment::Iota(tiles->dims());
        tiles = &in_order;
      }
      CheckInternal(sharding->data_rank() == rank, "sharding of another rank");
      for (int64_t i = 0; i < tiles->rank(); ++i) {
        AxisList axes = *tiles->AxesOfDim(i);
        if (i < rank) {
          layout.dims[static_cast<size_t>(i)] = std::move(axes);
          continue;
        }
        switch (sharding->subgroups[static_cast<size_t>(i - rank)]) {
          case SubgroupType::kManual:
            layout.manual = MergedAxes(axes);
            break;
          case SubgroupType::kUnreduced:
            layout.unreduced = std::move(axes);
            layout.combiner = CombinerOfReduction(sharding->reduction);
            break;
          case SubgroupType::kMaximal:
          case SubgroupType::kReplicated:
            break;
        }
      }
      break;
    }
    case ShardingKind::kTuple:
      throw InternalError("layout of a tuple sharding");
  }
  const MeshLayout* interned = Intern(std::move(layout));
  tables_->converted.emplace(key, interned);
  return interned;
}

const Sharding* MeshLayoutTable::ToSharding(const MeshLayout* layout) {
  auto found = tables_->shardings.find(layout);
  if (found != tables_->shardings.end()) return found->second;
  const Sharding* sharding = nullptr;
  if (layout->IsMaximal()) {
    sharding = context_.Maximal(layout->device);
  } else if (layout->IsManual()) {
    sharding = context_.Manual();
  } else {
    std::vector<int64_t> dims;
    std::vector<DeviceAxis> axes;
    std::vector<SubgroupType> subgroups;
    auto append = [&](const AxisList& list) {
      dims.push_back(AxesSize(list));
      axes.insert(axes.end(), list.begin(), list.end());
    };
    for (const AxisList& list : layout->dims) append(list);
    auto append_subgroup = [&](const AxisList& list, SubgroupType type) {
      if (list.empty()) return;
      append(list);
      subgroups.push_back(type);
    };
    append_subgroup(layout->manual, SubgroupType::kManual);
    append_subgroup(layout->unreduced, SubgroupType::kUnreduced);
    append_subgroup(ComplementAxes(axes, device_count_), SubgroupType::kReplicated);
    TileAssignment tiles = TileAssignment::FromAxes(dims, axes);
    if (layout->order != nullptr) {
      std::vector<int64_t> devices = tiles.ToList();
      for (int64_t& d : devices) d = layout->order->devices[static_cast<size_t>(d)];
      tiles = TileAssignment::List(dims, std::move(devices));
    }
    sharding = device_count_ == 1 ? context_.Replicated()
                                  : context_.Tiled(std::move(tiles), std::move(subgroups));
  }
  tables_->shardings.emplace(layout, sharding);
  return sharding;
}

const std::string& MeshLayoutTable::ToText(const MeshLayout* layout) {
  auto [found, added] = tables_->texts.try_emplace(layout);
  if (added) found->second = AxisText(context_, ToSharding(layout), mesh_);
  return found->second;
}

const MeshLayout* MeshLayoutTable::Replicated(int64_t rank) {
  auto index = static_cast<size_t>(rank);
  while (tables_->replicated.size() <= index) {
    MeshLayout layout;
    layout.dims.resize(tables_->replicated.size());
    tables_->replicated.push_back(Intern(std::move(layout)));
  }
  return tables_->replicated[index];
}

const MeshLayout* MeshLayoutTable::ReplicatedLike(const MeshLayout* like, int64_t rank) {
  if (like->kind == MeshLayout::Kind::kTiled && like->manual.empty()) return Replicated(rank);
  MeshLayout layout;
  layout.kind = like->IsManual() ? MeshLayout::Kind::kManual : MeshLayout::Kind::kTiled;
  layout.manual = like->manual;
  layout.order = like->order;
  layout.dims.resize(static_cast<size_t>(rank));
  return Intern(std::move(layout));
}

const MeshLayout* MeshLayoutTable::WithDims(const MeshLayout* layout, std::vector<AxisList> dims) {
  MeshLayout result;
  result.manual = layout->manual;
  result.order = layout->order;
  result.dims = std::move(dims);
  return Intern(std::move(result));
}

const MeshLayout* MeshLayoutTable::WithDims(const MeshLayout* layout,
                                            std::span<const AxisList* const> dims) {
  bool is_cut =
      std::any_of(dims.begin(), dims.end(), [](const AxisList* list) { return !list->empty(); });
  LayoutParts parts{dims, layout->manual,
                    is_cut || !layout->manual.empty() ? layout->order : nullptr};
  auto found = tables_->interned.find(parts);
  if (found != tables_->interned.end()) return found->second;
  std::vector<AxisList> copies;
  for (const AxisList* list : dims) copies.push_back(*list);
  return WithDims(layout, std::move(copies));
}

const MeshLayout* MeshLayoutTable::Transposed(const MeshLayout* layout,
                                              std::span<const int64_t> permutation) {
  MeshLayout result = *layout;
  for (size_t i = 0; i < permutation.size(); ++i) result.dims[i] = layout->axes(permutation[i]);
  return Intern(std::move(result));
}

const MeshLayout* MeshLayoutTable::WithDimsWhole(const MeshLayout* layout,
                                                 std::span<const int64_t> dims) {
  MeshLayout result = *layout;
  for (int64_t dim : dims) result.dims[static_cast<size_t>(dim)].clear();
  return Intern(std::move(result));
}

const MeshLayout* MeshLayoutTable::Mirrored(const MeshLayout* layout,
                                            std::span<const int64_t> dims) {
  std::vector<int64_t> cut;
  for (int64_t dim : dims) {
    if (layout->IsSharded(dim)) cut.push_back(dim);
  }
  if (cut.empty()) return layout;
  const MeshLayout*& mirrored = tables_->mirrored[{layout, cut}];
  if (mirrored == nullptr) {
    const Sharding* sharding = ToSharding(layout);
    mirrored = FromSharding(context_.Tiled(sharding->tiles.Reverse(cut), sharding->subgroups),
                            layout->rank());
  }
  return mirrored;
}

const MeshLayout* MeshLayoutTable::WithoutEmptyTiles(const MeshLayout* layout, const Shape* shape) {
  if (layout->kind != MeshLayout::Kind::kTiled || !shape->IsArray()) return layout;
  bool is_over_cut = false;
  for (int64_t d = 0; d < layout->rank(); ++d) {
    is_over_cut |= layout->IsSharded(d) && layout->Count(d) > shape->dim(d);
  }
  if (!is_over_cut) return layout;
  MeshLayout result = *layout;
  for (int64_t d = 0; d < layout->rank(); ++d) {
    int64_t size = std::max<int64_t>(shape->dim(d), 1);
    AxisList kept;
    int64_t count = 1;
    for (const DeviceAxis& axis : layout->axes(d)) {
      if (count >= size) break;
      // The fewest of this axis's tiles (a divisor) that leave one element to each.
      int64_t part = axis.size;
      for (int64_t p = 1; p < axis.size; ++p) {
        if (axis.size % p == 0 && count * p >= size) {
          part = p;
          break;
        }
      }
      kept.push_back({part, axis.stride * (axis.size / part)});
      count *= part;
      if (part != axis.size) break;
    }
    result.dims[static_cast<size_t>(d)] = std::move(kept);
  }
  return Intern(std::move(result));
}

const MeshLayout* MeshLayoutTable::Reduced(const MeshLayout* layout) {
  if (layout->unreduced.empty()) return layout;
  MeshLayout result = *layout;
  result.unreduced.clear();
  return Intern(std::move(result));
}

ReplicaGroups MeshLayoutTable::Groups(const MeshLayout* layout, AxisSpan axes,
                                      int64_t replica_count) {
  AxisList all = ComplementAxes(axes, device_count_);
  if (replica_count > 1) all.insert(all.begin(), {replica_count, device_count_});
  int64_t size = AxesSize(axes);
  int64_t count = device_count_ * replica_count / size;
  all.insert(all.end(), axes.begin(), axes.end());
  const int64_t dims[] = {count, size};
  TileAssignment groups = TileAssignment::FromAxes(dims, std::move(all));
  if (layout->order != nullptr) {
    std::vector<std::vector<int64_t>> lists(static_cast<size_t>(count));
    std::vector<int64_t> positions = groups.ToList();
    for (size_t i = 0; i < positions.size(); ++i) {
      int64_t replica = positions[i] / device_count_;
      int64_t device = layout->order->devices[static_cast<size_t>(positions[i] % device_count_)];
      lists[i / static_cast<size_t>(size)].push_back(replica * device_count_ + device);
    }
    return ReplicaGroups::FromLists(std::move(lists));
  }
  ReplicaGroups::Form form =
      groups.has_axes() ? ReplicaGroups::Form::kIota : ReplicaGroups::Form::kLists;
  return ReplicaGroups::FromTiles(std::move(groups), form);
}

namespace {

// To the first of `dims`.
void WriteLocalDims(const Shape* base, const MeshLayout* layout, std::span<int64_t> dims) {
  std::ranges::copy(base->dims(), dims.begin());
  if (layout->kind != MeshLayout::Kind::kTiled) return;
  for (size_t i = 0; i < base->dims().size(); ++i) {
    if (!layout->dims[i].empty()) dims[i] = CeilOfRatio(dims[i], AxesSize(layout->dims[i]));
  }
}

}  // namespace

std::vector<int64_t> LocalDims(const Shape* base, const MeshLayout* layout) {
  std::vector<int64_t> dims(base->dims().size());
  WriteLocalDims(base, layout, dims);
  return dims;
}

const Shape* LocalShape(Context& context, const Shape* base, const MeshLayout* layout) {
  if (!base->IsArray() || layout->kind != MeshLayout::Kind::kTiled) return base;
  bool whole = true;
  for (const AxisList& list : layout->dims) whole &= list.empty();
  if (whole) return base;
  std::array<int64_t, 8> few;  // of most arrays: no memory is allocated
  if (layout->dims.size() > few.size()) return context.WithDims(base, LocalDims(base, layout));
  WriteLocalDims(base, layout, few);
  return context.WithDims(base, std::span(few).first(layout->dims.size()));
}

const Shape* LocalShapeByLeaf(Context& context, const Shape* base,
                              std::span<const MeshLayout* const> leaves) {
  if (!base->IsTuple()) return LocalShape(context, base, leaves[0]);
  std::vector<const Shape*> elements;
  for (const Shape* element : base->elements()) {
    auto count = static_cast<size_t>(element->leaf_count());
    elements.push_back(LocalShapeByLeaf(context, element, leaves.first(count)));
    leaves = leaves.subspan(count);
  }
  return context.Tuple(elements);
}

bool DividesEvenly(const Shape* base, const MeshLayout* layout, int64_t dim) {
  return base->dim(dim) % layout->Count(dim) == 0;
}

bool DividesEvenly(const Shape* base, const MeshLayout* layout) {
  for (int64_t i = 0; i < layout->rank(); ++i) {
    if (!DividesEvenly(base, layout, i)) return false;
  }
  return true;
}

std::vector<int64_t> TileAt(const MeshLayout* layout, int64_t position) {
  std::vector<int64_t> tile;
  for (const AxisList& list : layout->dims) tile.push_back(CoordinateOnAxes(list, position));
  return tile;
}

}  // namespace gshard
