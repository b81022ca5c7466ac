// See example_dims.h.

#include "core/resize/example_dims.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/op_dims/dim_relation.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/linalg_call.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

bool IsMadeOfNothing(Opcode opcode) {
  return opcode == Opcode::kConstant || opcode == Opcode::kIota;
}

// The size of a factor within one dim: a slice, and what it is cut from, have it in two sizes.
int64_t SizeWithin(const DimRelation& relation, const FactorList& factors, size_t i, int64_t dim) {
  return factors.size() == 1 ? dim : relation.factors[At(factors[i])].size;
}

}  // namespace

// The work list: instructions of which an operand's or a result's dims have become known.
class ExampleSearch {
 public:
  explicit ExampleSearch(const Module& module) : module_(module), users_(module) {
    found_.first_.resize(module.instruction_limit());
    is_constant_.assign(module.instruction_limit(), false);
    is_waiting_.assign(module.instruction_limit(), false);
    uint32_t next = 0;
    for (const Computation* computation : module.computations()) {
      for (const Instruction* x : computation->instructions()) {
        for (const Shape* leaf : LeafShapes(x->shape())) {
          found_.first_[x->id()].push_back(next);
          if (leaf->IsArray()) next += static_cast<uint32_t>(leaf->rank());
        }
        for (const Computation* called : x->called()) callers_[called].push_back(x);
        is_constant_[x->id()] = IsConstant(*x);
      }
    }
    found_.examples_.resize(next);
  }

  Expected<ExampleDims> Run(const std::map<int64_t, int64_t>& dimension) {
    for (const auto& [number, dim] : dimension) {
      const Instruction* x = module_.entry()->parameter(number);
      if (x->shape()->dim(dim) < 2) {
        Diagnostic error = module_.ErrorAt(
            x, "E-BATCH-001",
            fmt::format("'{}' holds {} examples: which dims count them cannot be told", x->name(),
                        x->shape()->dim(dim)));
        error.hint = "print the program with a batch of two or more";
        return Fail(std::move(error));
      }
      Set(x, x, 0, dim, {x->shape()->dim(dim), 1});
    }
    while (!waiting_.empty() && !error_) {
      const Instruction* x = waiting_.front();
      waiting_.pop_front();
      is_waiting_[x->id()] = false;
      Visit(x);
    }
    if (error_) return Fail(*std::move(error_));
    return std::move(found_);
  }

 private:
  // Made of constants alone: what its size is, those say that use it. Nothing follows from one use
  // of a shared constant for another.
  bool IsConstant(const Instruction& x) const {
    if (IsMadeOfNothing(x.opcode())) return true;
    return x.shape()->IsArray() && x.operand_count() > 0 && x.called().empty() &&
           x.opcode() != Opcode::kCustomCall &&
           std::ranges::all_of(x.operands(), [&](const Instruction* operand) {
             return is_constant_[operand->id()];
           });
  }

  void Enqueue(const Instruction* x) {
    if (is_waiting_[x->id()]) return;
    is_waiting_[x->id()] = true;
    waiting_.push_back(x);
  }

  void Refuse(const Instruction* at, std::string message, std::string hint = "") {
    if (error_) return;
    error_ = module_.ErrorAt(at, "E-BATCH-002", std::move(message));
    error_->hint = std::move(hint);
  }
  void RefusePart(const Instruction* x) {
    Refuse(x,
           fmt::format("'{}' ({}) takes a part of the examples, or adds to them: what it would be "
                       "of another batch is not known",
                       x->name(), OpcodeName(x->opcode())));
  }

  Examples Of(const Instruction* x, int64_t leaf, int64_t dim) const {
    return found_.Of(*x, leaf, dim);
  }

  // `at`: the operation that it follows from.
  void Set(const Instruction* at, const Instruction* value, int64_t leaf, int64_t dim,
           Examples examples) {
    if (examples.count == 0 || error_) return;
    Examples& known =
        found_.examples_[found_.first_[value->id()][At(leaf)] + static_cast<uint32_t>(dim)];
    if (known == examples) return;
    if (known.count != 0) {
      Refuse(at, fmt::format("by '{}' dim {} of '{}' counts {} examples, and {} elsewhere",
                             at->name(), dim, value->name(), examples.count, known.count));
      return;
    }
    known = examples;
    Enqueue(value);
    for (const Instruction* user : users_.of(value)) Enqueue(user);
    const bool is_border =
        value->opcode() == Opcode::kParameter || value == value->parent()->root();
    if (!is_border) return;
    if (auto callers = callers_.find(value->parent()); callers != callers_.end()) {
      for (const Instruction* caller : callers->second) Enqueue(caller);
    }
  }

  // Leaf by leaf, from a leaf of each on, `leaves` of them.
  void Tie(const Instruction* at, const Instruction* a, int64_t leaf_a, const Instruction* b,
           int64_t leaf_b, int64_t leaves) {
    const std::vector<const Shape*> shapes = LeafShapes(a->shape());
    for (int64_t i = 0; i < leaves; ++i) {
      const Shape* shape = shapes[At(leaf_a + i)];
      for (int64_t d = 0; shape->IsArray() && d < shape->rank(); ++d) {
        const Examples of_a = Of(a, leaf_a + i, d), of_b = Of(b, leaf_b + i, d);
        if (!is_constant_[a->id()]) Set(at, b, leaf_b + i, d, of_a);
        if (!is_constant_[b->id()]) Set(at, a, leaf_a + i, d, of_b);
      }
    }
  }
  void TieAll(const Instruction* at, const Instruction* a, const Instruction* b) {
    Tie(at, a, 0, b, 0, a->shape()->leaf_count());
  }

  void Visit(const Instruction* x) {
    switch (x->opcode()) {  // those that say no dims themselves, or of other instructions
      case Opcode::kParameter:
      case Opcode::kConstant:
      case Opcode::kIota:
      case Opcode::kRng:
      case Opcode::kInfeed:
        return;
      case Opcode::kTuple: {
        int64_t leaf = 0;
        for (const Instruction* operand : x->operands()) {
          Tie(x, operand, 0, x, leaf, operand->shape()->leaf_count());
          leaf += operand->shape()->leaf_count();
        }
        return;
      }
      case Opcode::kGetTupleElement:
        return Tie(x, x, 0, x->operand(0), FirstLeafRead(*x), x->shape()->leaf_count());
      case Opcode::kOptBarrier:
        return TieAll(x, x, x->operand(0));
      case Opcode::kWhile:
        for (const Computation* called : x->called()) TieAll(x, x, called->parameter(0));
        TieAll(x, x, x->operand(0));
        return TieAll(x, x, x->called(1)->root());
      case Opcode::kConditional:
        for (size_t i = 0; i < x->called().size(); ++i) {
          const Computation* branch = x->called(static_cast<int64_t>(i));
          TieAll(x, x->operand(static_cast<int64_t>(i) + 1), branch->parameter(0));
          TieAll(x, x, branch->root());
        }
        return;
      case Opcode::kCall:
      case Opcode::kFusion:
        for (int64_t i = 0; i < x->operand_count(); ++i) {
          TieAll(x, x->operand(i), x->called(0)->parameter(i));
        }
        return TieAll(x, x, x->called(0)->root());
      case Opcode::kAllGather:
      case Opcode::kReduceScatter:
      case Opcode::kAllToAll:
        return VisitResized(x);
      case Opcode::kCustomCall:
        return VisitCustomCall(x);
      case Opcode::kScan:  // its computation has arrays of dims that are not followed
        return RefuseAny(x);
      default:  // by its relation
        return VisitRelated(x);
    }
  }

  void VisitCustomCall(const Instruction* x) {
    if (IsRegionMarker(*x)) return VisitResized(x);
    if (IsCustomCallTo(*x, kTopKTarget)) {
      const int64_t leading = x->operand(0)->shape()->rank() - 1;
      for (int64_t leaf = 0; leaf < x->shape()->leaf_count(); ++leaf) {
        for (int64_t d = 0; d < leading; ++d) {
          Set(x, x, leaf, d, Of(x->operand(0), 0, d));
          Set(x, x->operand(0), 0, d, Of(x, leaf, d));
        }
      }
      if (Of(x->operand(0), 0, leading).count > 0) RefusePart(x);
      return;
    }
    if (IsIdentityCall(*x) || BatchDimsOf(*x) > 0) return VisitRelated(x);
    RefuseAny(x);
  }

  // Nothing is known of how its dims follow.
  void RefuseAny(const Instruction* x) {
    bool any = HasExamples(x);
    for (const Instruction* operand : x->operands()) any = any || HasExamples(operand);
    if (!any) return;
    const bool is_call = x->opcode() == Opcode::kCustomCall;
    Refuse(
        x,
        fmt::format(
            "'{}' ({}) is for arrays of these shapes: what it would be of another batch "
            "is not known",
            x->name(),
            is_call ? x->attributes<CustomCallAttributes>().target : OpcodeName(x->opcode())),
        is_call ? "write what it computes in operations, or print the program for each batch" : "");
  }

  bool HasExamples(const Instruction* x) const {
    const std::vector<const Shape*> leaves = LeafShapes(x->shape());
    for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      for (int64_t d = 0; leaves[leaf]->IsArray() && d < leaves[leaf]->rank(); ++d) {
        if (Of(x, static_cast<int64_t>(leaf), d).count > 0) return true;
      }
    }
    return false;
  }

  // Borders of manual regions, and collectives that make dims longer or shorter: operand i and
  // result i correspond, a device has its share of the examples or all of them.
  void VisitResized(const Instruction* x) {
    const std::vector<const Shape*> results = LeafShapes(x->shape());
    for (int64_t i = 0; i < x->operand_count() && i < static_cast<int64_t>(results.size()); ++i) {
      const Instruction* operand = x->operand(i);
      const bool is_alike = operand->shape()->IsArray() && results[At(i)]->IsArray() &&
                            operand->shape()->rank() == results[At(i)]->rank();
      if (!is_alike) return RefuseAny(x);
      for (int64_t d = 0; d < results[At(i)]->rank(); ++d) {
        const int64_t from = operand->shape()->dim(d), to = results[At(i)]->dim(d);
        if (from <= to) {
          TieShare(x, {operand, 0, d, from}, {x, i, d, to});
        } else {
          TieShare(x, {x, i, d, to}, {operand, 0, d, from});
        }
      }
    }
  }

  struct DimOf {
    const Instruction* value;
    int64_t leaf, dim, size;
  };
  // The whole has the examples of so many devices, one after the other.
  void TieShare(const Instruction* x, const DimOf& share, const DimOf& whole) {
    const Examples of_share = Of(share.value, share.leaf, share.dim);
    const Examples of_whole = Of(whole.value, whole.leaf, whole.dim);
    if (of_share.count == 0 && of_whole.count == 0) return;
    const int64_t devices = share.size == 0 ? 0 : whole.size / share.size;
    if (devices == 0 || share.size * devices != whole.size) return RefusePart(x);
    if (of_share.count > 0) {
      const int64_t major = share.size / (of_share.count * of_share.minor);
      if (devices > 1 && major > 1) return RefusePart(x);
      Set(x, whole.value, whole.leaf, whole.dim, {of_share.count * devices, of_share.minor});
      return;
    }
    if (of_whole.count % devices != 0 || of_whole.count / devices < 2) return RefusePart(x);
    Set(x, share.value, share.leaf, share.dim, {of_whole.count / devices, of_whole.minor});
  }

  void VisitRelated(const Instruction* x) {
    const DimRelation relation = RelationOf(*x);
    if (!relation.relates) return RefuseAny(x);
    if (TakesPart(x)) return RefusePart(x);
    std::vector<Examples> examples(relation.factors.size());
    const std::vector<const Shape*> results = LeafShapes(x->shape());
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i]->IsArray()) Read(x, x, i, results[i], relation, relation.results[i], examples);
    }
    for (int64_t i = 0; !is_constant_[x->id()] && i < x->operand_count(); ++i) {
      const Instruction* operand = x->operand(i);
      if (is_constant_[operand->id()] || !operand->shape()->IsArray()) continue;
      Read(x, operand, 0, operand->shape(), relation, relation.operands[At(i)], examples);
    }
    for (size_t f = 0; f < examples.size() && !error_; ++f) {
      if (examples[f].count > 0 && IsFixed(*x, relation, static_cast<int>(f), examples[f])) {
        RefusePart(x);
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i]->IsArray())
        Write(x, x, i, results[i], relation, relation.results[i], examples);
    }
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      const Instruction* operand = x->operand(i);
      if (!operand->shape()->IsArray()) continue;
      Write(x, operand, 0, operand->shape(), relation, relation.operands[At(i)], examples);
    }
  }

  // By factor, the examples of one value's dims.
  void Read(const Instruction* x, const Instruction* value, size_t leaf, const Shape* shape,
            const DimRelation& relation, const std::vector<FactorList>& dims,
            std::vector<Examples>& examples) {
    for (size_t d = 0; d < dims.size(); ++d) {
      const Examples own = Of(value, static_cast<int64_t>(leaf), static_cast<int64_t>(d));
      if (own.count == 0) continue;
      bool is_found = false;
      int64_t below = 1;
      for (size_t i = dims[d].size(); i-- > 0 && !is_found;) {
        const int64_t size = SizeWithin(relation, dims[d], i, shape->dims()[d]);
        is_found = own.minor % below == 0 && (below * size) % (own.minor * own.count) == 0;
        if (is_found) {
          Examples& of_factor = examples[At(dims[d][i])];
          const Examples inner{own.count, own.minor / below};
          if (of_factor.count != 0 && !(of_factor == inner)) {
            return Refuse(x, fmt::format("'{}' ties {} examples to {}", x->name(), inner.count,
                                         of_factor.count));
          }
          of_factor = inner;
        }
        below *= size;
      }
      if (is_found) continue;
      return Refuse(
          x, fmt::format("'{}' ({}) cuts the {} examples of '{}' into groups: which of the sizes "
                         "grows with the batch is not known",
                         x->name(), OpcodeName(x->opcode()), own.count, value->name()));
    }
  }

  void Write(const Instruction* x, const Instruction* value, size_t leaf, const Shape* shape,
             const DimRelation& relation, const std::vector<FactorList>& dims,
             const std::vector<Examples>& examples) {
    for (size_t d = 0; d < dims.size(); ++d) {
      Examples of_dim;
      int64_t below = 1;
      for (size_t i = dims[d].size(); i-- > 0;) {
        const Examples inner = examples[At(dims[d][i])];
        if (inner.count > 0 && of_dim.count > 0) {
          return Refuse(x,
                        fmt::format("dim {} of '{}' counts pairs of examples", d, value->name()));
        }
        if (inner.count > 0) of_dim = {inner.count, below * inner.minor};
        below *= SizeWithin(relation, dims[d], i, shape->dims()[d]);
      }
      if (of_dim.count > 0 && shape->dims()[d] % (of_dim.count * of_dim.minor) != 0) {
        return RefusePart(x);
      }
      Set(x, value, static_cast<int64_t>(leaf), static_cast<int64_t>(d), of_dim);
    }
  }

  // Does an attribute that cannot follow say how many elements there are along the factor?
  bool IsFixed(const Instruction& x, const DimRelation& relation, int factor,
               const Examples& examples) const {
    const Factor& of = relation.factors[At(factor)];
    switch (x.opcode()) {  // those whose attributes have sizes, or that make dims longer or shorter
      case Opcode::kConcatenate:
        return false;  // of whole batches, else their sizes do not divide
      case Opcode::kSlice:
        return ChangesSize(x, relation, factor) && !SlicesBatches(x, relation, factor, examples);
      case Opcode::kPad:
        return of.kind == FactorKind::kPermutation && !PadsBatches(x, relation, factor, examples);
      case Opcode::kReduceWindow:
      case Opcode::kSelectAndScatter:
        return of.kind == FactorKind::kPermutation;
      case Opcode::kConvolution:
        return IsFixedOfConvolution(x, relation, factor);
      case Opcode::kFft:
        return of.kind == FactorKind::kNeedReplication;
      case Opcode::kGather:
        return of.blocked;
      default:  // by the sizes of its dims
        return ChangesSize(x, relation, factor);
    }
  }

  static size_t DimOfOperand(const DimRelation& relation, int factor) {
    const std::vector<FactorList>& dims = relation.operands[0];
    return static_cast<size_t>(
        std::ranges::find_if(dims, [&](const FactorList& own) { return own[0] == factor; }) -
        dims.begin());
  }

  // Does it take whole batches of several that were joined?
  static bool SlicesBatches(const Instruction& x, const DimRelation& relation, int factor,
                            const Examples& examples) {
    const auto& slice = x.attributes<SliceAttributes>();
    const size_t d = DimOfOperand(relation, factor);
    const int64_t batch = examples.count * examples.minor;
    return slice.starts[d] % batch == 0 && slice.limits[d] % batch == 0 && slice.strides[d] == 1;
  }

  // Does it put whole batches before and behind?
  static bool PadsBatches(const Instruction& x, const DimRelation& relation, int factor,
                          const Examples& examples) {
    const PadDim& pad = x.attributes<PadAttributes>().padding[DimOfOperand(relation, factor)];
    const int64_t batch = examples.count * examples.minor;
    return pad.interior == 0 && pad.low >= 0 && pad.high >= 0 && pad.low % batch == 0 &&
           pad.high % batch == 0;
  }

  // Does a dim that is the factor alone have another size than the factor?
  static bool ChangesSize(const Instruction& x, const DimRelation& relation, int factor) {
    const int64_t size = relation.factors[At(factor)].size;
    const auto changes = [&](const Shape* shape, const std::vector<FactorList>& dims) {
      for (size_t d = 0; d < dims.size(); ++d) {
        const bool is_alone = dims[d].size() == 1 && dims[d][0] == factor;
        if (is_alone && shape->dims()[d] != size) return true;
      }
      return false;
    };
    const std::vector<const Shape*> results = LeafShapes(x.shape());
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i]->IsArray() && changes(results[i], relation.results[i])) return true;
    }
    for (int64_t i = 0; i < x.operand_count(); ++i) {
      const Shape* shape = x.operand(i)->shape();
      if (shape->IsArray() && changes(shape, relation.operands[At(i)])) return true;
    }
    return false;
  }

  // Groups are counted by attributes, and so are the elements of windows.
  static bool IsFixedOfConvolution(const Instruction& x, const DimRelation& relation, int factor) {
    const auto& conv = x.attributes<ConvolutionAttributes>();
    const std::vector<FactorList>& input = relation.operands[0];
    const auto is_part_of = [&](int64_t dim) {
      return std::ranges::find(input[At(dim)], factor) != input[At(dim)].end();
    };
    return (conv.batch_group_count > 1 && input[At(conv.input_batch)][0] == factor) ||
           (conv.feature_group_count > 1 && input[At(conv.input_feature)][0] == factor) ||
           std::ranges::any_of(conv.input_spatial, is_part_of);
  }

  // Updates of some examples: the sizes of what is updated and of the update do not go together.
  bool TakesPart(const Instruction* x) const {
    if (x->opcode() == Opcode::kDynamicUpdateSlice) {
      const Shape* update = x->operand(1)->shape();
      for (int64_t d = 0; d < update->rank(); ++d) {
        if (update->dim(d) == x->shape()->dim(d)) continue;
        if (Of(x, 0, d).count + Of(x->operand(0), 0, d).count + Of(x->operand(1), 0, d).count > 0) {
          return true;
        }
      }
    }
    if (x->opcode() != Opcode::kScatter) return false;
    const auto& scatter = x->attributes<ScatterAttributes>();
    const Instruction* updates = x->operand(x->operand_count() / 2 + 1);
    size_t window = 0;
    for (int64_t d = 0; d < x->operand(0)->shape()->rank(); ++d) {
      if (Contains(scatter.input_batching_dims, d) || Contains(scatter.inserted_window_dims, d)) {
        continue;
      }
      const int64_t of_updates = scatter.update_window_dims[window++];
      const int64_t size = updates->shape()->dim(of_updates);
      if (size == x->operand(0)->shape()->dim(d)) continue;
      if (Of(updates, 0, of_updates).count > 0) return true;
      if (size > 1 && Of(x->operand(0), 0, d).count > 0) return true;
    }
    return false;
  }

  const Module& module_;
  Users users_;
  std::unordered_map<const Computation*, std::vector<const Instruction*>> callers_;
  std::vector<bool> is_constant_, is_waiting_;  // by instruction id
  std::deque<const Instruction*> waiting_;
  ExampleDims found_;
  std::optional<Diagnostic> error_;
};

Expected<ExampleDims> ExampleDims::Find(const Module& module,
                                        const std::map<int64_t, int64_t>& dimension) {
  return ExampleSearch(module).Run(dimension);
}

}  // namespace gshard
