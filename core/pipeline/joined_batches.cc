#include "core/pipeline/joined_batches.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/analysis/combiner.h"
#include "core/op_dims/dim_relation.h"
#include "core/pipeline/plan/shard_rows.h"
#include "core/resize/example_dims.h"
#include "core/transforms/rewriter.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/literal.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

// A dim that is written as three: micro-batches, batches and the rest of a micro-batch's rows.
struct SplitDims {
  std::vector<int64_t> dims;
  std::vector<int64_t> place;  // by old dim: its own, or that of its batches
};

class BatchJoins {
 public:
  BatchJoins(const Module& module, const ExampleDims& examples, const BatchDims& batch,
             int64_t microbatches)
      : module_(module),
        users_(module),
        examples_(examples),
        batch_(batch),
        microbatches_(microbatches) {}

  // How many batches a dim has; 1 also where it counts no examples.
  int64_t Batches(const Instruction* x, int64_t leaf, int64_t dim, const Shape* shape) const {
    const Examples own = examples_.Of(*x, leaf, dim);
    return own.count == 0 ? 1 : shape->dim(dim) / (own.count * own.minor);
  }
  int64_t Batches(const Instruction* x, int64_t dim) const {
    return Batches(x, 0, dim, x->shape());
  }
  bool IsJoined(const Instruction* x) const {
    return AnyDim(x, [&](const Shape* shape, int64_t leaf, int64_t d) {
      return Batches(x, leaf, d, shape) > 1;
    });
  }
  bool AnyIsJoined(const Instruction* x) const {
    return IsJoined(x) || std::ranges::any_of(x->operands(), [&](const Instruction* operand) {
             return IsJoined(operand);
           });
  }

  // What is to be done with an instruction that has joined batches.
  enum class Step : uint8_t { kKeep, kOrder, kSplit, kReshape, kUnknown };
  Step StepOf(const Instruction* x) const {
    if (IsJoined(x) && HasOtherBatches(x)) return Step::kUnknown;
    const bool is_entry = x->parent() == module_.entry();
    if (is_entry && x == module_.entry()->root() && IsJoined(x)) return Step::kUnknown;
    const auto keep_if = [](bool holds) { return holds ? Step::kKeep : Step::kUnknown; };
    switch (x->opcode()) {  // those that have other rules than their relation
      case Opcode::kParameter:
        return is_entry && IsJoined(x) ? Step::kOrder : Step::kKeep;
      case Opcode::kConstant:
        return IsSplat(*x->attributes<ConstantAttributes>().literal) ? Step::kKeep : Step::kOrder;
      case Opcode::kIota:
        return Batches(x, x->attributes<IotaAttributes>().dimension) > 1 ? Step::kOrder
                                                                         : Step::kKeep;
      case Opcode::kRng:
        return Step::kOrder;
      case Opcode::kRngBitGenerator:
        return keep_if(std::ranges::all_of(users_.of(x), [](const Instruction* user) {
          return user->opcode() == Opcode::kGetTupleElement;
        }));
      case Opcode::kGetTupleElement:
        return x->operand(0)->opcode() == Opcode::kRngBitGenerator
                   ? Step::kOrder
                   : keep_if(AreAlike(x, 0, x->operand(0), FirstLeafRead(*x)));
      case Opcode::kTuple:
      case Opcode::kOptBarrier:
      case Opcode::kWhile:
      case Opcode::kConditional:
      case Opcode::kCall:
      case Opcode::kFusion:
        return keep_if(HandsOn(x));
      case Opcode::kSlice:
      case Opcode::kPad:
      case Opcode::kConcatenate:
        return FollowsRows(x) ? Step::kKeep : SplitsApart(x) ? Step::kSplit : Step::kUnknown;
      case Opcode::kReshape:
        return KeepsOrder(x) ? Step::kKeep : Step::kReshape;
      case Opcode::kSetDimensionSize:
      case Opcode::kAllGather:
      case Opcode::kReduceScatter:
      case Opcode::kAllToAll:
        return Step::kUnknown;
      default:  // by its relation
        return keep_if(FollowsRows(x));
    }
  }

  // The dims of `x`, those that `is_split` holds for as three each.
  SplitDims Split(const Instruction* x, const std::vector<bool>& is_split) const {
    SplitDims split;
    for (int64_t d = 0; d < x->shape()->rank(); ++d) {
      const int64_t size = x->shape()->dim(d);
      if (!is_split[At(d)]) {
        split.place.push_back(std::ssize(split.dims));
        split.dims.push_back(size);
        continue;
      }
      const int64_t batches = Batches(x, d);
      split.place.push_back(std::ssize(split.dims) + 1);
      split.dims.insert(split.dims.end(),
                        {microbatches_, batches, size / (microbatches_ * batches)});
    }
    return split;
  }
  std::vector<bool> JoinedDims(const Instruction* x) const {
    std::vector<bool> joined;
    for (int64_t d = 0; d < x->shape()->rank(); ++d) joined.push_back(Batches(x, d) > 1);
    return joined;
  }
  // Elements of one batch in this dim.
  int64_t RowsOfBatch(const Instruction* x, int64_t dim) const {
    return x->shape()->dim(dim) / Batches(x, dim);
  }

 private:
  // In a region, which has a part of each batch.
  bool HasOtherBatches(const Instruction* x) const {
    return AnyDim(x, [&](const Shape*, int64_t leaf, int64_t d) {
      const int64_t count = examples_.Of(*x, leaf, d).count;
      return count != 0 && count != batch_.size;
    });
  }

  template <typename Holds>
  static bool AnyDim(const Instruction* x, const Holds& holds) {
    int64_t leaf = 0;
    for (const Shape* shape : LeafShapes(x->shape())) {
      for (int64_t d = 0; shape->IsArray() && d < shape->rank(); ++d) {
        if (holds(shape, leaf, d)) return true;
      }
      ++leaf;
    }
    return false;
  }

  // Leaf by leaf of a, from `leaf_a` and `leaf_b` on.
  bool AreAlike(const Instruction* a, int64_t leaf_a, const Instruction* b, int64_t leaf_b) const {
    const std::vector<const Shape*> shapes = LeafShapes(a->shape());
    for (size_t leaf = At(leaf_a); leaf < shapes.size(); ++leaf, ++leaf_b) {
      const Shape* shape = shapes[leaf];
      for (int64_t d = 0; shape->IsArray() && d < shape->rank(); ++d) {
        const auto i = static_cast<int64_t>(leaf);
        if (Batches(a, i, d, shape) != Batches(b, leaf_b, d, shape)) return false;
      }
    }
    return true;
  }

  bool HandsOn(const Instruction* x) const {
    if (x->opcode() == Opcode::kTuple) {
      int64_t leaf = 0;
      return std::ranges::all_of(x->operands(), [&](const Instruction* operand) {
        const int64_t first = leaf;
        leaf += operand->shape()->leaf_count();
        return AreAlike(operand, 0, x, first);
      });
    }
    if (x->opcode() == Opcode::kOptBarrier) return AreAlike(x, 0, x->operand(0), 0);
    if (x->opcode() == Opcode::kWhile) {
      return AreAlike(x, 0, x->operand(0), 0) && AreAlike(x, 0, x->called(1)->root(), 0) &&
             AreAlike(x, 0, x->called(0)->parameter(0), 0) &&
             AreAlike(x, 0, x->called(1)->parameter(0), 0);
    }
    const bool is_conditional = x->opcode() == Opcode::kConditional;
    for (const Computation* called : x->called()) {
      if (!AreAlike(x, 0, called->root(), 0)) return false;
    }
    for (int64_t i = 0; i < x->operand_count() - (is_conditional ? 1 : 0); ++i) {
      const Instruction* operand = x->operand(is_conditional ? i + 1 : i);
      const Computation* called = x->called(is_conditional ? i : 0);
      if (!AreAlike(operand, 0, called->parameter(is_conditional ? 0 : i), 0)) return false;
    }
    return true;
  }

  // A dim of an operation's operand (or of a result's leaf), by the factors of its relation.
  struct DimOf {
    const Instruction* value;
    int64_t leaf, dim, size;
    const FactorList* factors;
    bool is_joined;
  };
  std::vector<DimOf> DimsOf(const Instruction* x, const DimRelation& relation) const {
    std::vector<DimOf> dims;
    const auto add = [&](const Instruction* value, int64_t leaf, const Shape* shape,
                         const std::vector<FactorList>& factors) {
      for (int64_t d = 0; shape->IsArray() && d < shape->rank(); ++d) {
        dims.push_back(
            {value, leaf, d, shape->dim(d), &factors[At(d)], Batches(value, leaf, d, shape) > 1});
      }
    };
    const std::vector<const Shape*> results = LeafShapes(x->shape());
    for (size_t i = 0; i < results.size(); ++i) {
      add(x, static_cast<int64_t>(i), results[i], relation.results[i]);
    }
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      if (x->operand(i)->shape()->IsArray()) {
        add(x->operand(i), 0, x->operand(i)->shape(), relation.operands[At(i)]);
      }
    }
    return dims;
  }

  // Does it do with each row what it did, wherever the row is, or add rows up?
  bool FollowsRows(const Instruction* x) const {
    const DimRelation relation = RelationOf(*x);
    if (!relation.relates) return !AnyIsJoined(x);
    const std::vector<DimOf> dims = DimsOf(x, relation);
    for (const DimOf& own : dims) {
      if (!own.is_joined) continue;
      if (own.factors->size() != 1 || !IsOrderless(x, relation, own.factors->front())) return false;
      for (const DimOf& other : dims) {
        if (std::ranges::find(*other.factors, own.factors->front()) == other.factors->end()) {
          continue;
        }
        const bool is_alike = other.is_joined && other.factors->size() == 1 &&
                              other.size == own.size && RowsOf(other) == RowsOf(own);
        if (!is_alike) return false;
      }
    }
    return true;
  }

  int64_t RowsOf(const DimOf& of) const {
    const Examples examples = examples_.Of(*of.value, of.leaf, of.dim);
    return examples.count * examples.minor;
  }

  static bool IsOrderless(const Instruction* x, const DimRelation& relation, int factor) {
    const auto has = [&](int64_t operand) {
      return std::ranges::any_of(relation.operands[At(operand)],
                                 [&](const FactorList& own) { return own.front() == factor; });
    };
    switch (relation.factors[At(factor)].kind) {
      case FactorKind::kPassThrough:
        // What an update of some rows, or one by the numbers of rows, changes is known by numbers.
        if (x->opcode() == Opcode::kDynamicUpdateSlice) return has(1);
        return x->opcode() != Opcode::kScatter || has(x->operand_count() - 1);
      case FactorKind::kReduction:
        switch (x->opcode()) {  // others look for rows by their numbers
          case Opcode::kReduce:
            return x->operand_count() == 2 && CombinerOf(x->called(0)).has_value();
          case Opcode::kDot:
          case Opcode::kConvolution:
          case Opcode::kScatter:
          case Opcode::kBatchNormTraining:
          case Opcode::kBatchNormGrad:
            return true;
          default:  // not known to add up
            return false;
        }
      case FactorKind::kPermutation:
      case FactorKind::kNeedReplication:
        return false;
    }
    return false;
  }

  // Slices, pads and concatenations of whole batches. Other dims that change do not count examples.
  bool SplitsApart(const Instruction* x) const {
    for (int64_t d = 0; d < x->shape()->rank(); ++d) {
      const int64_t rows = RowsOfBatch(x, d);
      for (const Instruction* operand : x->operands()) {
        if (operand->shape()->rank() != x->shape()->rank()) continue;
        const bool changes = operand->shape()->dim(d) != x->shape()->dim(d);
        const bool is_joined = Batches(operand, d) > 1 || Batches(x, d) > 1;
        if (is_joined && RowsOfBatch(operand, d) != rows) return false;
        if (is_joined && !changes && Batches(operand, d) != Batches(x, d)) return false;
      }
    }
    return true;
  }

  // Of a reshape: are joined batches the first factor of their dims, on both sides?
  bool KeepsOrder(const Instruction* x) const {
    const DimRelation relation = RelationOf(*x);
    const std::vector<DimOf> dims = DimsOf(x, relation);
    for (const DimOf& own : dims) {
      if (!own.is_joined) continue;
      const int factor = own.factors->front();
      int64_t minor = 1;  // elements of the dim within one of the factor
      for (const int f : *own.factors) {
        if (f != factor) minor *= relation.factors[At(f)].size;
      }
      const bool is_found = std::ranges::any_of(dims, [&](const DimOf& other) {
        const bool is_first = (other.value == x) != (own.value == x) && other.is_joined &&
                              other.factors->front() == factor;
        return is_first && RowsOf(other) * own.size == RowsOf(own) * other.size;
      });
      if (!is_found || RowsOf(own) % minor != 0) return false;
    }
    return true;
  }

  const Module& module_;
  Users users_;
  const ExampleDims& examples_;
  const BatchDims& batch_;
  int64_t microbatches_;
};

class JoinOrder {
 public:
  JoinOrder(Module& module, const BatchJoins& joins, const BatchDims& batch, int64_t microbatches)
      : module_(module), joins_(joins), batch_(batch), microbatches_(microbatches) {}

  // The first instruction of which no order is known; null: there is none.
  const Instruction* FindSteps() {
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) {
        if (!joins_.AnyIsJoined(x)) continue;
        const BatchJoins::Step step = joins_.StepOf(x);
        knows_shards_ = step == BatchJoins::Step::kOrder && IsCutOverDevices();
        if (step == BatchJoins::Step::kUnknown || knows_shards_) return x;
        Old& old = old_[x];
        old.step = step;
        old.operands.assign(x->operands().begin(), x->operands().end());
      }
    }
    return nullptr;
  }
  // Is it one that knows the numbers of rows, where the batch is cut over devices besides?
  bool knows_shards() const { return knows_shards_; }
  bool IsAny() const { return !old_.empty(); }

  void Run() {
    RewriteModule(module_, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
      const auto found = old_.find(x);
      if (found == old_.end()) return x;
      if (found->second.step == BatchJoins::Step::kSplit) {
        return AlongBatches(x, found->second.operands, rewriter.builder());
      }
      return found->second.step == BatchJoins::Step::kReshape
                 ? Reshaped(x, found->second.operands[0], rewriter.builder())
                 : x;
    });
    for (Computation* computation : module_.computations()) {
      InsertAfterEach(module_, computation, [&](Instruction* x, Builder& b) -> Instruction* {
        const auto found = old_.find(x);
        return found == old_.end() || found->second.step != BatchJoins::Step::kOrder
                   ? x
                   : Ordered(x, b);
      });
    }
    RemoveDeadCode(module_);
  }

 private:
  struct Old {
    BatchJoins::Step step = BatchJoins::Step::kKeep;
    std::vector<const Instruction*> operands;  // before others stand in for them
  };

  // Then rows have an order of shards as well (plan/shard_rows.h).
  bool IsCutOverDevices() const {
    for (const auto& [number, dim] : batch_.dimension) {
      const Sharding* s = module_.entry()->parameter(number)->sharding();
      if (s != nullptr && s->IsTiled() && s->TileCount(dim) > 1) return true;
    }
    return std::ranges::any_of(module_.entry()->instructions(),
                               [](const Instruction* x) { return IsRegionMarker(*x); });
  }

  Instruction* Ordered(Instruction* x, Builder& b) const {
    Instruction* ordered = x;
    for (int64_t d = 0; d < x->shape()->rank(); ++d) {
      const RowOrder order{d, microbatches_, joins_.Batches(x, d)};
      if (order.parts == 1) continue;
      const bool counts =
          x->opcode() == Opcode::kIota && x->attributes<IotaAttributes>().dimension == d;
      if (x->opcode() == Opcode::kIota && !counts) continue;
      ordered = counts ? OrderIota(b, x, order) : OrderRows(b, ordered, order);
    }
    return ordered;
  }

  // The same slice, pad or concatenation of batches within each micro-batch.
  Instruction* AlongBatches(Instruction* x, const std::vector<const Instruction*>& old,
                            Builder& b) const {
    std::vector<bool> is_split = joins_.JoinedDims(x);
    for (const Instruction* operand : old) {
      for (int64_t d = 0; d < x->shape()->rank() && d < operand->shape()->rank(); ++d) {
        if (joins_.Batches(operand, d) > 1) is_split[At(d)] = true;
      }
    }
    const SplitDims made = joins_.Split(x, is_split), from = joins_.Split(old[0], is_split);
    Instruction* first = b.Reshape(x->operand(0), from.dims);
    Instruction* result = nullptr;
    if (x->opcode() == Opcode::kConcatenate) {
      std::vector<Instruction*> parts;
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        parts.push_back(b.Reshape(x->operand(i), joins_.Split(old[At(i)], is_split).dims));
      }
      const int64_t along = x->attributes<DimensionsAttributes>().dimensions[0];
      result = b.Concatenate(parts, made.place[At(along)]);
    } else if (x->opcode() == Opcode::kPad) {
      std::vector<PadDim> padding(from.dims.size());
      for (int64_t d = 0; d < x->shape()->rank(); ++d) {
        PadDim pad = x->attributes<PadAttributes>().padding[At(d)];
        const int64_t rows = is_split[At(d)] ? joins_.RowsOfBatch(x, d) : 1;
        pad.low /= rows, pad.high /= rows;
        padding[At(from.place[At(d)])] = pad;
      }
      result = b.Pad(first, x->operand(1), padding);
    } else {
      const auto& slice = x->attributes<SliceAttributes>();
      std::vector<int64_t> starts(from.dims.size(), 0), limits = from.dims;
      std::vector<int64_t> strides(from.dims.size(), 1);
      for (int64_t d = 0; d < x->shape()->rank(); ++d) {
        const size_t at = At(from.place[At(d)]);
        const int64_t rows = is_split[At(d)] ? joins_.RowsOfBatch(x, d) : 1;
        starts[at] = slice.starts[At(d)] / rows, limits[at] = slice.limits[At(d)] / rows;
        strides[at] = slice.strides[At(d)];
      }
      result = b.Slice(first, starts, limits, strides);
    }
    return b.Reshape(result, x->shape()->dims());
  }

  // Through the rows in their own order, with micro-batches in dims of their own meanwhile.
  Instruction* Reshaped(Instruction* x, const Instruction* old, Builder& b) const {
    const auto swapped = [&](const Instruction* of, const SplitDims& split) {
      std::vector<int64_t> order(split.dims.size());
      std::iota(order.begin(), order.end(), 0);
      for (int64_t d = 0; d < of->shape()->rank(); ++d) {
        const size_t at = At(split.place[At(d)]);
        if (joins_.Batches(of, d) > 1) std::swap(order[at - 1], order[at]);
      }
      return order;
    };
    const SplitDims from = joins_.Split(old, joins_.JoinedDims(old));
    const SplitDims to = joins_.Split(x, joins_.JoinedDims(x));
    const std::vector<int64_t> last = swapped(x, to);
    std::vector<int64_t> own_order;
    for (const int64_t d : last) own_order.push_back(to.dims[At(d)]);
    Instruction* split = b.Reshape(x->operand(0), from.dims);
    Instruction* in_order = b.Transpose(split, swapped(old, from));
    Instruction* moved = b.Transpose(b.Reshape(in_order, own_order), last);
    return b.Reshape(moved, x->shape()->dims());
  }

  Module& module_;
  const BatchJoins& joins_;
  const BatchDims& batch_;
  int64_t microbatches_;
  std::unordered_map<const Instruction*, Old> old_;
  bool knows_shards_ = false;
};

// `error` gets the place alone.
Diagnostic RowsMixed(Diagnostic error) {
  error.code = "E-PIPELINE-003";
  error.message =
      "several batches are joined in one dim, and this is not known to keep their rows apart";
  error.hint =
      "a micro-batch has a share of each batch: what slices take apart again goes, what compares "
      "each row with all others does not";
  return error;
}

}  // namespace

Expected<bool> OrderJoinedBatches(Module& module, const BatchDims& batch, int64_t microbatches) {
  if (batch.size % microbatches != 0) return false;
  const Expected<ExampleDims> examples = ExampleDims::Find(module, batch.dimension);
  if (!examples) return Fail(RowsMixed(examples.error()));
  const BatchJoins joins(module, *examples, batch, microbatches);
  JoinOrder order(module, joins, batch, microbatches);
  if (const Instruction* mixed = order.FindSteps(); mixed != nullptr) {
    Diagnostic error = RowsMixed(module.ErrorAt(mixed, "", ""));
    if (order.knows_shards()) {
      error.hint =
          "the batch is cut over devices, too: what knows the numbers of joined rows, such as a "
          "random mask, is made for each batch before they are joined";
    }
    return Fail(std::move(error));
  }
  if (order.IsAny()) order.Run();
  return order.IsAny();
}

bool JoinsBatchesAt(const Module& module, const BatchDims& batch, const Diagnostic& error) {
  const auto joins = [&](const Instruction* x) {
    if (x->opcode() != Opcode::kConcatenate) return false;
    const int64_t along = x->attributes<DimensionsAttributes>().dimensions[0];
    return std::ranges::all_of(x->operands(), [&](const Instruction* operand) {
      return operand->shape()->dim(along) % batch.size == 0;
    });
  };
  return std::ranges::any_of(module.computations(), [&](const Computation* computation) {
    return std::ranges::any_of(computation->instructions(), [&](const Instruction* x) {
      if (!joins(x)) return false;
      const Diagnostic here = module.ErrorAt(x, "", "");
      return here.line == error.line && here.column == error.column;
    });
  });
}

}  // namespace gshard::pipeline
