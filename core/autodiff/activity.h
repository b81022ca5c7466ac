// Activity analysis: which values a derivative can flow through.
//
//   p0 ─► dot ─► tanh ─► sum ─► loss      p0, dot, tanh, sum: varied and useful
//   p0 ─► sign ─► compare                  not varied: the derivative of sign is zero
//   p0 ─► exp ─► (second result)           varied, but not useful for the loss
//
// A leaf is *varied* if it depends on a marked one in a differentiable way, *useful* if a wanted
// result depends on it so (Griewank and Walther, Evaluating Derivatives, 2008, chapter 6). Only
// leaves of floating or complex type can be varied. Loops and branches are followed into their
// computations, loops to a fixpoint. Every computation must have one caller (reducers apart).
// Not thread-safe.
#ifndef GSHARD_CORE_AUTODIFF_ACTIVITY_H_
#define GSHARD_CORE_AUTODIFF_ACTIVITY_H_

#include <functional>
#include <span>
#include <vector>

#include "ir/module.h"

namespace gshard {

using LeafMask = std::vector<bool>;

class Activity {
 public:
  using IsConstant = std::function<bool(const Instruction*)>;
  // `is_constant`: instructions that stop derivatives.
  explicit Activity(IsConstant is_constant) : is_constant_(std::move(is_constant)) {}

  bool IsVaried(const Instruction* x, int64_t leaf = 0) const;
  bool IsAnyVaried(const Instruction* x) const;
  LeafMask Varied(const Instruction* x) const;  // of every leaf

  // Adds leaves; those of a type without derivatives are left out. True if one was new.
  bool Mark(const Instruction* x, const LeafMask& leaves);
  // Follows what is marked forward through `instructions`, in an order that respects operands.
  void Propagate(std::span<Instruction* const> instructions);
  // `copy` does what `original` does.
  void Copy(const Instruction* original, const Instruction* copy);

  // Leaves of each parameter that the leaves `useful` of the root depend on.
  std::vector<LeafMask> UsefulParameters(const Computation& computation,
                                         const LeafMask& useful) const;
  // Elements of a loop's state whose adjoints the reversed loop carries, given those wanted of its
  // result.
  LeafMask CarriedAdjoints(const Instruction& loop, LeafMask wanted) const;

 private:
  LeafMask Transfer(const Instruction* x);
  LeafMask TransferCall(const Instruction* x, int64_t first_operand);
  void TransferLoop(const Instruction* x);
  std::vector<LeafMask> UsefulOperands(const Instruction& x, const LeafMask& useful) const;

  IsConstant is_constant_;
  std::vector<LeafMask> varied_;  // by instruction id; empty: no leaf
};

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_ACTIVITY_H_
