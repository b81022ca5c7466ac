// Random values: every tile draws its own stream; copies of one tile must agree. Random bits are
// those of the whole array: counters start where the tile does.
#include <algorithm>
#include <optional>

#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

RuleResult Rng(PartitionContext& rule) {
  std::vector<Instruction*> locals;
  for (size_t i = 0; i < rule.operands().size(); ++i) {
    locals.push_back(rule.Operand(static_cast<int64_t>(i), rule.Whole(0)));
  }
  const MeshLayout* layout = rule.wanted();
  if (layout->IsMaximal()) layout = rule.Whole(layout->rank());
  const Shape* shape = LocalShape(rule.context(), rule.source().shape(), layout);
  Instruction* drawn = rule.EmitLocal(locals, shape);
  if (layout->IsManual()) return rule.Result(drawn, layout);
  AxisList used = layout->manual;
  for (const AxisList& axes : layout->dims) used.insert(used.end(), axes.begin(), axes.end());
  AxisList copies = ComplementAxes(used, rule.layouts().device_count());
  if (copies.empty()) return rule.Result(drawn, layout);
  // The first device of each set of copies draws for all.
  MeshLayout partial = *layout;
  partial.unreduced = copies;
  Builder& builder = rule.builder();
  Instruction* is_first =
      builder.Compare(ComparisonDirection::kEq, rule.geometry().Ordinal(copies, layout->order),
                      rule.geometry().Int(0));
  Instruction* zero = rule.geometry().Number(shape->dtype(), 0);
  Instruction* local =
      builder.Add(Opcode::kSelect, {builder.BroadcastScalar(is_first, shape->dims()), drawn,
                                    builder.BroadcastScalar(zero, shape->dims())});
  return rule.Result(local, rule.layouts().Intern(std::move(partial)));
}

// --- rng-bit-generator

namespace {

// How an algorithm numbers the blocks that fill an array (docs/semantics.md, "Random").
class BlockOrder {
 public:
  BlockOrder(RngAlgorithm algorithm, DType dtype)
      : is_philox_(algorithm == RngAlgorithm::kPhilox), is_wide_(DTypeBits(dtype) == 64) {}

  int64_t BlocksOf(std::span<const int64_t> dims) const {
    int64_t count = 1;
    for (int64_t d : dims) count *= d;
    if (is_philox_) return CeilOfRatio(is_wide_ ? 2 * count : count, 4);
    if (is_wide_ || dims.empty()) return count;
    int64_t size = dims[SplitDim(dims)];
    return size == 0 ? 0 : count / size * CeilOfRatio(size, 2);
  }

  // Do tiles along `dim`, the first one of more than one element, have the blocks of one array of
  // the tile's size each, one tile after the other?
  bool IsContiguous(std::span<const int64_t> whole, std::span<const int64_t> tile,
                    size_t dim) const {
    if (is_philox_) {
      int64_t words = is_wide_ ? 2 : 1;
      for (int64_t d : tile) words *= d;
      return words % 4 == 0;
    }
    if (is_wide_) return true;
    size_t split = SplitDim(whole);
    return split == SplitDim(tile) && (split != dim || tile[dim] % 2 == 0);
  }

 private:
  // ThreeFry: adjacent indices of this dim share a block of narrow elements.
  static size_t SplitDim(std::span<const int64_t> dims) {
    auto even = std::find_if(dims.begin(), dims.end(), [](int64_t d) { return d % 2 == 0; });
    if (even == dims.end()) even = std::max_element(dims.begin(), dims.end());
    return static_cast<size_t>(even - dims.begin());
  }

  bool is_philox_;
  bool is_wide_;
};

// State {key, counter} or {key, low, high}.
class GeneratorState {
 public:
  GeneratorState(PartitionScope& scope, RngAlgorithm algorithm, Instruction* state)
      : scope_(scope), builder_(scope.builder()), algorithm_(algorithm), state_(state) {}

  // As the operation returns it, `blocks` (u64) later.
  Instruction* After(Instruction* blocks) { return HasHigh() ? Carried(blocks) : Added(blocks); }
  // From which the block that comes `blocks` later is made. Philox without a high half of the
  // counter has the key there: a carry must not change the key.
  Instruction* At(Instruction* blocks) {
    return algorithm_ == RngAlgorithm::kPhilox ? Carried(blocks) : Added(blocks);
  }

 private:
  bool HasHigh() const { return state_->shape()->dim(0) == 3; }

  Instruction* Added(Instruction* blocks) {
    const int64_t one[] = {1};
    Instruction* step = builder_.PadDimension(builder_.Reshape(blocks, one),
                                              scope_.geometry().Int(0, DType::kU64), 0, 1, 0);
    return builder_.Add(state_, step);
  }

  Instruction* Carried(Instruction* blocks) {
    const int64_t one[] = {1};
    Instruction* step = builder_.Reshape(blocks, one);
    Instruction* key = builder_.SliceDim(state_, 0, 0, 1);
    Instruction* low = builder_.Add(builder_.SliceDim(state_, 0, 1, 2), step);
    Instruction* carry =
        builder_.Convert(builder_.Compare(ComparisonDirection::kLt, low, step), DType::kU64);
    Instruction* high = HasHigh() ? builder_.SliceDim(state_, 0, 2, 3) : key;
    Instruction* const words[] = {key, low, builder_.Add(high, carry)};
    return builder_.Concatenate(words, 0);
  }

  PartitionScope& scope_;
  Builder& builder_;
  RngAlgorithm algorithm_;
  Instruction* state_;
};

size_t FirstLongDim(const Shape* shape) {
  auto dims = shape->dims();
  auto found = std::find_if(dims.begin(), dims.end(), [](int64_t d) { return d != 1; });
  return static_cast<size_t>(found - dims.begin());
}

// The layout nearest to `layout` in which every tile is one run of blocks; null: none is cut.
const MeshLayout* LayoutOfRuns(MeshLayoutTable& layouts, const BlockOrder& order,
                               const Shape* shape, const MeshLayout* layout) {
  size_t dim = FirstLongDim(shape);
  if (layout->kind != MeshLayout::Kind::kTiled || dim == layout->dims.size() ||
      layout->dims[dim].empty()) {
    return nullptr;
  }
  std::vector<AxisList> axes(layout->dims.size());
  axes[dim] = layout->dims[dim];
  const MeshLayout* runs = layouts.WithDims(layout, std::move(axes));
  return order.IsContiguous(shape->dims(), LocalDims(shape, runs), dim) ? runs : nullptr;
}

const MeshLayout* StateLayout(PartitionScope& scope, const PartitionedValue&,
                              const MeshLayout* layout) {
  return scope.layouts().ReplicatedLike(layout, 1);
}

const MeshLayout* BitsLayout(PartitionScope& scope, const PartitionedValue& value,
                             const MeshLayout* layout) {
  return scope.layouts().ReplicatedLike(layout, value.shape->rank());
}

// The bits of a layout of runs, or whole.
Instruction* Generate(PartitionScope& scope, const PartitionedValue& value,
                      const MeshLayout* layout) {
  const Instruction& source = *value.source;
  RngAlgorithm algorithm = source.attributes<RngBitGeneratorAttributes>().algorithm;
  const Shape* bits = LocalShape(scope.context(), value.shape, layout);
  ReshardCause cause{.user = &source, .value = source.operand(0)};
  Instruction* state = scope.Reshard(value.payload, StateLayout(scope, value, layout), cause);
  size_t dim = FirstLongDim(value.shape);
  if (dim < layout->dims.size() && layout->IsSharded(static_cast<int64_t>(dim))) {
    BlockOrder order(algorithm, value.shape->dtype());
    Instruction* first = scope.geometry().Affine(layout->dims[dim], layout->order,
                                                 order.BlocksOf(bits->dims()), 0, DType::kU64);
    state = GeneratorState(scope, algorithm, state).At(first);
  }
  const Shape* const parts[] = {state->shape()->bare(), bits};
  Instruction* const operands[] = {state};
  Instruction* made = scope.CloneLocal(&source, operands, scope.context().Tuple(parts));
  return scope.builder().GetTupleElement(made, 1);
}

Instruction* MakeBits(PartitionScope& scope, const PartitionedValue& value,
                      const MeshLayout* layout) {
  const BlockOrder order(value.source->attributes<RngBitGeneratorAttributes>().algorithm,
                         value.shape->dtype());
  const MeshLayout* runs = LayoutOfRuns(scope.layouts(), order, value.shape, layout);
  if (runs == nullptr) runs = scope.layouts().ReplicatedLike(layout, value.shape->rank());
  Instruction*& bits =
      scope.Exchanged({reinterpret_cast<int64_t>(value.source), reinterpret_cast<int64_t>(runs)});
  if (bits == nullptr) bits = Generate(scope, value, runs);
  if (layout->kind != MeshLayout::Kind::kTiled) return bits;
  return scope.Reshard(scope.NewValue(value.shape, runs, bits), layout, {.user = value.source});
}

constexpr PartitionedValue::Rematerializer kBits = {MakeBits, StateLayout, BitsLayout};

// Of other states nobody knows what counts the blocks.
bool IsStateOf(RngAlgorithm algorithm, const Shape* state) {
  if (state->dtype() != DType::kU64 || state->rank() != 1) return false;
  return state->dim(0) == 2 || (state->dim(0) == 3 && algorithm == RngAlgorithm::kPhilox);
}

}  // namespace

RuleResult RngBitGenerator(PartitionContext& rule) {
  RngAlgorithm algorithm = rule.attributes<RngBitGeneratorAttributes>().algorithm;
  const Shape* shape = rule.source().shape();
  // What the default algorithm is, the platform decides.
  if (algorithm == RngAlgorithm::kDefault || !shape->IsTuple()) return rule.Default();
  if (!IsStateOf(algorithm, shape->element(0))) return rule.Default();
  const Shape* bits = shape->element(1);
  BlockOrder order(algorithm, bits->dtype());
  if (LayoutOfRuns(rule.layouts(), order, bits, rule.wanted_leaves()[1]) == nullptr) {
    return rule.Default();
  }
  Instruction* state = rule.Operand(0, rule.Whole(1));
  Instruction* blocks = rule.geometry().Int(order.BlocksOf(bits->dims()), DType::kU64);
  Instruction* after = GeneratorState(rule.scope(), algorithm, state).After(blocks);
  PartitionedValue* const results[] = {
      rule.scope().NewValue(shape->element(0), rule.Whole(1), after),
      rule.scope().NewRematerializable(bits, &rule.source(), &kBits, rule.operand(0))};
  return rule.scope().NewTuple(shape, results);
}

}  // namespace gshard::partition_rules
