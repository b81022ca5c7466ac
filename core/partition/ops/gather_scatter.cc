// Gather and scatter by labels. A dim of the operand is cut together with the indices (batching
// dims, or an index that counts along a dim of the indices), together with the result or the
// updates (windows that span it), or on its own: then every device looks up, or writes, what lies
// in its own tile.
#include <algorithm>
#include <optional>

#include "core/partition/ops/rules.h"
#include "core/partition/scope/range_cut.h"
#include "ir/custom_call.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

bool IsZero(const Instruction* x) {
  while (x->opcode() == Opcode::kBroadcast || x->opcode() == Opcode::kConvert) x = x->operand(0);
  if (x->opcode() != Opcode::kConstant || !x->shape()->IsArray() ||
      !IsInteger(x->shape()->dtype())) {
    return false;
  }
  const Literal* literal = x->attributes<ConstantAttributes>().literal;
  return !literal->elided && IsSplat(*literal) && ElementAsInt64(*literal, 0) == 0;
}

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
          test->operand(0) != x->operand(2) || !IsZero(test->operand(1))) {
        return std::nullopt;
      }
      return dim;
    }
    default:
      return std::nullopt;
  }
}

// The dim of `indices` along which component `c` of the index vectors counts.
std::optional<int64_t> ComponentCountsAlong(const Instruction* indices, int64_t vector_dim,
                                            int64_t c) {
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

// What gather and scatter have in common. `windowed` is the gather's result, the scatter's updates.
struct Geometry {
  std::vector<OperandDim> operand;
  std::vector<int64_t> windowed_of;  // dim of the windowed array, by dim of the indices
  int64_t vector_dim = 0;
};

Geometry MakeGeometry(const Instruction* indices, const Shape* operand, Dims window_dims,
                      Dims dropped_dims, Dims index_map, Dims operand_batch, Dims indices_batch,
                      int64_t vector_dim, const Shape* windowed) {
  Geometry geometry;
  geometry.vector_dim = vector_dim;
  int64_t index_rank = indices->shape()->rank();
  geometry.windowed_of.assign(At(index_rank), -1);
  int64_t out = 0;
  for (int64_t d = 0; d < index_rank; ++d) {
    if (d == vector_dim) continue;
    while (Contains(window_dims, out)) ++out;
    geometry.windowed_of[At(d)] = out++;
  }
  size_t next_window = 0;
  std::vector<uint8_t> taken(At(index_rank), 0);
  for (int64_t d : indices_batch) taken[At(d)] = 1;
  for (int64_t d = 0; d < operand->rank(); ++d) {
    OperandDim dim;
    auto batch = std::find(operand_batch.begin(), operand_batch.end(), d);
    if (batch != operand_batch.end()) {
      dim.kind = OperandDim::Kind::kBatch;
      dim.index_dim = indices_batch[static_cast<size_t>(batch - operand_batch.begin())];
      geometry.operand.push_back(dim);
      continue;
    }
    if (!Contains(dropped_dims, d)) {
      dim.window_dim = window_dims[next_window++];
      dim.window = windowed->dim(dim.window_dim);
    }
    auto indexed = std::find(index_map.begin(), index_map.end(), d);
    if (indexed != index_map.end()) dim.component = indexed - index_map.begin();
    if (dim.window == operand->dim(d) && dim.window_dim >= 0) {
      dim.kind = OperandDim::Kind::kPassThrough;
    } else if (dim.component >= 0) {
      dim.kind = OperandDim::Kind::kIndexed;
      std::optional<int64_t> counting;
      if (dim.window == 1) {
        counting = ComponentCountsAlong(indices, vector_dim, dim.component);
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
      : rule_(rule), indices_(indices), vector_dim_(vector_dim) {
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
  Instruction* indices_;
  int64_t vector_dim_;
  std::vector<Instruction*> parts_;
};

// A condition on index vectors as one on the windowed array.
Instruction* OnWindows(PartitionContext& rule, Instruction* condition, const Geometry& geometry,
                       std::span<const int64_t> windowed_dims) {
  std::vector<int64_t> dims, targets;
  for (int64_t d = 0; d < condition->shape()->rank(); ++d) {
    if (d == geometry.vector_dim) continue;
    dims.push_back(condition->shape()->dim(d));
    targets.push_back(geometry.windowed_of[At(d)]);
  }
  return rule.builder().Broadcast(rule.builder().Reshape(condition, dims), windowed_dims, targets);
}

Instruction* Both(Builder& builder, Instruction* a, Instruction* b) {
  return a == nullptr ? b : builder.Binary(Opcode::kAnd, a, b);
}

}  // namespace

RuleResult Gather(PartitionContext& rule) {
  const auto& gather = rule.attributes<GatherAttributes>();
  const Shape* from = rule.operand_shape(0);
  const Shape* to = rule.source().shape();
  if (to->element_count() == 0 || from->element_count() == 0) return rule.Default();
  Geometry geometry =
      MakeGeometry(rule.source().operand(1), from, gather.offset_dims, gather.collapsed_slice_dims,
                   gather.start_index_map, gather.operand_batching_dims,
                   gather.start_indices_batching_dims, gather.index_vector_dim, to);

  Labels labels;
  labels.operands = {std::vector<int>(At(from->rank()), Labels::kWhole),
                     std::vector<int>(At(rule.operand_shape(1)->rank()), Labels::kWhole)};
  labels.results = {std::vector<int>(At(to->rank()), Labels::kWhole)};
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
  const Strategy& strategy = rule.Choose(labels);
  const MeshLayout* layout = strategy.operands[0];
  const MeshLayout* result = strategy.results[0];
  Instruction* operand = rule.Operand(0, layout);
  Instruction* indices = rule.Operand(1, strategy.operands[1]);
  const Shape* shape = LocalShape(rule.context(), to, rule.layouts().Reduced(result));

  Builder& builder = rule.builder();
  IndexComponents components(rule, indices, gather.index_vector_dim);
  Instruction* nothing = ReductionIdentity(rule.scope(), from->dtype());
  Instruction* is_in = nullptr;
  bool changed = false;
  std::vector<int64_t> sizes(gather.slice_sizes.begin(), gather.slice_sizes.end());
  for (int64_t d = 0; d < from->rank(); ++d) {
    const OperandDim& dim = geometry.operand[At(d)];
    if (!layout->IsSharded(d)) continue;
    changed |= dim.component >= 0;
    Instruction* offset = rule.geometry().Offset(from, layout, d);
    int64_t tile = operand->shape()->dim(d);
    switch (dim.kind) {
      case OperandDim::Kind::kPassThrough:
        sizes[At(d)] = tile;
        if (dim.component >= 0) components[dim.component] = components.Filled(int64_t{0});
        break;
      case OperandDim::Kind::kParallel:
        components.Localise(dim.component, offset, 0);
        break;
      case OperandDim::Kind::kIndexed: {
        Instruction*& part = components[dim.component];
        part = ClampedIndex(rule.scope(), part, from->dim(d) - dim.window);
        if (dim.window > 1) {  // the edges of windows that reach into the tile
          std::vector<PadDim> padding(At(from->rank()));
          padding[At(d)] = {dim.window, dim.window, 0};
          operand = builder.Pad(operand, nothing, padding);
          components.Localise(dim.component, offset, dim.window);
          break;
        }
        components.Localise(dim.component, offset, 0);
        DType type = part->shape()->dtype();
        is_in = Both(builder, is_in,
                     builder.Compare(ComparisonDirection::kGe, part, components.Filled(0, type)));
        is_in =
            Both(builder, is_in,
                 builder.Compare(ComparisonDirection::kLt, part, components.Filled(tile, type)));
        break;
      }
      default:
        break;
    }
  }
  GatherAttributes local_gather = gather;
  local_gather.slice_sizes = builder.Copy(sizes);
  if (changed) {
    for (int64_t d = 0; d < from->rank(); ++d) {  // the others, before they are narrowed
      const OperandDim& dim = geometry.operand[At(d)];
      if (dim.component < 0 || layout->IsSharded(d)) continue;
      Instruction*& part = components[dim.component];
      part = ClampedIndex(rule.scope(), part, from->dim(d) - sizes[At(d)]);
    }
    components.Unify();
    indices = components.Joined();
    local_gather.indices_are_sorted = false;
  }
  Instruction* operands[] = {operand, indices};
  Instruction* local = builder.Add(Opcode::kGather, operands, local_gather, shape);
  if (is_in != nullptr) {
    Instruction* valid = OnWindows(rule, is_in, geometry, shape->dims());
    local = builder.Select(valid, local, builder.BroadcastScalar(nothing, shape->dims()));
    local->set_shape(shape);
  }
  rule.TakeName(local);
  return rule.Result(local, result);
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

}  // namespace

RuleResult Scatter(PartitionContext& rule) {
  const Instruction& source = rule.source();
  const auto& scatter = rule.attributes<ScatterAttributes>();
  auto inputs = (static_cast<int64_t>(rule.operands().size()) - 1) / 2;
  const Shape* to = rule.operand_shape(0);
  const Shape* updates_shape = rule.operand_shape(inputs + 1);
  const Shape* index_shape = rule.operand_shape(inputs);
  if (to->element_count() == 0 || updates_shape->element_count() == 0) return rule.Default();
  Geometry geometry = MakeGeometry(
      source.operand(inputs), to, scatter.update_window_dims, scatter.inserted_window_dims,
      scatter.scatter_dims_to_operand_dims, scatter.input_batching_dims,
      scatter.scatter_indices_batching_dims, scatter.index_vector_dim, updates_shape);
  std::optional<Opcode> combiner;
  if (inputs == 1) combiner = CombinerOf(source.called(0));

  Labels labels;
  std::vector<int> operand(At(to->rank()), Labels::kWhole);
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
  std::vector<int> free_labels;
  for (size_t d = 0; d < index.size(); ++d) {
    if (geometry.windowed_of[d] < 0 || has_place[d] != 0 || !combiner.has_value()) continue;
    index[d] = updates[At(geometry.windowed_of[d])] = labels.Add({.summed = true});
    free_labels.push_back(index[d]);
  }
  labels.operands.assign(At(inputs), operand);
  labels.operands.push_back(index);
  labels.operands.insert(labels.operands.end(), At(inputs), updates);
  labels.results.assign(At(inputs), operand);
  if (combiner.has_value()) labels.combiner = *combiner;
  labels.flops = static_cast<double>(updates_shape->element_count());
  const Strategy& strategy = rule.Choose(labels);
  const MeshLayout* layout = strategy.operands[0];
  const MeshLayout* index_layout = strategy.operands[At(inputs)];

  Builder& builder = rule.builder();
  PartitionScope& scope = rule.scope();
  std::vector<Instruction*> locals;
  for (size_t i = 0; i < rule.operands().size(); ++i) {
    locals.push_back(rule.Operand(static_cast<int64_t>(i), strategy.operands[i]));
  }
  // Devices with other updates for the same places start from nothing, all but the first.
  AxisList free_axes;
  for (int label : free_labels) {
    const AxisList& cut = strategy.cut[At(label)];
    free_axes.insert(free_axes.end(), cut.begin(), cut.end());
  }
  free_axes = SortedAxes(free_axes);
  if (!free_axes.empty()) {
    Instruction* ordinal = rule.geometry().Ordinal(free_axes, index_layout->order);
    Instruction* is_first =
        builder.Compare(ComparisonDirection::kEq, ordinal, rule.geometry().Int(0));
    std::span<const int64_t> dims = locals[0]->shape()->dims();
    Instruction* identity = *combiner == Opcode::kAdd ? ReductionIdentity(scope, to->dtype())
                                                      : Identity(scope, *combiner, to->dtype());
    locals[0] = builder.Select(builder.BroadcastScalar(is_first, dims), locals[0],
                               builder.BroadcastScalar(identity, dims));
  }

  Instruction*& indices = locals[At(inputs)];
  bool changed = false;
  for (int64_t d = 0; d < to->rank(); ++d) {
    changed |= layout->IsSharded(d) && geometry.operand[At(d)].component >= 0;
  }
  // Index vectors in the padding of uneven tiles point anywhere: they must point nowhere.
  std::vector<int64_t> uneven;
  for (int64_t d = 0; d < index_shape->rank(); ++d) {
    bool is_batch = Contains(scatter.scatter_indices_batching_dims, d);
    if (!DividesEvenly(index_shape, index_layout, d) && !is_batch) uneven.push_back(d);
  }
  changed |= !uneven.empty();
  std::vector<int64_t> margins(At(to->rank()), 0);
  ScatterAttributes local_scatter = scatter;
  if (changed) {
    IndexComponents components(rule, indices, scatter.index_vector_dim);
    for (int64_t d = 0; d < to->rank(); ++d) {
      const OperandDim& dim = geometry.operand[At(d)];
      if (dim.component < 0) continue;
      Instruction*& part = components[dim.component];
      part = BoundedIndex(rule, part, to->dim(d));
      if (!layout->IsSharded(d)) continue;
      Instruction* offset = rule.geometry().Offset(to, layout, d);
      if (dim.kind == OperandDim::Kind::kParallel) {
        components.Localise(dim.component, offset, 0);
      } else if (dim.kind == OperandDim::Kind::kIndexed && dim.window == 1) {
        components.Localise(dim.component, offset, 0);
      } else if (dim.kind == OperandDim::Kind::kIndexed) {
        // A window that lies partly in the tile is written where it does, with a margin for the
        // rest; one that does not fit into the whole array is not written at all.
        DType type = part->shape()->dtype();
        Instruction* fits = builder.Binary(
            Opcode::kAnd,
            builder.Compare(ComparisonDirection::kGe, part, components.Filled(0, type)),
            builder.Compare(ComparisonDirection::kLe, part,
                            components.Filled(to->dim(d) - dim.window, type)));
        margins[At(d)] = dim.window - 1;
        components.Localise(dim.component, offset, dim.window - 1);
        part = builder.Select(fits, part, components.Filled(-1, part->shape()->dtype()));
      }
    }
    if (!uneven.empty()) {
      // One component outside is enough.
      Instruction*& part = components[0];
      std::vector<int64_t> dims(index_shape->dims().begin(), index_shape->dims().end());
      if (scatter.index_vector_dim < index_shape->rank()) dims[At(scatter.index_vector_dim)] = 1;
      const Shape* base = rule.context().Array(part->shape()->dtype(), dims);
      Instruction* outside = rule.geometry().Int(-1, part->shape()->dtype());
      part = MaskPadding(scope, part, base, index_layout, uneven, outside);
    }
    components.Unify();
    indices = components.Joined();
    local_scatter.indices_are_sorted = false;
    if (!uneven.empty()) local_scatter.unique_indices = false;
  }
  for (int64_t i = 0; i < inputs; ++i) {
    std::vector<PadDim> padding(At(to->rank()));
    for (int64_t d = 0; d < to->rank(); ++d) {
      padding[At(d)] = {margins[At(d)], margins[At(d)], 0};
    }
    Instruction*& local = locals[At(i)];
    local = builder.Pad(local, rule.geometry().Number(local->shape()->dtype(), 0), padding);
  }
  Computation* const called[] = {source.called(0)};
  Instruction* local = builder.Add(Opcode::kScatter, locals, local_scatter, nullptr, called);
  std::vector<Instruction*> results;
  bool has_margin = std::any_of(margins.begin(), margins.end(), [](int64_t m) { return m > 0; });
  for (int64_t i = 0; has_margin && i < inputs; ++i) {
    Instruction* one = inputs == 1 ? local : builder.GetTupleElement(local, i);
    for (int64_t d = 0; d < to->rank(); ++d) {
      int64_t margin = margins[At(d)];
      one = builder.SliceDim(one, d, margin, one->shape()->dim(d) - margin);
    }
    results.push_back(one);
  }
  if (has_margin) local = inputs == 1 ? results[0] : builder.Tuple(results);
  rule.TakeName(local);
  return scope.NewFromLocal(source.shape(), strategy.results, local);
}

}  // namespace gshard::partition_rules
