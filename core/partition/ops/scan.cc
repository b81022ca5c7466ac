// Scan: local on the dims that are not scanned, if the body treats elements alike; along the
// scanned dim each shard goes on from what the tiles before it leave, if carries fold elements.
// Part of the reduce family.
#include <tsl/robin_map.h>
#include <tsl/robin_set.h>

#include <algorithm>
#include <optional>

#include "core/partition/ops/rules.h"
#include "core/partition/scope/moving_tiles.h"
#include "core/partition/scope/range_cut.h"
#include "core/partition/scope/tile_prefix.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

// Does every element of the body's results depend on the same element of its arguments only?
bool TreatsElementsAlike(const Computation* body, std::span<const int64_t> element) {
  auto is_element = [&](const Shape* shape) {
    return std::equal(shape->dims().begin(), shape->dims().end(), element.begin(), element.end());
  };
  return std::all_of(
      body->instructions().begin(), body->instructions().end(), [&](const Instruction* x) {
        switch (x->opcode()) {
          case Opcode::kTuple:
          case Opcode::kGetTupleElement:
            return true;
          case Opcode::kParameter:
            return x->shape()->IsArray();
          case Opcode::kConstant:
            return x->shape()->IsScalar();
          case Opcode::kBroadcast:
            return x->operand(0)->shape()->IsScalar() && is_element(x->shape());
          default:
            return IsElementwise(x->opcode()) && (x->shape()->IsScalar() || is_element(x->shape()));
        }
      });
}

// What a body returns: outputs, then carries. Nothing if it puts its results together otherwise.
std::vector<const Instruction*> ReturnedBy(const Computation* body) {
  const Instruction* root = body->root();
  if (root->shape()->IsArray()) return {root};
  if (root->opcode() != Opcode::kTuple) return {};
  return {root->operands().begin(), root->operands().end()};
}

// The instructions that `results` need, and all parameters.
std::vector<const Instruction*> NeededBy(const Computation* body,
                                         std::span<const Instruction* const> results) {
  std::vector<const Instruction*> needed;
  tsl::robin_set<const Instruction*> marked(results.begin(), results.end());
  for (size_t i = body->instructions().size(); i-- > 0;) {
    const Instruction* x = body->instructions()[i];
    if (x->opcode() != Opcode::kParameter && !marked.contains(x)) continue;
    marked.insert(x->operands().begin(), x->operands().end());
    needed.push_back(x);
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

// A body that TreatsElementsAlike, on tiles of an element instead of whole ones, returning
// `results` (instructions of the body; an array alone is no tuple). Nothing in it has a layout of
// its own: collectives would run once a step.
Computation* BodyOnTiles(PartitionScope& outer, const Computation* body,
                         std::span<const Instruction* const> results,
                         std::span<const int64_t> tile) {
  PartitionScope scope(outer.run(), outer.run().module.AddComputation(body->name()));
  Builder& builder = scope.builder();
  tsl::robin_map<const Instruction*, Instruction*> made;
  auto made_of = [&](const auto& instructions) {
    std::vector<Instruction*> list;
    for (const Instruction* x : instructions) list.push_back(made.at(x));
    return list;
  };
  for (const Instruction* x : NeededBy(body, results)) {
    builder.set_origin(x);
    if (x->opcode() == Opcode::kTuple) {
      made[x] = builder.Tuple(made_of(x->operands()));
    } else if (x->opcode() == Opcode::kGetTupleElement) {
      made[x] = builder.GetTupleElement(made.at(x->operand(0)),
                                        x->attributes<GetTupleElementAttributes>().index);
    } else {
      const Shape* shape = x->shape();
      if (!shape->IsScalar()) shape = outer.context().Array(shape->dtype(), tile);
      made[x] = scope.CloneLocal(x, made_of(x->operands()), shape);
    }
  }
  builder.set_origin(body->root());
  Instruction* root = made_of(results)[0];
  if (body->root()->shape()->IsTuple()) {
    root = builder.Tuple(made_of(results));
    scope.TakeName(root, body->root());
  }
  builder.computation()->set_root(root);
  return builder.computation();
}

// Does it matter in no way how operands are grouped?
bool IsExactlyAssociative(Opcode opcode, DType dtype) {
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kMultiply:
      return IsInteger(dtype);
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
      return true;
    default:
      return false;
  }
}

// Does the body, applied to elements and carries, fold them: is it associative, so that runs of
// elements may be folded apart? Integers are exact; sums of floats are only if the scan says so.
bool FoldsElements(const Instruction& source) {
  const auto& scan = source.attributes<ScanAttributes>();
  const Computation* body = source.called(0);
  int64_t inputs = source.operand_count() - scan.num_carries;
  std::vector<const Instruction*> results = ReturnedBy(body);
  if (inputs != scan.num_carries || results.empty()) return false;
  for (int64_t i = 0; i < inputs; ++i) {
    const Instruction* element = body->parameter(i);
    const Instruction* carry = body->parameter(inputs + i);
    DType dtype = element->shape()->dtype();
    if (dtype != carry->shape()->dtype()) return false;
    if (scan.is_associative) continue;
    const Instruction* next = results[results.size() - At(inputs) + At(i)];
    if (next->operand_count() != 2) return false;
    bool takes_both = (next->operand(0) == element && next->operand(1) == carry) ||
                      (next->operand(0) == carry && next->operand(1) == element);
    if (!takes_both || !IsExactlyAssociative(next->opcode(), dtype)) return false;
  }
  return true;
}

// A scan whose dim is cut.
class CutScan {
 public:
  // `body` maps (elements.., carries..) to (outputs.., carries..), `fold` to (carries..,
  // carries..).
  CutScan(PartitionContext& rule, const TilePrefix& prefix, Computation* body, Computation* fold)
      : rule_(rule), builder_(rule.builder()), prefix_(prefix), body_(body), fold_(fold) {}

  struct Values {
    FoldValues stacks;   // one per output
    FoldValues carries;  // one per carry
  };

  // The carries it ends with are whole, or (by_permutes) with the last shard, nothing elsewhere.
  Values Run(const FoldValues& stacks, const FoldValues& inits, const PrefixPlan& plan) {
    tile_ = stacks[0]->shape()->dim(prefix_.dim);
    FoldValues totals = Totals(stacks);
    FoldValues ends;
    TileFold fold;
    fold.combine = [&](const FoldValues& earlier, const FoldValues& later) {
      return Stacked(Combine(Elements(earlier), Elements(later)));
    };
    fold.carry = [&](const FoldValues& all) {
      Values running = Scan(fold_, all, 0, prefix_.tiles, inits);
      ends = running.carries;
      return AtOrdinal(Stacked(inits), running.stacks);
    };
    FoldValues carry =
        Elements(CarryIntoTile(rule_, prefix_, plan, fold, Stacked(totals), Stacked(inits)));
    if (plan.by_permutes) ends = OnLastShard(Combine(carry, totals));
    return {Outputs(stacks, carry), ends};
  }

 private:
  bool IsUneven() const { return Remainder() != tile_; }
  // Elements of the last tile that holds any.
  int64_t Remainder() const { return size_ - (prefix_.tiles - 1) * tile_; }

  // Elements [from, to) of the stacks, after `carries`.
  Values Scan(Computation* body, const FoldValues& stacks, int64_t from, int64_t to,
              const FoldValues& carries) {
    if (from == to) return {.stacks = {}, .carries = carries};
    FoldValues operands;
    for (Instruction* x : stacks) operands.push_back(builder_.SliceDim(x, prefix_.dim, from, to));
    operands.insert(operands.end(), carries.begin(), carries.end());
    Computation* const called[] = {body};
    Instruction* scan =
        builder_.Add(Opcode::kScan, operands, rule_.attributes<ScanAttributes>(), nullptr, called);
    return ResultsOf(scan);
  }

  // Outputs and carries, of a scan or of one step of it.
  Values ResultsOf(Instruction* made) {
    if (!made->shape()->IsTuple()) return {.stacks = {}, .carries = {made}};
    auto count = static_cast<int64_t>(made->shape()->elements().size());
    int64_t outputs = count - rule_.attributes<ScanAttributes>().num_carries;
    Values values;
    for (int64_t i = 0; i < count; ++i) {
      (i < outputs ? values.stacks : values.carries).push_back(builder_.GetTupleElement(made, i));
    }
    return values;
  }

  // One step: `later` as elements after the carries `earlier`.
  FoldValues Combine(const FoldValues& earlier, const FoldValues& later) {
    FoldValues operands = later;
    operands.insert(operands.end(), earlier.begin(), earlier.end());
    Computation* const called[] = {fold_};
    return ResultsOf(builder_.Add(Opcode::kCall, operands, CallAttributes{}, nullptr, called))
        .carries;
  }

  // The fold of elements [from, to): all but the first of them, carried on from the first.
  FoldValues Folded(const FoldValues& stacks, int64_t from, int64_t to) {
    int64_t first = prefix_.is_reverse ? to - 1 : from;
    (prefix_.is_reverse ? to : from) += prefix_.is_reverse ? -1 : 1;
    return Scan(fold_, stacks, from, to, ElementsAt(stacks, first)).carries;
  }

  // The fold of the elements of the own tile, padding left out: without need of an identity.
  FoldValues Totals(const FoldValues& stacks) {
    if (!IsUneven()) return Folded(stacks, 0, tile_);
    is_short_ = IsTile(rule_, prefix_, prefix_.tiles - 1);
    int64_t end = Remainder();
    if (!prefix_.is_reverse) {
      FoldValues part = Folded(stacks, 0, end);
      return SelectAll(builder_, is_short_, part, Scan(fold_, stacks, end, tile_, part).carries);
    }
    FoldValues seed = ElementsAt(stacks, end - 1);
    seed = SelectAll(builder_, is_short_, seed, Combine(Folded(stacks, end, tile_), seed));
    return Scan(fold_, stacks, 0, end - 1, seed).carries;
  }

  // A scan from the end meets the padding first: what it makes of it is left out.
  FoldValues Outputs(const FoldValues& stacks, const FoldValues& carry) {
    if (!IsUneven() || !prefix_.is_reverse) {
      return Named(Scan(body_, stacks, 0, tile_, carry)).stacks;
    }
    int64_t end = Remainder();
    Values tail = Scan(body_, stacks, end, tile_, carry);
    FoldValues seed = SelectAll(builder_, is_short_, carry, tail.carries);
    FoldValues outputs = Named(Scan(body_, stacks, 0, end, seed)).stacks;
    for (size_t i = 0; i < outputs.size(); ++i) {
      Instruction* const parts[] = {outputs[i], tail.stacks[i]};
      outputs[i] = builder_.Concatenate(parts, prefix_.dim);
    }
    return outputs;
  }

  // A scan under the source's name.
  Values Named(Values scan) {
    Instruction* any = scan.carries[0];
    bool is_part = any->opcode() == Opcode::kGetTupleElement;
    rule_.TakeName(is_part ? any->operand(0) : any);
    return scan;
  }

  // Of the inits followed by what is running after each tile: what comes into the own one.
  FoldValues AtOrdinal(const FoldValues& inits, const FoldValues& running) {
    Instruction* at = rule_.geometry().Affine(prefix_.layout->axes(prefix_.dim),
                                              prefix_.layout->order, 1, prefix_.is_reverse ? 1 : 0);
    FoldValues carry;
    for (size_t i = 0; i < inits.size(); ++i) {
      Instruction* parts[] = {inits[i], running[i]};
      if (prefix_.is_reverse) std::swap(parts[0], parts[1]);
      std::vector<Instruction*> starts(At(inits[i]->shape()->rank()), rule_.geometry().Int(0));
      starts[At(prefix_.dim)] = at;
      carry.push_back(builder_.DynamicSlice(builder_.Concatenate(parts, prefix_.dim), starts,
                                            inits[i]->shape()->dims()));
    }
    return carry;
  }

  FoldValues OnLastShard(const FoldValues& values) {
    FoldValues nothing;
    for (Instruction* x : values) {
      nothing.push_back(builder_.BroadcastScalar(
          ReductionIdentity(rule_.scope(), x->shape()->dtype()), x->shape()->dims()));
    }
    return SelectAll(builder_, IsTile(rule_, prefix_, prefix_.Last()), values, nothing);
  }

  FoldValues ElementsAt(const FoldValues& stacks, int64_t at) {
    FoldValues rows;
    for (Instruction* x : stacks) rows.push_back(builder_.SliceDim(x, prefix_.dim, at, at + 1));
    return Elements(rows);
  }

  // Without the scanned dim, of one element, and with it.
  FoldValues Elements(FoldValues rows) {
    for (Instruction*& row : rows) {
      std::vector<int64_t> dims(row->shape()->dims().begin(), row->shape()->dims().end());
      dims.erase(dims.begin() + prefix_.dim);
      row = builder_.Reshape(row, dims);
    }
    return rows;
  }
  FoldValues Stacked(FoldValues elements) {
    for (Instruction*& element : elements) {
      std::vector<int64_t> dims(element->shape()->dims().begin(), element->shape()->dims().end());
      dims.insert(dims.begin() + prefix_.dim, 1);
      element = builder_.Reshape(element, dims);
    }
    return elements;
  }

  PartitionContext& rule_;
  Builder& builder_;
  const TilePrefix& prefix_;
  Computation* body_;
  Computation* fold_;
  int64_t size_ = rule_.operand_shape(0)->dim(prefix_.dim);
  int64_t tile_ = 0;
  Instruction* is_short_ = nullptr;  // is the own tile the last that holds data, and not full?
};

class ScanRule {
 public:
  explicit ScanRule(PartitionContext& rule)
      : rule_(rule),
        source_(rule.source()),
        scan_(rule.attributes<ScanAttributes>()),
        results_(rule.ResultShapes()),
        inputs_(source_.operand_count() - scan_.num_carries),
        outputs_(static_cast<int64_t>(results_.size()) - scan_.num_carries) {
    std::span<const int64_t> dims = rule.operand_shape(0)->dims();
    element_.assign(dims.begin(), dims.end());
    element_.erase(element_.begin() + scan_.dimension);
  }

  RuleResult Run() {
    if (!TreatsAlike()) {
      ReplicateHostTransfers(rule_.context(), *source_.called(0));
      return rule_.Default();
    }
    Strategy strategy = Choose();
    const MeshLayout* layout = strategy.operands[0];
    std::vector<Instruction*> locals;
    for (int64_t i = 0; i < source_.operand_count(); ++i) {
      locals.push_back(rule_.Operand(i, strategy.operands[At(i)]));
    }
    if (layout->IsSharded(scan_.dimension)) return RunCut(locals, std::move(strategy));
    std::vector<const Shape*> shapes;
    for (size_t i = 0; i < results_.size(); ++i) {
      shapes.push_back(LocalShape(rule_.context(), results_[i], strategy.results[i]));
    }
    bool is_tuple = source_.shape()->IsTuple();
    Instruction* local =
        rule_.EmitLocal(locals, is_tuple ? rule_.context().Tuple(shapes) : shapes[0]);
    local->set_called(0, Body(layout));
    return rule_.scope().NewFromLocal(source_.shape(), strategy.results, local);
  }

 private:
  bool HasDims(const Shape* shape, std::span<const int64_t> dims) const {
    return std::equal(shape->dims().begin(), shape->dims().end(), dims.begin(), dims.end());
  }

  bool TreatsAlike() const {
    std::span<const int64_t> stack = rule_.operand_shape(0)->dims();
    for (int64_t i = 0; i < source_.operand_count(); ++i) {
      if (!HasDims(rule_.operand_shape(i), i < inputs_ ? stack : element_)) return false;
    }
    for (int64_t i = 0; i < static_cast<int64_t>(results_.size()); ++i) {
      if (!HasDims(results_[At(i)], i < outputs_ ? stack : element_)) return false;
    }
    return TreatsElementsAlike(source_.called(0), element_) &&
           !ReturnedBy(source_.called(0)).empty();
  }

  Strategy Choose() {
    Labels labels;
    std::vector<int> carry;
    for (size_t d = 0; d < element_.size(); ++d) carry.push_back(labels.Add());
    auto set_stacks = [&](int label) {
      std::vector<int> stack = carry;
      stack.insert(stack.begin() + scan_.dimension, label);
      labels.operands.assign(At(inputs_), stack);
      labels.operands.insert(labels.operands.end(), At(scan_.num_carries), carry);
      labels.results.assign(At(outputs_), stack);
      labels.results.insert(labels.results.end(), At(scan_.num_carries), carry);
    };
    set_stacks(Labels::kWhole);
    Strategy strategy = ChooseMovingTiles(rule_, labels);
    int64_t tiles = 1;
    double bytes = 0;
    for (int64_t i = 0; i < inputs_; ++i) {
      tiles = std::max(tiles, MostTiles(*rule_.operand(i), scan_.dimension));
      bytes += RowBytes(*rule_.operand(i), scan_.dimension);
    }
    if (tiles > 1 && FoldsElements(source_)) {
      double received = PlanPrefix(rule_.scope().run().options, bytes, tiles).bytes;
      set_stacks(labels.Add(
          {.max_tiles = rule_.operand_shape(0)->dim(scan_.dimension), .bytes_if_cut = received}));
      const Strategy& cut = rule_.Choose(labels);
      if (cut.cost < strategy.cost) strategy = cut;
    }
    return strategy;
  }

  RuleResult RunCut(std::span<Instruction* const> locals, Strategy strategy) {
    const MeshLayout* layout = strategy.operands[0];
    FoldValues stacks(locals.begin(), locals.begin() + inputs_);
    FoldValues inits(locals.begin() + inputs_, locals.end());
    int64_t tile = stacks[0]->shape()->dim(scan_.dimension);
    int64_t size = rule_.operand_shape(0)->dim(scan_.dimension);
    const TilePrefix prefix = {.layout = layout,
                               .dim = scan_.dimension,
                               .tiles = CeilOfRatio(size, tile),
                               .is_reverse = scan_.is_reverse};
    double bytes = 0;
    bool can_merge = true;
    for (Instruction* x : inits) {
      bytes += static_cast<double>(x->shape()->byte_size());
      can_merge &= CanMerge(x->shape()->dtype());
    }
    PrefixPlan plan = PlanPrefix(rule_.scope().run().options, bytes, prefix.tiles);
    plan.by_permutes &= can_merge;
    Computation* body = Body(layout);
    CutScan scan(rule_, prefix, body, Fold(layout));
    CutScan::Values made = scan.Run(stacks, inits, plan);
    std::vector<Instruction*> leaves = made.stacks;
    leaves.insert(leaves.end(), made.carries.begin(), made.carries.end());
    for (size_t i = At(outputs_); plan.by_permutes && i < leaves.size(); ++i) {
      MeshLayout partial = *strategy.results[i];
      partial.order = layout->order;
      partial.unreduced = SortedAxes(layout->axes(scan_.dimension));
      partial.combiner = DisjointCombiner(results_[i]->dtype());
      strategy.results[i] = rule_.layouts().Intern(std::move(partial));
    }
    Instruction* local = source_.shape()->IsTuple() ? rule_.builder().Tuple(leaves) : leaves[0];
    return rule_.scope().NewFromLocal(source_.shape(), strategy.results, local);
  }

  // The body on tiles; one per layout of the elements.
  Computation* Body(const MeshLayout* layout) {
    return OnTiles(layout, ReturnedBy(source_.called(0)), {});
  }

  // The body that returns the carries as outputs, too; the body itself if it does so.
  Computation* Fold(const MeshLayout* layout) {
    std::vector<const Instruction*> returned = ReturnedBy(source_.called(0));
    std::vector<const Instruction*> carries(returned.end() - scan_.num_carries, returned.end());
    carries.insert(carries.end(), returned.end() - scan_.num_carries, returned.end());
    if (carries == returned) return Body(layout);
    return OnTiles(layout, carries, std::vector<const MeshLayout*>(carries.size(), layout));
  }

  // `root` tells apart what is made of one body.
  Computation* OnTiles(const MeshLayout* layout, std::span<const Instruction* const> returns,
                       std::vector<const MeshLayout*> root) {
    const Computation* body = source_.called(0);
    std::vector<AxisList> axes = layout->dims;
    axes.erase(axes.begin() + scan_.dimension);
    CalleeSignature signature;
    signature.parameters.assign(At(source_.operand_count()),
                                {rule_.layouts().WithDims(layout, std::move(axes))});
    signature.root = std::move(root);
    if (Computation* known = rule_.scope().FindCallee(body, signature)) return known;
    std::vector<int64_t> tile = LocalDims(rule_.operand_shape(0), layout);
    tile.erase(tile.begin() + scan_.dimension);
    Computation* made = BodyOnTiles(rule_.scope(), body, returns, tile);
    rule_.scope().CacheCallee(body, signature, made);
    return made;
  }

  PartitionContext& rule_;
  const Instruction& source_;
  const ScanAttributes& scan_;
  std::span<const Shape* const> results_;
  int64_t inputs_, outputs_;
  std::vector<int64_t> element_;  // dims of one element, the scanned one left out
};

}  // namespace

RuleResult Scan(PartitionContext& rule) { return ScanRule(rule).Run(); }

}  // namespace gshard::partition_rules
