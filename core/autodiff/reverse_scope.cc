#include "core/autodiff/reverse_scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>

#include "core/autodiff/emit.h"
#include "core/autodiff/expansion.h"
#include "ir/attribute_names.h"
#include "ir/constant_fill.h"
#include "ir/custom_call.h"
#include "ir/metadata.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// Computed again rather than kept: moves data, or is arithmetic of integers and predicates.
bool IsCheap(const Instruction* x) {
  const Opcode opcode = x->opcode();
  if (opcode == Opcode::kCustomCall) return IsIdentityCall(*x) && !IsRegionMarker(*x);
  if (PurityOf(opcode) == Purity::kPure &&
      (MovesOneArray(opcode) || MotionOf(opcode) == Motion::kPacks)) {
    return true;
  }
  if (opcode == Opcode::kConvert) return true;
  return IsElementwise(opcode) && x->shape()->IsArray() &&
         (IsInteger(x->shape()->dtype()) || x->shape()->dtype() == DType::kPred);
}

// Does the adjoint of an element go to the same elements of the operands?
bool PassesOnWhatCounts(const Instruction* x) {
  return IsElementwise(x->opcode()) && x->shape()->IsArray() && x->opcode() != Opcode::kClamp &&
         x->opcode() != Opcode::kMap;
}

// May the product of the derivative of x and zero be other than zero? That of what is infinite is.
bool MaySpoil(const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kNegate:
    case Opcode::kCopy:
    case Opcode::kConvert:
    case Opcode::kSelect:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kReal:
    case Opcode::kImag:
    case Opcode::kComplex:
      return false;
    case Opcode::kMultiply:
      return std::ranges::none_of(x->operands(), [](const Instruction* factor) {
        const std::optional<double> constant = FillingNumber(factor);
        return constant && std::isfinite(*constant);
      });
    default:  // has a derivative that is large somewhere, or is not known not to
      return true;
  }
}

}  // namespace

ReverseScope::ReverseScope(GradientState& state, Computation* computation)
    : state_(state), builder_(state.module, computation) {}

ReverseScope::ReverseScope(GradientState& state, Nesting nesting)
    : state_(state),
      builder_(state.module, nesting.state->parent()),
      nesting_(std::move(nesting)) {}

// --- forward values

Instruction* ReverseScope::Value(Instruction* x) {
  if (!nesting_) return state_.Current(x);
  auto known = values_.find(x);
  if (known != values_.end()) return known->second;
  Instruction* value = NestedValue(x);
  values_[x] = value;
  return value;
}

Instruction* ReverseScope::Available(Instruction* x) {
  return x->parent() == builder_.computation() ? state_.Current(x) : Value(x);
}

Instruction* ReverseScope::NestedValue(Instruction* x) {
  x = state_.Current(x);
  if (x->shape()->IsToken()) return builder_.Add(Opcode::kAfterAll, {}, x->shape());
  if (std::optional<ParameterLeaf> leaf = ParameterLeafOf(x); leaf && !x->shape()->IsTuple()) {
    return ParameterValue(x, *leaf);
  }
  if (x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kTuple) {
    return Value(x->operand(0)->operand(x->attributes<GetTupleElementAttributes>().index));
  }
  if (state_.rematerialize ? !HasSideEffect(*x) : IsFree(x)) {
    if (x->opcode() != Opcode::kParameter) return CloneHere(x);
  }
  if (x->shape()->IsTuple()) return TupleValue(x);
  // Small things that make large ones are kept in their place.
  if (x->opcode() == Opcode::kBroadcast) return CloneHere(x);
  return AddResidual({x, nullptr}, x->shape());
}

Instruction* ReverseScope::ParameterValue(Instruction* x, ParameterLeaf leaf) {
  if (nesting_->counter) {
    if (Instruction* value = nesting_->counter(leaf, builder_)) return value;
  }
  if (Instruction* outside = nesting_->outside(leaf)) {
    return AddResidual({nullptr, outside}, x->shape());
  }
  return AddResidual({x, nullptr}, x->shape());
}

// Leaf by leaf.
Instruction* ReverseScope::TupleValue(Instruction* x) {
  Builder forward(state_.module, x->parent());
  forward.set_origin(x);
  std::vector<Instruction*> leaves;
  for (Instruction* leaf : LeafValues(forward, x)) leaves.push_back(Value(leaf));
  return FromLeaves(builder_, x->shape(), leaves);
}

Instruction* ReverseScope::AddResidual(Residual residual, const Shape* shape) {
  for (size_t k = 0; k < residuals_.size(); ++k) {
    // The same leaf read twice.
    if (residual.outside != nullptr && residuals_[k].outside == residual.outside) {
      Instruction* operands[] = {nesting_->state};
      return builder_.Add(Opcode::kGetTupleElement, operands,
                          GetTupleElementAttributes{StateIndex(k)}, shape->bare());
    }
  }
  residuals_.push_back(residual);
  const bool is_stacked = residual.inside != nullptr && nesting_->iteration != nullptr;
  const Shape* held = shape->bare();
  if (is_stacked) {
    std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
    dims.insert(dims.begin(), nesting_->trip_count);
    held = builder_.context().Array(shape->dtype(), dims);
  }
  Instruction* operands[] = {nesting_->state};
  Instruction* value =
      builder_.Add(Opcode::kGetTupleElement, operands,
                   GetTupleElementAttributes{StateIndex(residuals_.size() - 1)}, held);
  if (!is_stacked) return value;
  return builder_.Reshape(builder_.DynamicSliceDim(value, 0, nesting_->iteration, 1),
                          shape->dims());
}

bool ReverseScope::IsFree(const Instruction* x) {
  auto known = free_.find(x);
  if (known != free_.end()) return known->second;
  const bool is_free = FreeWithoutMemo(x);
  free_[x] = is_free;
  return is_free;
}

bool ReverseScope::FreeWithoutMemo(const Instruction* x) {
  if (x->opcode() == Opcode::kConstant || x->opcode() == Opcode::kIota ||
      x->opcode() == Opcode::kPartitionId || x->opcode() == Opcode::kReplicaId) {
    return true;
  }
  if (std::optional<ParameterLeaf> leaf = ParameterLeafOf(x)) {
    if (x->shape()->IsTuple()) return false;
    if (nesting_->outside(*leaf) != nullptr) return true;
    return nesting_->counter && nesting_->counter(*leaf, builder_) != nullptr;
  }
  if (x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() != Opcode::kTuple) {
    return false;
  }
  return IsCheap(x) &&
         std::ranges::all_of(x->operands(), [&](const Instruction* o) { return IsFree(o); });
}

// A copy of x beside the adjoints.
Instruction* ReverseScope::CloneHere(Instruction* x) {
  std::vector<Instruction*> operands;
  for (Instruction* operand : x->operands()) operands.push_back(Value(operand));
  Instruction* copy =
      state_.module.Clone(builder_.computation(), x, operands, state_.module.UniqueName(x->name()));
  copy->set_extras(nullptr);
  if (IsControlFlow(x->opcode())) {
    for (int64_t k = 0; k < static_cast<int64_t>(x->called().size()); ++k) {
      copy->set_called(k, CloneCalled(x->called(k)));
    }
  }
  state_.activity.Copy(x, copy);
  return copy;
}

Computation* ReverseScope::CloneCalled(Computation* computation) {
  Computation* copy = state_.module.AddComputation(computation->name());
  std::unordered_map<const Instruction*, Instruction*> value;
  std::vector<Instruction*> operands;
  const std::vector<Instruction*> list(computation->instructions().begin(),
                                       computation->instructions().end());
  // A computation that was extended is not in order.
  std::function<Instruction*(Instruction*)> clone = [&](Instruction* original) {
    Instruction* x = state_.Current(original);
    auto known = value.find(x);
    if (known != value.end()) return known->second;
    std::vector<Instruction*> its;
    for (Instruction* operand : x->operands()) its.push_back(clone(operand));
    Instruction* made = state_.module.Clone(copy, x, its, state_.module.UniqueName(x->name()));
    made->set_extras(nullptr);
    if (IsControlFlow(x->opcode())) {
      for (int64_t k = 0; k < static_cast<int64_t>(x->called().size()); ++k) {
        made->set_called(k, CloneCalled(x->called(k)));
      }
    }
    state_.activity.Copy(x, made);
    value[x] = made;
    return made;
  };
  for (Instruction* x : list) clone(x);
  copy->set_root(value.at(state_.Current(computation->root())));
  return copy;
}

Instruction* ReverseScope::Editable(Instruction* x) {
  if (!nesting_ || !state_.rematerialize || HasSideEffect(*x)) return state_.Current(x);
  return Value(x);
}

void ReverseScope::Replace(Instruction* x, Instruction* by) {
  state_.replacements[x] = by;
  for (auto& [original, value] : values_) {
    if (value == x) value = by;
  }
}

// --- what selects leave out

ReverseScope::Taken* ReverseScope::Within(Taken* outer, Instruction* predicate, bool is_true,
                                          const Shape* shape) {
  for (Taken& taken : taken_) {
    if (taken.outer == outer && taken.predicate == predicate && taken.is_true == is_true &&
        SameDims(taken.shape, shape)) {
      return &taken;
    }
  }
  return &taken_.emplace_back(Taken{outer, predicate, is_true, shape});
}

// The innermost that both are, or are within.
ReverseScope::Taken* ReverseScope::CommonOuter(Taken* a, const Taken* b) {
  for (; a != nullptr; a = a->outer) {
    for (const Taken* of_b = b; of_b != nullptr; of_b = of_b->outer) {
      if (a == of_b) return a;
    }
  }
  return nullptr;
}

Instruction* ReverseScope::IsTaken(Taken& taken) {
  if (taken.value != nullptr) return taken.value;
  Instruction* predicate = Value(taken.predicate);
  if (!taken.is_true) predicate = builder_.Add(Opcode::kNot, {predicate});
  if (predicate->shape()->rank() < taken.shape->rank()) {
    predicate = builder_.BroadcastScalar(predicate, taken.shape->dims());
  }
  if (taken.outer != nullptr) predicate = builder_.And(IsTaken(*taken.outer), predicate);
  return taken.value = predicate;
}

Instruction* ReverseScope::Mended(Instruction* adjoint, const Counting& counting) {
  if (!counting.is_spoilt) return adjoint;
  return Emit(builder_).Where(IsTaken(*counting.taken), adjoint);
}

void ReverseScope::Mend(const Instruction* x) {
  const auto counting = counting_.find(x);
  if (counting == counting_.end()) return;
  Instruction*& adjoint = adjoints_.at(x)[0];
  adjoint = Mended(adjoint, counting->second);
  counting_.erase(counting);
}

// --- adjoints

Instruction* ReverseScope::Adjoint(const Instruction* x, int64_t leaf) {
  Mend(x);
  auto it = adjoints_.find(x);
  return it == adjoints_.end() ? nullptr : it->second[At(leaf)];
}

Instruction* ReverseScope::AdjointOrZero(Instruction* x, int64_t leaf) {
  if (Instruction* adjoint = Adjoint(x, leaf)) return adjoint;
  return builder_.Zero(LeafShapes(x->shape())[At(leaf)]->bare());
}

void ReverseScope::SetAdjoint(Instruction* x, Instruction* adjoint, int64_t leaf) {
  counting_.erase(x);
  std::vector<Instruction*>& leaves = adjoints_[x];
  if (leaves.empty()) leaves.resize(At(x->shape()->leaf_count()), nullptr);
  leaves[At(leaf)] = adjoint;
}

void ReverseScope::Add(Instruction* x, Instruction* adjoint, int64_t leaf) {
  if (adjoint == nullptr || !Wants(x, leaf)) return;
  const Shape* shape = LeafShapes(x->shape())[At(leaf)];
  // Of an operation of several types, which converted the value to its own.
  if (IsFloat(adjoint->shape()->dtype()) && IsFloat(shape->dtype())) {
    adjoint = builder_.Convert(adjoint, shape->dtype());
  }
  CheckInternal(SameDims(adjoint->shape(), shape) && adjoint->shape()->dtype() == shape->dtype(),
                "an adjoint has another shape than its value");
  Counting counting = current_;
  const auto known = adjoints_.find(x);
  Instruction* sum = known == adjoints_.end() ? nullptr : known->second[At(leaf)];
  if (sum != nullptr) {
    const auto before = counting_.find(x);
    const Counting of_sum = before == counting_.end() ? Counting{} : before->second;
    counting.taken = CommonOuter(of_sum.taken, current_.taken);
    if (of_sum.taken != counting.taken) sum = Mended(sum, of_sum);
    if (current_.taken != counting.taken) adjoint = Mended(adjoint, current_);
    counting.is_spoilt = (of_sum.taken == counting.taken && of_sum.is_spoilt) ||
                         (current_.taken == counting.taken && current_.is_spoilt);
    adjoint = builder_.Add(sum, adjoint);
  }
  SetAdjoint(x, adjoint, leaf);
  if (counting.taken != nullptr) counting_[x] = counting;
}

void ReverseScope::AddToBranch(Instruction* x, Instruction* adjoint, Instruction* predicate,
                               bool is_taken) {
  const Counting around = current_;
  current_.taken = Within(around.taken, predicate, is_taken, adjoint->shape());
  Add(x, adjoint);
  current_ = around;
}

Expected<void> ReverseScope::Sweep(std::span<Instruction* const> instructions) {
  // Rules append to computations; the list must not move under the loop.
  const std::vector<Instruction*> order(instructions.begin(), instructions.end());
  for (size_t i = order.size(); i-- > 0;) {
    Instruction* x = order[i];
    auto it = adjoints_.find(x);
    if (it == adjoints_.end() || x->opcode() == Opcode::kParameter) continue;
    const bool is_elementwise = PassesOnWhatCounts(x);
    if (!is_elementwise) Mend(x);
    const std::vector<Instruction*> adjoints = it->second;
    if (std::ranges::all_of(adjoints, [](const Instruction* a) { return a == nullptr; })) continue;
    const GradRule& rule = GradRuleFor(x->opcode());
    if (rule.kind == GradKind::kZero || !WantsAny(x)) continue;
    if (rule.kind == GradKind::kNone) {
      return Fail(ErrorAt(
          x, "E-GRAD-003",
          fmt::format("derivatives cannot follow a value through {}", OpcodeName(x->opcode()))));
    }
    const size_t first = builder_.computation()->instructions().size();
    builder_.set_origin(x);
    // The rule may give the name to what takes the place of x.
    const std::string_view name = x->name();
    if (const auto counting = counting_.find(x); counting != counting_.end()) {
      current_ = counting->second;
      current_.is_spoilt = current_.is_spoilt || MaySpoil(x);
    }
    if (auto done = rule.function(x, adjoints, *this); !done) return done;
    current_ = {};
    MarkAdjoints(x, name, first);
  }
  builder_.set_origin(nullptr);
  return {};
}

// What was made since `first` says which instruction it differentiates.
void ReverseScope::MarkAdjoints(const Instruction* of, std::string_view name, size_t first) {
  std::span<Instruction* const> made = builder_.computation()->instructions().subspan(first);
  if (made.empty()) return;
  Arena& arena = state_.module.arena();
  std::string metadata(of->metadata());
  constexpr std::string_view kKey = "op_name=\"";
  if (const size_t at = metadata.find(kKey); at != std::string::npos) {
    const size_t begin = at + kKey.size();
    size_t end = begin;
    while (end < metadata.size() && metadata[end] != '"') end += metadata[end] == '\\' ? 2u : 1u;
    metadata.insert(std::min(end, metadata.size()), ")");
    metadata.insert(begin, "transpose(");
  }
  const std::string_view kept = arena.Copy(std::string_view(metadata));
  const std::string_view attributes = WithFrontendAttribute(arena, {}, kAdjointOfAttribute, name);
  for (Instruction* x : made) {
    // Copies of forward values and what a nested sweep made say so already.
    if (x->opcode() == Opcode::kConstant || x->opcode() == Opcode::kParameter ||
        x->metadata() != of->metadata() || !x->frontend_attributes().empty() ||
        state_.forward_additions.contains(x)) {
      continue;
    }
    x->set_metadata(kept);
    x->set_frontend_attributes(attributes);
  }
}

Expected<void> ReverseScope::DifferentiateExpansion(Instruction* x, Adjoints adjoints,
                                                    const Expand& expand) {
  std::vector<std::vector<Instruction*>> operands;
  std::vector<Instruction*> copies;
  Activity& activity = state_.activity;
  ReverseScope inner(state_, builder_.computation());
  // Fresh values, so that what flows to them flows to nothing else.
  for (Instruction* operand : x->operands()) {
    std::vector<Instruction*>& leaves = operands.emplace_back();
    Instruction* value = Value(operand);
    for (int64_t leaf = 0; leaf < operand->shape()->leaf_count(); ++leaf) {
      Instruction* of = LeafValue(builder_, value, leaf);
      if (Wants(operand, leaf)) {
        of = builder_.Add(Opcode::kCopy, {of});
        copies.push_back(of);
      }
      leaves.push_back(of);
      if (Wants(operand, leaf)) activity.Mark(of, {true});
    }
  }
  const size_t first = builder_.computation()->instructions().size();
  Expected<std::vector<Instruction*>> results = expand(builder_, operands);
  if (!results) return Fail(std::move(results.error()));
  std::span<Instruction* const> made = builder_.computation()->instructions().subspan(first);
  const std::vector<Instruction*> region(made.begin(), made.end());
  activity.Propagate(region);
  for (size_t i = 0; i < adjoints.size(); ++i) {
    if ((*results)[i] != nullptr) inner.Add((*results)[i], adjoints[i]);
  }
  inner.builder_.set_origin(x);
  if (auto done = inner.Sweep(region); !done) return done;
  for (Instruction* copy : copies) state_.replacements[copy] = copy->operand(0);
  for (int64_t k = 0; k < x->operand_count(); ++k) {
    for (size_t leaf = 0; leaf < operands[At(k)].size(); ++leaf) {
      Add(x->operand(k), inner.Adjoint(operands[At(k)][leaf]), static_cast<int64_t>(leaf));
    }
  }
  return {};
}

}  // namespace gshard
