// Loops, branches and calls: the called computation is differentiated into one of its own.
//
//   while (s = init; n times) s = F(s)
//     backward: ct = dL/ds_n; n times, last iteration first: ct = R(ct, residuals)
//   conditional(p, a, b) -> F or G
//     backward: conditional(p, (ct, residuals of F), (ct, residuals of G)) -> R_F or R_G
//   call(a) -> F
//     backward: call((ct, residuals)) -> R_F

#include <fmt/format.h>

#include "core/analysis/integer_value.h"
#include "core/analysis/trip_count.h"
#include "core/autodiff/forward_results.h"
#include "core/autodiff/reverse_scope.h"
#include "ir/dims.h"

namespace gshard {
namespace {

// A reverse computation under construction: its parameter, and the leaves whose adjoints are the
// first elements of it.
struct ReverseComputation {
  Computation* computation = nullptr;
  Instruction* state = nullptr;

  ReverseComputation(Module& module, const Computation& forward) {
    std::string name = "transpose_";
    name += forward.name();
    computation = module.AddComputation(name);
    Builder builder(module, computation);
    state = builder.Parameter(0, module.context().Tuple({}), "state");
  }
  Instruction* Element(Builder& builder, int64_t index, const Shape* shape) const {
    Instruction* operands[] = {state};
    return builder.Add(Opcode::kGetTupleElement, operands, GetTupleElementAttributes{index},
                       shape->bare());
  }
};

// --- while

// The value of a leaf of a loop's state that an iteration takes from the one before with a constant
// added: `start` + iteration * `step`.
struct InductionVariable {
  int64_t start = 0, step = 0;
};

class LoopReversal {
 public:
  LoopReversal(Instruction* loop, int64_t trip_count, ReverseScope& scope)
      : scope_(scope),
        state_(scope.state()),
        original_(loop),
        operand_(loop->operand(0)),
        trip_count_(trip_count),
        instance_(scope.Editable(loop)),
        body_(instance_->called(1)),
        reverse_(scope.module(), *body_) {}

  Expected<void> Run(Adjoints adjoints) {
    LeafMask wanted;
    for (const Instruction* adjoint : adjoints) wanted.push_back(adjoint != nullptr);
    const LeafMask carried = state_.activity.CarriedAdjoints(*original_, wanted);
    for (size_t leaf = 0; leaf < carried.size(); ++leaf) {
      if (carried[leaf]) carried_.push_back(static_cast<int64_t>(leaf));
    }
    FindInvariants();
    if (auto done = ReverseBody(); !done) return done;
    Emit(adjoints);
    return {};
  }

 private:
  void FindInvariants() {
    Builder inside(state_.module, body_);
    Instruction* root = state_.Current(body_->root());
    const int64_t leaves = body_->parameter(0)->shape()->leaf_count();
    next_.resize(At(leaves), nullptr);
    for (int64_t leaf = 0; leaf < leaves; ++leaf) next_[At(leaf)] = LeafValue(inside, root, leaf);
  }

  bool IsInvariant(int64_t leaf) const {
    const std::optional<ParameterLeaf> of = ParameterLeafOf(next_[At(leaf)]);
    return of && of->leaf == leaf;
  }

  // The leaf before the first iteration, in the computation of the loop.
  Instruction* Init(int64_t leaf) {
    Builder outer(state_.module, instance_->parent());
    outer.set_origin(instance_);
    return LeafValue(outer, state_.Current(instance_->operand(0)), leaf);
  }

  std::optional<InductionVariable> Induction(int64_t leaf) {
    const Instruction* next = next_[At(leaf)];
    if (!next->shape()->IsScalar() || !IsInteger(next->shape()->dtype())) return std::nullopt;
    if (next->opcode() != Opcode::kAdd) return std::nullopt;
    const std::optional<int64_t> start = ConstantScalar(Init(leaf));
    for (int64_t side : {0, 1}) {
      const std::optional<ParameterLeaf> of = ParameterLeafOf(next->operand(side));
      const std::optional<int64_t> step = ConstantScalar(next->operand(1 - side));
      if (of && of->leaf == leaf && start && step) return InductionVariable{*start, *step};
    }
    return std::nullopt;
  }

  Instruction* CounterValue(ParameterLeaf leaf, Builder& builder) {
    const std::optional<InductionVariable> of = Induction(leaf.leaf);
    if (!of) return nullptr;
    const DType dtype = next_[At(leaf.leaf)]->shape()->dtype();
    Instruction* value = builder.Convert(iteration_, dtype);
    if (of->step != 1) value = builder.Multiply(value, builder.ScalarInt(dtype, of->step));
    if (of->start != 0) value = builder.Add(value, builder.ScalarInt(dtype, of->start));
    return value;
  }

  // Body: (iteration from 0, adjoints, residuals) -> the same one iteration earlier.
  Expected<void> ReverseBody() {
    Context& context = state_.module.context();
    Builder start(state_.module, reverse_.computation);
    start.set_origin(original_);
    Instruction* count = reverse_.Element(start, 0, context.Scalar(DType::kS32));
    iteration_ = start.Subtract(start.ScalarInt(DType::kS32, trip_count_ - 1), count);
    Nesting nesting;
    nesting.state = reverse_.state;
    nesting.fixed = 1 + static_cast<int64_t>(carried_.size());
    nesting.iteration = iteration_;
    nesting.trip_count = trip_count_;
    nesting.outside = [this](ParameterLeaf leaf) {
      return IsInvariant(leaf.leaf) ? Init(leaf.leaf) : nullptr;
    };
    nesting.counter = [this](ParameterLeaf leaf, Builder& b) { return CounterValue(leaf, b); };
    nested_.emplace(state_, std::move(nesting));
    Builder& builder = nested_->builder();
    builder.set_origin(original_);
    const std::vector<const Shape*> shapes = LeafShapes(body_->parameter(0)->shape());
    Instruction* root = body_->root();
    for (size_t k = 0; k < carried_.size(); ++k) {
      nested_->Add(root,
                   reverse_.Element(builder, static_cast<int64_t>(k) + 1, shapes[At(carried_[k])]),
                   carried_[k]);
    }
    const std::vector<Instruction*> forward(body_->instructions().begin(),
                                            body_->instructions().end());
    if (auto done = nested_->Sweep(forward); !done) return done;
    builder.set_origin(original_);
    std::vector<Instruction*> next = {builder.Add(count, builder.ScalarInt(DType::kS32, 1))};
    for (int64_t leaf : carried_) next.push_back(nested_->AdjointOrZero(body_->parameter(0), leaf));
    next_state_ = std::move(next);
    return {};
  }

  void Emit(Adjoints adjoints) {
    Builder& outer = scope_.builder();
    const std::vector<const Shape*> shapes = LeafShapes(original_->shape());
    std::vector<Instruction*> inits = {outer.ScalarInt(DType::kS32, 0)};
    for (int64_t leaf : carried_) {
      Instruction* adjoint = adjoints[At(leaf)];
      inits.push_back(adjoint != nullptr ? adjoint : outer.Zero(shapes[At(leaf)]->bare()));
    }
    std::vector<Instruction*> inside;
    for (const Residual& residual : nested_->residuals()) {
      if (residual.inside != nullptr) inside.push_back(residual.inside);
    }
    // Before the loop is extended: its operand changes then.
    std::vector<Instruction*> extras;
    for (const Residual& residual : nested_->residuals()) {
      extras.push_back(residual.outside != nullptr ? scope_.Available(residual.outside) : nullptr);
    }
    const std::vector<Instruction*> stacks =
        StackOverIterations(state_, instance_, trip_count_, inside);
    size_t used = 0;
    for (Instruction*& extra : extras) {
      if (extra == nullptr) extra = scope_.Available(stacks[used++]);
    }
    inits.insert(inits.end(), extras.begin(), extras.end());
    outer.set_origin(original_);
    Instruction* init = outer.Tuple(inits);
    reverse_.state->set_shape(init->shape());
    Builder& builder = nested_->builder();
    for (size_t k = 0; k < extras.size(); ++k) {
      next_state_.push_back(reverse_.Element(builder, nested_->StateIndex(k), extras[k]->shape()));
    }
    reverse_.computation->set_root(builder.Tuple(next_state_));
    Computation* called[] = {Condition(init->shape()), reverse_.computation};
    Instruction* operands[] = {init};
    Instruction* loop = outer.Add(Opcode::kWhile, operands, NoAttributes{}, init->shape(), called);
    for (size_t k = 0; k < carried_.size(); ++k) {
      scope_.Add(operand_, outer.GetTupleElement(loop, static_cast<int64_t>(k) + 1), carried_[k]);
    }
  }

  Computation* Condition(const Shape* shape) {
    std::string name = "transpose_";
    name += original_->called(0)->name();
    Computation* condition = state_.module.AddComputation(name);
    Builder builder(state_.module, condition);
    builder.set_origin(original_);
    Instruction* state = builder.Parameter(0, shape, "state");
    condition->set_root(builder.Compare(ComparisonDirection::kLt, builder.GetTupleElement(state, 0),
                                        builder.ScalarInt(DType::kS32, trip_count_)));
    return condition;
  }

  ReverseScope& scope_;
  GradientState& state_;
  Instruction* original_;
  Instruction* operand_;  // of the original, which may get another when the loop is extended
  int64_t trip_count_;
  Instruction* instance_;
  Computation* body_;
  ReverseComputation reverse_;
  Instruction* iteration_ = nullptr;
  std::vector<int64_t> carried_;    // leaves with adjoints
  std::vector<Instruction*> next_;  // leaves after an iteration, in the body
  std::optional<ReverseScope> nested_;
  std::vector<Instruction*> next_state_;
};

// --- branches and calls

// One called computation and what its parameters stand for.
struct Branch {
  Computation* forward = nullptr;
  std::vector<Instruction*> originals;  // operands as the rule sees them
  std::vector<Instruction*> operands;   // in the forward computation that is extended
  std::optional<ReverseComputation> reverse;
  std::optional<ReverseScope> scope;
};

// A leaf of an operand that gets an adjoint.
struct Target {
  Instruction* operand;
  int64_t leaf;
  bool operator==(const Target&) const = default;
};

class CallReversal {
 public:
  CallReversal(Instruction* x, ReverseScope& scope) : scope_(scope), x_(x) {}

  Expected<void> Run(Adjoints adjoints, std::vector<Branch>& branches) {
    for (size_t leaf = 0; leaf < adjoints.size(); ++leaf) {
      if (adjoints[leaf] != nullptr) seeds_.push_back(static_cast<int64_t>(leaf));
    }
    for (Branch& branch : branches) {
      if (auto done = Reverse(branch, adjoints); !done) return done;
    }
    std::vector<Target> targets = Targets(branches);
    if (targets.empty()) return {};
    const std::vector<Instruction*> operands = Operands(branches, adjoints);
    for (size_t k = 0; k < branches.size(); ++k) Finish(branches[k], operands[k], targets);
    Builder& builder = scope_.builder();
    builder.set_origin(x_);
    std::vector<Computation*> called;
    for (const Branch& branch : branches) called.push_back(branch.reverse->computation);
    const Shape* shape = called[0]->root()->shape();
    Instruction* result = nullptr;
    if (x_->opcode() == Opcode::kConditional) {
      std::vector<Instruction*> all = {scope_.Value(x_->operand(0))};
      all.insert(all.end(), operands.begin(), operands.end());
      result = builder.Add(Opcode::kConditional, all, NoAttributes{}, shape, called);
    } else {
      result = builder.Add(Opcode::kCall, operands, CallAttributes{}, shape, called);
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      scope_.Add(targets[i].operand, builder.GetTupleElement(result, static_cast<int64_t>(i)),
                 targets[i].leaf);
    }
    return {};
  }

 private:
  Expected<void> Reverse(Branch& branch, Adjoints adjoints) {
    Module& module = scope_.module();
    branch.reverse.emplace(module, *branch.forward);
    Nesting nesting;
    nesting.state = branch.reverse->state;
    nesting.fixed = static_cast<int64_t>(seeds_.size());
    nesting.outside = [this, &branch](ParameterLeaf leaf) {
      Instruction* operand = branch.operands[At(leaf.parameter)];
      Builder outer(scope_.module(), operand->parent());
      return LeafValue(outer, operand, leaf.leaf);
    };
    branch.scope.emplace(scope_.state(), std::move(nesting));
    Builder& builder = branch.scope->builder();
    builder.set_origin(x_);
    for (size_t k = 0; k < seeds_.size(); ++k) {
      branch.scope->Add(branch.forward->root(),
                        branch.reverse->Element(builder, static_cast<int64_t>(k),
                                                adjoints[At(seeds_[k])]->shape()),
                        seeds_[k]);
    }
    const std::vector<Instruction*> forward(branch.forward->instructions().begin(),
                                            branch.forward->instructions().end());
    return branch.scope->Sweep(forward);
  }

  // Leaves of operands for which some branch has an adjoint; branches with one operand share it.
  std::vector<Target> Targets(std::span<Branch> branches) const {
    std::vector<Target> targets;
    for (Branch& branch : branches) {
      for (size_t i = 0; i < branch.originals.size(); ++i) {
        Instruction* parameter = branch.forward->parameter(static_cast<int64_t>(i));
        for (int64_t leaf = 0; leaf < parameter->shape()->leaf_count(); ++leaf) {
          if (branch.scope->Adjoint(parameter, leaf) == nullptr) continue;
          const Target target{branch.originals[i], leaf};
          if (!scope_.Wants(target.operand, leaf)) continue;
          if (std::ranges::find(targets, target) == targets.end()) targets.push_back(target);
        }
      }
    }
    return targets;
  }

  // Adjoints and residuals of each branch, as a tuple. Values from inside become extra results.
  std::vector<Instruction*> Operands(std::span<Branch> branches, Adjoints adjoints) {
    std::vector<const Shape*> slots;
    std::vector<std::vector<Instruction*>> values(branches.size());
    std::vector<std::vector<size_t>> slot_of(branches.size());
    std::vector<std::vector<Instruction*>> elements(branches.size());
    for (size_t k = 0; k < branches.size(); ++k) {
      for (int64_t leaf : seeds_) elements[k].push_back(adjoints[At(leaf)]);
      for (const Residual& residual : branches[k].scope->residuals()) {
        if (residual.outside != nullptr) {
          elements[k].push_back(scope_.Available(residual.outside));
          continue;
        }
        // Results of one shape are shared by branches: only one of them runs.
        const Shape* shape = residual.inside->shape()->bare();
        size_t slot = 0;
        while (slot < slots.size() &&
               (slots[slot] != shape || (slot < values[k].size() && values[k][slot] != nullptr))) {
          ++slot;
        }
        if (slot == slots.size()) slots.push_back(shape);
        if (values[k].size() <= slot) values[k].resize(slot + 1, nullptr);
        values[k][slot] = residual.inside;
        slot_of[k].push_back(slot);
        elements[k].push_back(nullptr);
      }
    }
    for (std::vector<Instruction*>& of : values) of.resize(slots.size(), nullptr);
    Instruction* instance = x_->opcode() == Opcode::kAsyncDone ? x_ : instance_;
    const std::vector<Instruction*> results = ReturnMore(scope_, instance, values);
    Builder& builder = scope_.builder();
    std::vector<Instruction*> operands;
    for (size_t k = 0; k < branches.size(); ++k) {
      size_t used = 0;
      for (Instruction*& element : elements[k]) {
        if (element == nullptr) element = scope_.Available(results[slot_of[k][used++]]);
      }
      builder.set_origin(x_);
      operands.push_back(builder.Tuple(elements[k]));
    }
    return operands;
  }

  void Finish(Branch& branch, const Instruction* operand, std::span<const Target> targets) {
    branch.reverse->state->set_shape(operand->shape());
    Builder& builder = branch.scope->builder();
    builder.set_origin(x_);
    std::vector<Instruction*> results;
    for (const Target& target : targets) {
      Instruction* sum = nullptr;
      for (size_t i = 0; i < branch.originals.size(); ++i) {
        if (branch.originals[i] != target.operand) continue;
        Instruction* adjoint =
            branch.scope->Adjoint(branch.forward->parameter(static_cast<int64_t>(i)), target.leaf);
        if (adjoint != nullptr) sum = sum == nullptr ? adjoint : builder.Add(sum, adjoint);
      }
      if (sum == nullptr)
        sum = builder.Zero(LeafShapes(target.operand->shape())[At(target.leaf)]->bare());
      results.push_back(sum);
    }
    branch.reverse->computation->set_root(builder.Tuple(results));
  }

 public:
  void set_instance(Instruction* instance) { instance_ = instance; }

 private:
  ReverseScope& scope_;
  Instruction* x_;
  Instruction* instance_ = nullptr;
  std::vector<int64_t> seeds_;  // leaves of the result with adjoints
};

}  // namespace

// while: adjoints of the state, carried backwards; loop invariants collect theirs on the way.
Expected<void> GradWhile(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const std::optional<int64_t> trip_count = TripCount(*x);
  if (!trip_count) {
    Diagnostic error = scope.ErrorAt(
        x, "E-GRAD-004",
        fmt::format("the derivative of loop '{}' needs to know how often it runs", x->name()));
    error.hint =
        "a loop that counts from a constant to a constant is known, so is one with "
        "known_trip_count in its backend_config";
    return Fail(std::move(error));
  }
  if (*trip_count == 0) {
    for (size_t leaf = 0; leaf < adjoints.size(); ++leaf) {
      scope.Add(x->operand(0), adjoints[leaf], static_cast<int64_t>(leaf));
    }
    return {};
  }
  return LoopReversal(x, *trip_count, scope).Run(adjoints);
}

Expected<void> GradConditional(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Instruction* instance = scope.Editable(x);
  std::vector<Branch> branches(x->called().size());
  for (size_t k = 0; k < branches.size(); ++k) {
    branches[k].forward = instance->called()[k];
    branches[k].originals = {x->operand(static_cast<int64_t>(k) + 1)};
    branches[k].operands = {scope.state().Current(instance->operand(static_cast<int64_t>(k) + 1))};
  }
  CallReversal reversal(x, scope);
  reversal.set_instance(instance);
  return reversal.Run(adjoints, branches);
}

Expected<void> GradCall(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Instruction* instance = scope.Editable(x);
  std::vector<Branch> branches(1);
  branches[0].forward = instance->called(0);
  branches[0].originals.assign(x->operands().begin(), x->operands().end());
  for (Instruction* operand : instance->operands()) {
    branches[0].operands.push_back(scope.state().Current(operand));
  }
  CallReversal reversal(x, scope);
  reversal.set_instance(instance);
  return reversal.Run(adjoints, branches);
}

// async-done(async-start(a), calls=F): a call of F.
Expected<void> GradAsyncDone(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Instruction* start = x;
  while (start->opcode() != Opcode::kAsyncStart) start = start->operand(0);
  std::vector<Branch> branches(1);
  branches[0].forward = start->called(0);
  branches[0].originals.assign(start->operands().begin(), start->operands().end());
  branches[0].operands = branches[0].originals;
  CallReversal reversal(x, scope);
  reversal.set_instance(x);
  return reversal.Run(adjoints, branches);
}

}  // namespace gshard
