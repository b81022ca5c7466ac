// Gather and scatter by labels. A dim of the operand is cut together with the indices (batching
// dims, or an index that counts along a dim of the indices), together with the result or the
// updates (windows that span it), or on its own: then every device looks up, or writes, what lies
// in its own tile.
#include <algorithm>
#include <optional>

#include "core/analysis/indexed_dims.h"
#include "core/partition/ops/rules.h"
#include "core/partition/scope/masking.h"
#include "core/partition/scope/own_rows.h"
#include "core/partition/scope/partial_values.h"
#include "core/partition/scope/range_cut.h"
#include "ir/constant_fill.h"
#include "ir/custom_call.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

// The dim along which the elements are their own position, if there is one.
std::optional<int64_t> IotaDim(const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kIota:
      return x->attributes<IotaAttributes>().dimension;
    case Opcode::kConvert:
    case Opcode::kCopy:
      return IotaDim(x->operand(0));
    case Opcode::kCustomCall:
      if (!IsCustomCallTo(*x, kShardingTarget)) return std::nullopt;
      return IotaDim(x->operand(0));
    case Opcode::kBroadcast: {
      std::optional<int64_t> dim = IotaDim(x->operand(0));
      if (!dim.has_value()) return dim;
      return x->attributes<DimensionsAttributes>().dimensions[At(*dim)];
    }
    case Opcode::kTranspose: {
      std::optional<int64_t> dim = IotaDim(x->operand(0));
      if (!dim.has_value()) return dim;
      Dims permutation = x->attributes<DimensionsAttributes>().dimensions;
      return std::find(permutation.begin(), permutation.end(), *dim) - permutation.begin();
    }
    case Opcode::kReshape: {  // that adds and drops dims of size 1
      std::optional<int64_t> dim = IotaDim(x->operand(0));
      if (!dim.has_value()) return dim;
      Dims from = x->operand(0)->shape()->dims();
      Dims to = x->shape()->dims();
      if (from[At(*dim)] == 1) return std::nullopt;
      size_t t = 0;
      std::optional<int64_t> found;
      for (size_t f = 0; f < from.size(); ++f) {
        if (from[f] == 1) continue;
        while (t < to.size() && to[t] == 1) ++t;
        if (t == to.size() || to[t] != from[f]) return std::nullopt;
        if (f == At(*dim)) found = static_cast<int64_t>(t);
        ++t;
      }
      return found;
    }
    case Opcode::kSelect: {  // x < 0 ? x + size : x, of an x that counts
      const Instruction* test = x->operand(0);
      std::optional<int64_t> dim = IotaDim(x->operand(2));
      if (!dim.has_value() || test->opcode() != Opcode::kCompare ||
          test->attributes<CompareAttributes>().direction != ComparisonDirection::kLt ||
          test->operand(0) != x->operand(2) || !IsFilledWithZero(test->operand(1))) {
        return std::nullopt;
      }
      return dim;
    }
    default:
      return std::nullopt;
  }
}

// The dim of `indices` along which component `c` of the index vectors counts.
std::optional<int64_t> ComponentIotaDim(const Instruction* indices, int64_t vector_dim, int64_t c) {
  if (vector_dim == indices->shape()->rank()) return IotaDim(indices);
  const Instruction* part = indices;
  if (indices->opcode() == Opcode::kConcatenate &&
      indices->attributes<DimensionsAttributes>().dimensions[0] == vector_dim) {
    for (const Instruction* operand : indices->operands()) {
      part = operand;
      int64_t size = operand->shape()->dim(vector_dim);
      if (c < size) break;
      c -= size;
    }
  }
  if (part->shape()->dim(vector_dim) != 1) return std::nullopt;
  std::optional<int64_t> dim = IotaDim(part);
  return dim == vector_dim ? std::nullopt : dim;
}

// How one dim of the operand takes part.
struct OperandDim {
  enum class Kind : uint8_t {
    kWhole,        // not to be cut
    kBatch,        // a batching dim
    kParallel,     // indexed by a component that counts along a dim of the indices
    kPassThrough,  // the window spans it
    kIndexed,      // indexed, windows of `window` elements
  };
  Kind kind = Kind::kWhole;
  int64_t component = -1;   // of the index vectors; -1: not indexed
  int64_t index_dim = -1;   // kBatch, kParallel: the dim of the indices
  int64_t window_dim = -1;  // of the result (updates): -1 if the window is 1 wide and dropped
  int64_t window = 1;       // window size
};

// Which dims of the operand, of the indices and of the windowed array (the gather's result, the
// scatter's updates) the attributes of a gather or scatter name.
struct IndexingDims {
  Dims window, dropped, index_map, operand_batch, indices_batch;
  int64_t vector_dim;
};

IndexingDims IndexingDimsOf(const GatherAttributes& gather) {
  return {
      gather.offset_dims,           gather.collapsed_slice_dims,        gather.start_index_map,
      gather.operand_batching_dims, gather.start_indices_batching_dims, gather.index_vector_dim};
}
IndexingDims IndexingDimsOf(const ScatterAttributes& scatter) {
  return {scatter.update_window_dims,
          scatter.inserted_window_dims,
          scatter.scatter_dims_to_operand_dims,
          scatter.input_batching_dims,
          scatter.scatter_indices_batching_dims,
          scatter.index_vector_dim};
}

// What gather and scatter have in common.
struct Geometry {
  std::vector<OperandDim> operand;
  std::vector<int64_t> windowed_of;  // dim of the windowed array, by dim of the indices
  int64_t vector_dim = 0;
};

Geometry MakeGeometry(const Instruction* indices, const Shape* operand, const IndexingDims& dims,
                      const Shape* windowed) {
  Geometry geometry;
  geometry.vector_dim = dims.vector_dim;
  int64_t index_rank = indices->shape()->rank();
  geometry.windowed_of.assign(At(index_rank), -1);
  int64_t out = 0;
  for (int64_t d = 0; d < index_rank; ++d) {
    if (d == dims.vector_dim) continue;
    while (Contains(dims.window, out)) ++out;
    geometry.windowed_of[At(d)] = out++;
  }
  size_t next_window = 0;
  std::vector<uint8_t> taken(At(index_rank), 0);
  for (int64_t d : dims.indices_batch) taken[At(d)] = 1;
  for (int64_t d = 0; d < operand->rank(); ++d) {
    OperandDim dim;
    auto batch = std::find(dims.operand_batch.begin(), dims.operand_batch.end(), d);
    if (batch != dims.operand_batch.end()) {
      dim.kind = OperandDim::Kind::kBatch;
      dim.index_dim = dims.indices_batch[static_cast<size_t>(batch - dims.operand_batch.begin())];
      geometry.operand.push_back(dim);
      continue;
    }
    if (!Contains(dims.dropped, d)) {
      dim.window_dim = dims.window[next_window++];
      dim.window = windowed->dim(dim.window_dim);
    }
    auto indexed = std::find(dims.index_map.begin(), dims.index_map.end(), d);
    if (indexed != dims.index_map.end()) dim.component = indexed - dims.index_map.begin();
    if (dim.window == operand->dim(d) && dim.window_dim >= 0) {
      dim.kind = OperandDim::Kind::kPassThrough;
    } else if (dim.component >= 0) {
      dim.kind = OperandDim::Kind::kIndexed;
      std::optional<int64_t> counting;
      if (dim.window == 1) {
        counting = ComponentIotaDim(indices, dims.vector_dim, dim.component);
      }
      if (counting.has_value() && taken[At(*counting)] == 0 &&
          indices->shape()->dim(*counting) == operand->dim(d)) {
        dim.kind = OperandDim::Kind::kParallel;
        dim.index_dim = *counting;
        taken[At(*counting)] = 1;
      }
    }
    geometry.operand.push_back(dim);
  }
  return geometry;
}

// The components of the index vectors, each of the indices' shape with a vector dim of size 1 (or
// without one).
class IndexComponents {
 public:
  IndexComponents(PartitionContext& rule, Instruction* indices, int64_t vector_dim)
      : rule_(rule), vector_dim_(vector_dim) {
    bool has_dim = vector_dim < indices->shape()->rank();
    int64_t count = has_dim ? indices->shape()->dim(vector_dim) : 1;
    for (int64_t c = 0; c < count; ++c) {
      parts_.push_back(has_dim ? rule.builder().SliceDim(indices, vector_dim, c, c + 1) : indices);
    }
  }
  Instruction*& operator[](int64_t c) { return parts_[At(c)]; }
  int64_t count() const { return static_cast<int64_t>(parts_.size()); }
  Instruction* Joined() {
    return parts_.size() == 1 ? parts_[0] : rule_.builder().Concatenate(parts_, vector_dim_);
  }
  Instruction* Filled(Instruction* scalar) {
    return rule_.builder().BroadcastScalar(scalar, parts_[0]->shape()->dims());
  }
  Instruction* Filled(int64_t value, DType type = DType::kS32) {
    return Filled(rule_.geometry().Int(value, type));
  }
  // parts[c] - offset + bias.
  void Localise(int64_t c, Instruction* offset, int64_t bias) {
    Instruction*& part = parts_[At(c)];
    DType type = offset->shape()->dtype();
    part = rule_.builder().Convert(part, type);
    part = rule_.builder().Binary(Opcode::kSubtract, part, Filled(offset));
    if (bias != 0) part = rule_.builder().Binary(Opcode::kAdd, part, Filled(bias, type));
  }
  // All of one type: the widest in use.
  void Unify() {
    DType widest = DType::kS32;
    for (Instruction* part : parts_) {
      if (part->shape()->dtype() == DType::kS64) widest = DType::kS64;
    }
    for (Instruction*& part : parts_) part = rule_.builder().Convert(part, widest);
  }

 private:
  PartitionContext& rule_;
  int64_t vector_dim_;
  std::vector<Instruction*> parts_;
};

// A condition on index vectors without their dim, which is of size 1.
Instruction* WithoutVectorDim(PartitionContext& rule, Instruction* condition,
                              const Geometry& geometry) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < condition->shape()->rank(); ++d) {
    if (d != geometry.vector_dim) dims.push_back(condition->shape()->dim(d));
  }
  return rule.builder().Reshape(condition, dims);
}

// Such a condition as one on the windowed array.
Instruction* OnWindows(PartitionContext& rule, Instruction* condition, const Geometry& geometry,
                       std::span<const int64_t> windowed_dims) {
  std::vector<int64_t> targets;
  for (int64_t d : geometry.windowed_of) {
    if (d >= 0) targets.push_back(d);
  }
  return rule.builder().Broadcast(condition, windowed_dims, targets);
}

Instruction* Both(Builder& builder, Instruction* a, Instruction* b) {
  return a == nullptr ? b : builder.Binary(Opcode::kAnd, a, b);
}

Labels GatherLabels(const PartitionContext& rule, const Geometry& geometry) {
  const Shape* from = rule.operand_shape(0);
  const Shape* to = rule.source().shape();
  Labels labels;
  labels.operands = {std::vector<int>(At(from->rank()), Labels::kWhole),
                     std::vector<int>(At(rule.operand_shape(1)->rank()), Labels::kWhole)};
  labels.results = {std::vector<int>(At(to->rank()), Labels::kWhole)};
  labels.placed_by_operands = true;
  labels.combiner = DisjointCombiner(from->dtype());
  labels.flops = static_cast<double>(to->element_count());
  for (size_t d = 0; d < geometry.windowed_of.size(); ++d) {
    if (geometry.windowed_of[d] < 0) continue;
    labels.operands[1][d] = labels.results[0][At(geometry.windowed_of[d])] = labels.Add();
  }
  for (size_t d = 0; d < geometry.operand.size(); ++d) {
    const OperandDim& dim = geometry.operand[d];
    int& label = labels.operands[0][d];
    switch (dim.kind) {
      case OperandDim::Kind::kWhole:
        break;
      case OperandDim::Kind::kBatch:
      case OperandDim::Kind::kParallel:
        label = labels.operands[1][At(dim.index_dim)];
        break;
      case OperandDim::Kind::kPassThrough:
        label = labels.results[0][At(dim.window_dim)] = labels.Add();
        break;
      case OperandDim::Kind::kIndexed:
        if (CanMerge(from->dtype())) label = labels.Add({.summed = true});
        break;
    }
  }
  return labels;
}

// A gather from one tile of the operand: index vectors count from the tile's start, windows that
// are not in it give the identity.
class LocalGather {
 public:
  LocalGather(PartitionContext& rule, const Geometry& geometry, const Strategy& strategy)
      : rule_(rule),
        geometry_(geometry),
        layout_(strategy.operands[0]),
        attributes_(rule.attributes<GatherAttributes>()),
        sizes_(attributes_.slice_sizes.begin(), attributes_.slice_sizes.end()),
        operand_(rule.Operand(0, layout_)),
        indices_(rule.Operand(1, strategy.operands[1])),
        components_(rule, indices_, attributes_.index_vector_dim),
        nothing_(ReductionIdentity(rule.scope(), operand_->shape()->dtype())) {}

  // Per index vector, without its dim: whether the window is in the tile; null: all are. Of what
  // was emitted.
  Instruction* own_rows() const { return own_rows_; }
  // What was emitted before windows that are not in the tile were made the identity.
  Instruction* unmasked() const { return unmasked_; }

  Instruction* Emit(const Shape* shape) {
    const Shape* from = rule_.operand_shape(0);
    bool changed = false;
    for (int64_t d = 0; d < from->rank(); ++d) {
      if (!layout_->IsSharded(d)) continue;
      changed |= geometry_.operand[At(d)].component >= 0;
      Localise(d);
    }
    if (changed) JoinIndices();
    Builder& builder = rule_.builder();
    attributes_.slice_sizes = builder.Copy(sizes_);
    Instruction* operands[] = {operand_, indices_};
    Instruction* local = builder.Add(Opcode::kGather, operands, attributes_, shape);
    unmasked_ = local;
    if (is_in_ != nullptr) {
      own_rows_ = WithoutVectorDim(rule_, is_in_, geometry_);
      Instruction* valid = OnWindows(rule_, own_rows_, geometry_, shape->dims());
      local = builder.Select(valid, local, builder.BroadcastScalar(nothing_, shape->dims()));
      local->set_shape(shape);
    }
    return local;
  }

 private:
  // A cut dim of the operand.
  void Localise(int64_t d) {
    const OperandDim& dim = geometry_.operand[At(d)];
    Instruction* offset = rule_.geometry().Offset(rule_.operand_shape(0), layout_, d);
    const int64_t tile = operand_->shape()->dim(d);
    switch (dim.kind) {
      case OperandDim::Kind::kPassThrough:
        sizes_[At(d)] = tile;
        if (dim.component >= 0) components_[dim.component] = components_.Filled(int64_t{0});
        break;
      case OperandDim::Kind::kParallel:
        components_.Localise(dim.component, offset, 0);
        break;
      case OperandDim::Kind::kIndexed:
        LocaliseIndexed(d, offset, tile);
        break;
      default:
        break;
    }
  }

  void LocaliseIndexed(int64_t d, Instruction* offset, int64_t tile) {
    const OperandDim& dim = geometry_.operand[At(d)];
    const Shape* from = rule_.operand_shape(0);
    Builder& builder = rule_.builder();
    Instruction*& part = components_[dim.component];
    part = ClampedIndex(rule_.scope(), part, from->dim(d) - dim.window);
    if (dim.window > 1) {  // the edges of windows that reach into the tile
      std::vector<PadDim> padding(At(from->rank()));
      padding[At(d)] = {dim.window, dim.window, 0};
      operand_ = builder.Pad(operand_, nothing_, padding);
      components_.Localise(dim.component, offset, dim.window);
      return;
    }
    components_.Localise(dim.component, offset, 0);
    const DType type = part->shape()->dtype();
    is_in_ = Both(builder, is_in_,
                  builder.Compare(ComparisonDirection::kGe, part, components_.Filled(0, type)));
    is_in_ = Both(builder, is_in_,
                  builder.Compare(ComparisonDirection::kLt, part, components_.Filled(tile, type)));
  }

  void JoinIndices() {
    const Shape* from = rule_.operand_shape(0);
    for (int64_t d = 0; d < from->rank(); ++d) {  // the others, before they are narrowed
      const OperandDim& dim = geometry_.operand[At(d)];
      if (dim.component < 0 || layout_->IsSharded(d)) continue;
      Instruction*& part = components_[dim.component];
      part = ClampedIndex(rule_.scope(), part, from->dim(d) - sizes_[At(d)]);
    }
    components_.Unify();
    indices_ = components_.Joined();
    attributes_.indices_are_sorted = false;
  }

  PartitionContext& rule_;
  const Geometry& geometry_;
  const MeshLayout* layout_;
  GatherAttributes attributes_;
  std::vector<int64_t> sizes_;
  Instruction* operand_;
  Instruction* indices_;
  IndexComponents components_;
  Instruction* nothing_;
  Instruction* is_in_ = nullptr;  // per index vector: its window is in the tile
  Instruction* own_rows_ = nullptr;
  Instruction* unmasked_ = nullptr;
};

// The dims of the result that rows are, and what owners of rows are known.
struct RowsAndOwners {
  GatheredRows rows;
  PartitionedValue** owners = nullptr;
};

RowsAndOwners RowsOf(PartitionContext& rule, const Geometry& geometry) {
  RowsAndOwners result;
  const PartitionedValue& operand = *rule.operand(0);
  if (operand.variants.empty()) return result;
  const MeshLayout* has = operand.variants[0].layout;
  if (has->kind != MeshLayout::Kind::kTiled || IsPartial({&has, 1})) return result;
  AxisList& tiles = result.rows.tiles;
  std::vector<int64_t> key = {reinterpret_cast<int64_t>(rule.operand(1)),
                              reinterpret_cast<int64_t>(has->order), geometry.vector_dim};
  for (size_t d = 0; d < geometry.operand.size(); ++d) {
    const OperandDim& dim = geometry.operand[d];
    if (dim.kind != OperandDim::Kind::kIndexed || dim.window != 1 || has->dims[d].empty()) continue;
    tiles.insert(tiles.end(), has->dims[d].begin(), has->dims[d].end());
    key.insert(key.end(), {dim.component, operand.shape->dim(static_cast<int64_t>(d)),
                           std::ssize(has->dims[d])});
    for (const DeviceAxis& axis : has->dims[d]) key.insert(key.end(), {axis.size, axis.stride});
  }
  if (tiles.empty()) return result;
  // Dims of size 1 say nothing of a row, and reshapes lose them.
  const Shape* shape = rule.source().shape();
  for (bool all : {false, true}) {
    if (!result.rows.dims.empty()) break;
    for (int64_t d : geometry.windowed_of) {
      if (d >= 0 && (all || shape->dim(d) > 1)) result.rows.dims.push_back(d);
    }
  }
  result.owners = &rule.scope().RowOwners(key);
  result.rows.owners = *result.owners;
  return result;
}

// PartitionedValue::own_rows of a gather's result. `own`: per index vector, without its dim.
PartitionedValue* OwnersOf(PartitionContext& rule, const Geometry& geometry,
                           const GatheredRows& gathered, Instruction* own,
                           const PartitionedValue& value) {
  const MeshLayout* layout = value.variants[0].layout;
  MeshLayout rows = *layout;
  rows.manual.insert(rows.manual.end(), layout->unreduced.begin(), layout->unreduced.end());
  rows.unreduced.clear();
  rows.dims.clear();
  MeshLayout kept = rows;
  std::vector<int64_t> dims, kept_dims;
  for (int64_t d : geometry.windowed_of) {
    if (d < 0) continue;
    const bool is_kept = Contains(gathered.dims, d);
    dims.push_back(value.shape->dim(d));
    rows.dims.push_back(layout->dims[At(d)]);
    if (!is_kept) continue;
    kept_dims.push_back(value.shape->dim(d));
    kept.dims.push_back(layout->dims[At(d)]);
  }
  PartitionScope& scope = rule.scope();
  const MeshLayout* has = rule.layouts().Intern(std::move(rows));
  PartitionedValue* owners = scope.NewValue(rule.context().Array(DType::kPred, dims), has, own);
  if (kept_dims.size() == dims.size()) return owners;
  std::vector<AxisList> lists = has->dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) lists[d].clear();
  }
  const Shape* shape = rule.context().Array(DType::kPred, kept_dims);
  const MeshLayout* without = rule.layouts().Intern(std::move(kept));
  Instruction* local = rule.Move(owners, rule.layouts().WithDims(has, std::move(lists)));
  local = rule.builder().Reshape(local, LocalDims(shape, without));
  return scope.NewValue(shape, without, local);
}

}  // namespace

RuleResult Gather(PartitionContext& rule) {
  const auto& gather = rule.attributes<GatherAttributes>();
  const Shape* from = rule.operand_shape(0);
  const Shape* to = rule.source().shape();
  if (to->element_count() == 0 || from->element_count() == 0) return rule.Default();
  const Geometry geometry =
      MakeGeometry(rule.source().operand(1), from, IndexingDimsOf(gather), to);
  const Labels labels = GatherLabels(rule, geometry);
  const Strategy& usual = rule.Choose(labels);
  const RowsAndOwners gathered_rows = RowsOf(rule, geometry);
  const GatheredRows& rows = gathered_rows.rows;
  const Strategy* const own = StrategyForOwnRows(rule, labels, rows, usual);
  const Strategy& strategy = own != nullptr ? *own : usual;
  const MeshLayout* result = strategy.results[0];
  const Shape* shape = LocalShape(rule.context(), to, rule.layouts().Reduced(result));
  LocalGather gathered(rule, geometry, strategy);
  Instruction* local = gathered.Emit(shape);
  const bool is_unmasked = own != nullptr && !AreSummed(rule.scope(), rule.source());
  rule.TakeName(is_unmasked ? gathered.unmasked() : local);
  PartitionedValue* value = rule.Result(local, result);
  if (own != nullptr) {
    if (is_unmasked) value->unmasked = gathered.unmasked();
    PartitionedValue*& owners = *gathered_rows.owners;
    if (owners == nullptr) owners = OwnersOf(rule, geometry, rows, gathered.own_rows(), *value);
    value->own_rows = owners;
    value->row_dims.assign(rows.dims.begin(), rows.dims.end());
  }
  return value;
}

namespace {

// A scatter index that may be narrowed: what lies outside stays outside.
Instruction* BoundedIndex(PartitionContext& rule, Instruction* index, int64_t size) {
  Builder& builder = rule.builder();
  DType type = index->shape()->dtype();
  if (DTypeBits(type) < 32 || type == DType::kS32) return builder.Convert(index, DType::kS32);
  std::span<const int64_t> dims = index->shape()->dims();
  auto number = [&](int64_t value) {
    return builder.BroadcastScalar(rule.geometry().Int(value, type), dims);
  };
  if (ClassOf(type) == DTypeClass::kSigned) {
    index = builder.Binary(Opcode::kMaximum, index, number(-1));
  }
  if (type != DType::kU32 || size <= INT32_MAX) {
    index = builder.Binary(Opcode::kMinimum, index, number(size));
  }
  return builder.Convert(index, size > INT32_MAX ? DType::kS64 : DType::kS32);
}

struct ScatterLabels {
  Labels labels;
  std::vector<int> free;  // of index dims that fix no place in the operand: results are partial
};

ScatterLabels LabelsOfScatter(const PartitionContext& rule, const Geometry& geometry,
                              int64_t inputs, std::optional<Opcode> combiner) {
  const Shape* updates_shape = rule.operand_shape(inputs + 1);
  const Shape* index_shape = rule.operand_shape(inputs);
  ScatterLabels result;
  Labels& labels = result.labels;
  std::vector<int> operand(At(rule.operand_shape(0)->rank()), Labels::kWhole);
  std::vector<int> index(At(index_shape->rank()), Labels::kWhole);
  std::vector<int> updates(At(updates_shape->rank()), Labels::kWhole);
  std::vector<uint8_t> has_place(At(index_shape->rank()), 0);  // fixes the place in the operand
  for (size_t d = 0; d < geometry.operand.size(); ++d) {
    const OperandDim& dim = geometry.operand[d];
    if (dim.kind == OperandDim::Kind::kWhole) continue;
    operand[d] = labels.Add();
    if (dim.index_dim >= 0) {
      index[At(dim.index_dim)] = operand[d];
      updates[At(geometry.windowed_of[At(dim.index_dim)])] = operand[d];
      has_place[At(dim.index_dim)] = 1;
    } else if (dim.kind == OperandDim::Kind::kPassThrough) {
      updates[At(dim.window_dim)] = operand[d];
    }
  }
  for (size_t d = 0; d < index.size(); ++d) {
    if (geometry.windowed_of[d] < 0 || has_place[d] != 0 || !combiner.has_value()) continue;
    index[d] = updates[At(geometry.windowed_of[d])] = labels.Add({.summed = true});
    result.free.push_back(index[d]);
  }
  labels.operands.assign(At(inputs), operand);
  labels.operands.push_back(index);
  labels.operands.insert(labels.operands.end(), At(inputs), updates);
  labels.results.assign(At(inputs), operand);
  if (combiner.has_value()) labels.combiner = *combiner;
  labels.flops = static_cast<double>(updates_shape->element_count());
  labels.slices = IndexedSlices(rule.source());
  for (int label : index) {
    if (label != Labels::kWhole) labels.labels[At(label)].divides_slices = true;
  }
  return result;
}

// A scatter into one tile of the operand: index vectors count from the tile's start, what belongs
// elsewhere points outside.
class LocalScatter {
 public:
  LocalScatter(PartitionContext& rule, const Geometry& geometry, const Strategy& strategy,
               int64_t inputs)
      : rule_(rule),
        geometry_(geometry),
        inputs_(inputs),
        to_(rule.operand_shape(0)),
        index_shape_(rule.operand_shape(inputs)),
        layout_(strategy.operands[0]),
        index_layout_(strategy.operands[At(inputs)]),
        attributes_(rule.attributes<ScatterAttributes>()),
        margins_(At(to_->rank()), 0) {
    for (size_t i = 0; i < rule.operands().size(); ++i) {
      locals_.push_back(rule.Operand(static_cast<int64_t>(i), strategy.operands[i]));
    }
  }

  // Devices with other updates for the same places start from the identity, all but the first.
  void StartFromIdentity(AxisList free_axes, Opcode combiner) {
    free_axes = SortedAxes(free_axes);
    if (free_axes.empty() || IsFilledWithIdentity(rule_.source().operand(0), combiner)) return;
    Builder& builder = rule_.builder();
    Instruction* ordinal = rule_.geometry().Ordinal(free_axes, index_layout_->order);
    Instruction* is_first =
        builder.Compare(ComparisonDirection::kEq, ordinal, rule_.geometry().Int(0));
    std::span<const int64_t> dims = locals_[0]->shape()->dims();
    Instruction* identity = combiner == Opcode::kAdd
                                ? ReductionIdentity(rule_.scope(), to_->dtype())
                                : Identity(rule_.scope(), combiner, to_->dtype());
    locals_[0] = builder.Select(builder.BroadcastScalar(is_first, dims), locals_[0],
                                builder.BroadcastScalar(identity, dims));
  }

  Instruction* Emit() {
    const std::vector<int64_t> uneven = UnevenIndexDims();
    bool changed = !uneven.empty();
    for (int64_t d = 0; d < to_->rank(); ++d) {
      changed |= layout_->IsSharded(d) && geometry_.operand[At(d)].component >= 0;
    }
    if (changed) LocaliseIndices(uneven);
    AddMargins();
    Computation* const called[] = {rule_.source().called(0)};
    return WithoutMargins(
        rule_.builder().Add(Opcode::kScatter, locals_, attributes_, nullptr, called));
  }

 private:
  // Index vectors in the padding of uneven tiles point anywhere: they must point nowhere.
  std::vector<int64_t> UnevenIndexDims() const {
    std::vector<int64_t> uneven;
    for (int64_t d = 0; d < index_shape_->rank(); ++d) {
      const bool is_batch = Contains(attributes_.scatter_indices_batching_dims, d);
      if (!DividesEvenly(index_shape_, index_layout_, d) && !is_batch) uneven.push_back(d);
    }
    return uneven;
  }

  void LocaliseIndices(const std::vector<int64_t>& uneven) {
    Instruction*& indices = locals_[At(inputs_)];
    IndexComponents components(rule_, indices, attributes_.index_vector_dim);
    for (int64_t d = 0; d < to_->rank(); ++d) Localise(components, d);
    if (!uneven.empty()) {
      // One component outside is enough.
      Instruction*& part = components[0];
      std::vector<int64_t> dims(index_shape_->dims().begin(), index_shape_->dims().end());
      if (attributes_.index_vector_dim < index_shape_->rank()) {
        dims[At(attributes_.index_vector_dim)] = 1;
      }
      const Shape* base = rule_.context().Array(part->shape()->dtype(), dims);
      Instruction* outside = rule_.geometry().Int(-1, part->shape()->dtype());
      part = MaskPadding(rule_.scope(), part, base, index_layout_, uneven, outside);
      attributes_.unique_indices = false;
    }
    components.Unify();
    indices = components.Joined();
    attributes_.indices_are_sorted = false;
  }

  void Localise(IndexComponents& components, int64_t d) {
    const OperandDim& dim = geometry_.operand[At(d)];
    if (dim.component < 0) return;
    Instruction*& part = components[dim.component];
    part = BoundedIndex(rule_, part, to_->dim(d));
    if (!layout_->IsSharded(d)) return;
    Instruction* offset = rule_.geometry().Offset(to_, layout_, d);
    const bool indexed = dim.kind == OperandDim::Kind::kIndexed;
    if (dim.kind == OperandDim::Kind::kParallel || (indexed && dim.window == 1)) {
      components.Localise(dim.component, offset, 0);
    } else if (indexed) {
      // A window that lies partly in the tile is written where it does, with a margin for the
      // rest; one that does not fit into the whole array is not written at all.
      Builder& builder = rule_.builder();
      const DType type = part->shape()->dtype();
      Instruction* fits = builder.Binary(
          Opcode::kAnd, builder.Compare(ComparisonDirection::kGe, part, components.Filled(0, type)),
          builder.Compare(ComparisonDirection::kLe, part,
                          components.Filled(to_->dim(d) - dim.window, type)));
      margins_[At(d)] = dim.window - 1;
      components.Localise(dim.component, offset, dim.window - 1);
      part = builder.Select(fits, part, components.Filled(-1, part->shape()->dtype()));
    }
  }

  void AddMargins() {
    Builder& builder = rule_.builder();
    for (int64_t i = 0; i < inputs_; ++i) {
      std::vector<PadDim> padding(At(to_->rank()));
      for (int64_t d = 0; d < to_->rank(); ++d) {
        padding[At(d)] = {margins_[At(d)], margins_[At(d)], 0};
      }
      Instruction*& local = locals_[At(i)];
      local = builder.Pad(local, rule_.geometry().Number(local->shape()->dtype(), 0), padding);
    }
  }

  Instruction* WithoutMargins(Instruction* local) {
    if (std::none_of(margins_.begin(), margins_.end(), [](int64_t m) { return m > 0; })) {
      return local;
    }
    Builder& builder = rule_.builder();
    std::vector<Instruction*> results;
    for (int64_t i = 0; i < inputs_; ++i) {
      Instruction* one = inputs_ == 1 ? local : builder.GetTupleElement(local, i);
      for (int64_t d = 0; d < to_->rank(); ++d) {
        const int64_t margin = margins_[At(d)];
        one = builder.SliceDim(one, d, margin, one->shape()->dim(d) - margin);
      }
      results.push_back(one);
    }
    return inputs_ == 1 ? results[0] : builder.Tuple(results);
  }

  PartitionContext& rule_;
  const Geometry& geometry_;
  int64_t inputs_;
  const Shape* to_;
  const Shape* index_shape_;
  const MeshLayout* layout_;
  const MeshLayout* index_layout_;
  ScatterAttributes attributes_;
  std::vector<int64_t> margins_;  // around the tile, per dim
  std::vector<Instruction*> locals_;
};

}  // namespace

RuleResult Scatter(PartitionContext& rule) {
  const Instruction& source = rule.source();
  const auto& scatter = rule.attributes<ScatterAttributes>();
  const auto inputs = (static_cast<int64_t>(rule.operands().size()) - 1) / 2;
  const Shape* to = rule.operand_shape(0);
  const Shape* updates = rule.operand_shape(inputs + 1);
  if (to->element_count() == 0 || updates->element_count() == 0) return rule.Default();
  const Geometry geometry =
      MakeGeometry(source.operand(inputs), to, IndexingDimsOf(scatter), updates);
  std::optional<Opcode> combiner;
  if (inputs == 1) combiner = CombinerOf(source.called(0));
  const ScatterLabels labels = LabelsOfScatter(rule, geometry, inputs, combiner);
  const Strategy& strategy = rule.Choose(labels.labels);
  AxisList free_axes;
  for (int label : labels.free) {
    const AxisList& cut = strategy.cut[At(label)];
    free_axes.insert(free_axes.end(), cut.begin(), cut.end());
  }
  LocalScatter scatter_in_tile(rule, geometry, strategy, inputs);
  if (combiner.has_value()) scatter_in_tile.StartFromIdentity(free_axes, *combiner);
  Instruction* local = scatter_in_tile.Emit();
  rule.TakeName(local);
  PartitionedValue* value = rule.scope().NewFromLocal(source.shape(), strategy.results, local);
  rule.ShareMove(strategy, *value);
  return value;
}

}  // namespace gshard::partition_rules
