// One computation being differentiated: where forward values come from, where adjoints go.
//
//   entry (and expansions)           body of a loop, branch, callee
//   forward and reverse together     forward computation F       reverse computation R(state)
//     x = tanh(a)                      x = tanh(a) ──residual──►   x' = gte(state, k)
//     ..                                                           ..
//     d = multiply(c, 1 - x*x)                                     d = multiply(c, 1 - x'*x')
//
// A nested scope's reverse computation has one parameter, a tuple: what its caller fixed (adjoints
// of results, a loop's counter), then residuals in the order in which rules asked for them. A
// residual is *inside* (a value of F: an extra result of it, stacked over a loop's iterations) or
// *outside* (a value of the computation that calls F: an operand, a loop invariant). Values that
// cost nothing are computed again instead: constants, iotas, movements and integer arithmetic of
// those and of outside values. With rematerialization everything is.
//
// What a select leaves out adds nothing, also where the derivative of what it leaves out is
// infinite or no number (1 / |x| at zero): where all that uses a value goes elementwise into one
// branch of a select, its adjoint counts only where that branch is taken. Products such as 0 * inf
// are zeroed where such an adjoint leaves the branch (docs/autodiff.md, rule 8).
//
// Zeros are symbolic: null. Not thread-safe.
#ifndef GSHARD_CORE_AUTODIFF_REVERSE_SCOPE_H_
#define GSHARD_CORE_AUTODIFF_REVERSE_SCOPE_H_

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/autodiff/activity.h"
#include "core/autodiff/leaves.h"
#include "core/autodiff/rules.h"
#include "ir/builder.h"

namespace gshard {

// What all scopes of a run share.
struct GradientState {
  explicit GradientState(Module& m, Activity::IsConstant is_constant)
      : module(m), activity(std::move(is_constant)) {}

  Module& module;
  Activity activity;
  bool rematerialize = false;
  // Forward instructions that another has taken the place of; operands are redirected at the end.
  std::unordered_map<const Instruction*, Instruction*> replacements;
  // What the forward program got while it was differentiated: no adjoints.
  std::unordered_set<const Instruction*> forward_additions;

  // Remembers what `computation` got since it had `first` instructions.
  void AddForward(const Computation& computation, size_t first) {
    for (const Instruction* x : computation.instructions().subspan(first)) {
      forward_additions.insert(x);
    }
  }
  Instruction* Current(Instruction* x) const {
    for (auto it = replacements.find(x); it != replacements.end(); it = replacements.find(x)) {
      x = it->second;
    }
    return x;
  }
};

// A value of the forward program that a reverse computation reads.
struct Residual {
  Instruction* inside = nullptr;   // of the forward computation
  Instruction* outside = nullptr;  // of its caller's; the other is null
};

// How a nested scope hangs together with its caller.
struct Nesting {
  Instruction* state = nullptr;  // the parameter of the reverse computation
  int64_t fixed = 0;             // elements of the state before the residuals
  // What the caller has for a leaf of a parameter of `forward`; null: nothing that is at hand.
  std::function<Instruction*(ParameterLeaf)> outside;
  // Of loops: the iteration (s32) that is being reversed, and what is computed from it: the value
  // of a leaf of the state in that iteration, or null.
  Instruction* iteration = nullptr;
  int64_t trip_count = 0;
  std::function<Instruction*(ParameterLeaf, Builder&)> counter;
};

class ReverseScope {
 public:
  // Of instructions in `computation`, which gets the adjoints too.
  ReverseScope(GradientState& state, Computation* computation);
  // Of a called computation; adjoints go to the computation of nesting.state.
  ReverseScope(GradientState& state, Nesting nesting);
  ReverseScope(const ReverseScope&) = delete;
  ReverseScope& operator=(const ReverseScope&) = delete;

  GradientState& state() { return state_; }
  Module& module() { return state_.module; }
  // Appends to the computation that gets the adjoints.
  Builder& builder() { return builder_; }

  // The forward value x there.
  Instruction* Value(Instruction* x);
  // The same of a value that may be there already.
  Instruction* Available(Instruction* x);
  // The forward instruction that computes x, to be extended by more results. In this scope's
  // forward computation, or a copy of x beside the adjoints when it is computed again.
  Instruction* Editable(Instruction* x);
  // `by` computes what `x`, which Editable() gave, did.
  void Replace(Instruction* x, Instruction* by);

  bool Wants(const Instruction* x, int64_t leaf = 0) const {
    return state_.activity.IsVaried(x, leaf);
  }
  bool WantsAny(const Instruction* x) const { return state_.activity.IsAnyVaried(x); }
  // Adds to the adjoint of a leaf of x; null adds nothing, neither does it where none is wanted.
  void Add(Instruction* x, Instruction* adjoint, int64_t leaf = 0);
  // The same for an array that a select takes where `predicate` (forward) is `is_taken`; the
  // adjoint is zero elsewhere.
  void AddToBranch(Instruction* x, Instruction* adjoint, Instruction* predicate, bool is_taken);
  // The adjoint so far; null: zero.
  Instruction* Adjoint(const Instruction* x, int64_t leaf = 0);
  Instruction* AdjointOrZero(Instruction* x, int64_t leaf = 0);
  // For rules that add in place: into a part of AdjointOrZero().
  void SetAdjoint(Instruction* x, Instruction* adjoint, int64_t leaf = 0);

  // Runs the rules of `instructions`, last first.
  Expected<void> Sweep(std::span<Instruction* const> instructions);

  // Rules by expansion: `expand` writes x anew with simpler operations, given the leaves of each
  // operand, and returns the leaves of the result; those are differentiated.
  using Expand = std::function<Expected<std::vector<Instruction*>>(
      Builder&, std::span<const std::vector<Instruction*>> operands)>;
  Expected<void> DifferentiateExpansion(Instruction* x, Adjoints adjoints, const Expand& expand);

  const std::vector<Residual>& residuals() const { return residuals_; }
  // The index of residual k in the state.
  int64_t StateIndex(size_t k) const { return nesting_->fixed + static_cast<int64_t>(k); }

  Diagnostic ErrorAt(const Instruction* x, std::string code, std::string message) const {
    return state_.module.ErrorAt(x, std::move(code), std::move(message));
  }

 private:
  // Elements of arrays of the same dims: those that selects take, the inner one of a branch of the
  // outer.
  struct Taken {
    Taken* outer = nullptr;
    Instruction* predicate = nullptr;  // forward; a scalar, or of these dims
    bool is_true = true;               // where it is, or where it is not
    const Shape* shape = nullptr;      // with these dims
    Instruction* value = nullptr;      // a predicate of these dims; null: not asked for yet
  };
  // Of an adjoint: it counts in these elements alone (null: in all), and in others it may be no
  // number.
  struct Counting {
    Taken* taken = nullptr;
    bool is_spoilt = false;
  };

  Taken* Within(Taken* outer, Instruction* predicate, bool is_true, const Shape* shape);
  static Taken* CommonOuter(Taken* a, const Taken* b);
  Instruction* IsTaken(Taken& taken);
  Instruction* Mended(Instruction* adjoint, const Counting& counting);
  void Mend(const Instruction* x);
  Instruction* NestedValue(Instruction* x);
  Instruction* ParameterValue(Instruction* x, ParameterLeaf leaf);
  Instruction* TupleValue(Instruction* x);
  Instruction* AddResidual(Residual residual, const Shape* shape);
  bool IsFree(const Instruction* x);
  bool FreeWithoutMemo(const Instruction* x);
  Instruction* CloneHere(Instruction* x);
  Computation* CloneCalled(Computation* computation);
  void MarkAdjoints(const Instruction* of, std::string_view name, size_t first);

  GradientState& state_;
  Builder builder_;
  std::optional<Nesting> nesting_;
  std::vector<Residual> residuals_;
  std::unordered_map<const Instruction*, Instruction*> values_;
  std::unordered_map<const Instruction*, bool> free_;
  std::unordered_map<const Instruction*, std::vector<Instruction*>> adjoints_;
  std::unordered_map<const Instruction*, Counting> counting_;  // of adjoints of arrays
  Counting current_;                                           // of what Add() gets
  std::deque<Taken> taken_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_REVERSE_SCOPE_H_
