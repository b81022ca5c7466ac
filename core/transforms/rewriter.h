// Replaces instructions in one forward walk over a computation.
//
// A sweep (Run) asks a pass for every instruction, operands before users, what is to stand in for
// it; it counts uses as they change and leaves alone what must not be replaced. A pass with an
// order or conditions of its own walks by itself, in the steps that a sweep consists of (Begin, ..,
// Finish). Either way later uses read what stands in, and new instructions are put where they are
// needed in the list. After a sweep what nobody needs any more stays in the list: passes end with
// RemoveDeadCode. Linear in the size of the computation; one rewriter serves all computations of a
// module, one at a time.
#ifndef GSHARD_CORE_TRANSFORMS_REWRITER_H_
#define GSHARD_CORE_TRANSFORMS_REWRITER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ir/builder.h"

namespace gshard {

class Rewriter {
 public:
  explicit Rewriter(Module& module) : module_(module) {}
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  // Returns what stands in for `x` from now on: x itself, something that stands before it, or
  // something made by builder(), of a compatible shape. Its operands are redirected already.
  using Visit = std::function<Instruction*(Instruction* x, Rewriter& rewriter)>;

  // True if something was replaced. Instructions with control dependencies are left alone, and a
  // sharding is never lost: an annotated instruction is replaced by a new one, which takes it over,
  // or by one with the same.
  bool Run(Computation* computation, const Visit& visit);
  // Has anything been made by builder(), whether it stands in for something or not?
  bool has_made() const { return has_made_; }

  // Within a sweep: uses by instructions that are still needed (an operand used twice counts
  // twice), the root counting once.
  int64_t UseCount(const Instruction* x) const {
    return x->id() < uses_.size() ? uses_[x->id()] : 0;
  }
  // Is the instruction being visited the only user of x?
  bool IsOnlyUse(const Instruction* x) const { return UseCount(x) == 1; }
  // Of the computation being rewritten; in a sweep it derives from the instruction being visited.
  Builder& builder() { return *builder_; }

  // The walk by hand: Begin empties the list, every old instruction is kept or replaced, in an
  // order of dependences, and Finish puts the new list in place. What the builder has made goes
  // before the next instruction that is kept.
  void Begin(Computation* computation);
  // From now on `x` reads what stands in for its operands.
  void RedirectOperands(Instruction* x);
  // What stands in for `x`: itself unless it was replaced.
  Instruction* ValueOf(Instruction* x) const {
    Instruction* by = x->id() < value_.size() ? value_[x->id()] : nullptr;
    return by != nullptr ? by : x;
  }
  void Keep(Instruction* x) { TakeNew(), list_.push_back(x); }
  // `x` leaves the list, side effect or not. Null: nobody reads it any more.
  void Replace(Instruction* x, Instruction* by) { TakeNew(), SetValue(x, by); }
  // `x` stays, but others read `by` from now on.
  void Alias(Instruction* x, Instruction* by) { SetValue(x, by); }
  // The root is what stands in for the old one.
  void Finish();

 private:
  void CountUses(const Computation& computation);
  void CountOperands(std::span<Instruction* const> made);
  void StandIn(Instruction* x, Instruction* by, bool is_new);
  void Release(Instruction* x);
  void SetValue(const Instruction* x, Instruction* by);
  // Whatever the builder has made since.
  void TakeNew() {
    const std::span<Instruction* const> all = builder_->computation()->instructions();
    if (taken_ == all.size()) return;
    list_.insert(list_.end(), all.begin() + static_cast<std::ptrdiff_t>(taken_), all.end());
    taken_ = all.size();
    has_made_ = true;
  }
  void RedirectControlPredecessors();

  Module& module_;
  std::optional<Builder> builder_;
  size_t taken_ = 0;                 // of the builder's computation: instructions seen
  std::vector<Instruction*> list_;   // the new list
  std::vector<Instruction*> value_;  // by id: what stands in; null: itself
  std::vector<int32_t> uses_;        // by id
  bool has_made_ = false;
};

// Passes over all computations: runs `visit` on each, then removes dead code. True if the module
// changed.
bool RewriteModule(Module& module, const Rewriter::Visit& visit);
// Only over those that run while loops, and where nothing is replaced or made, dead code stays.
bool RewriteLoopCallers(Module& module, const Rewriter::Visit& visit);

// One walk in which every instruction stays and what `after` makes of it, beside it in the list,
// is what later ones read: itself, or something made by the builder, which derives from it.
void InsertAfterEach(Module& module, Computation* computation,
                     const std::function<Instruction*(Instruction* x, Builder& builder)>& after);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_REWRITER_H_
