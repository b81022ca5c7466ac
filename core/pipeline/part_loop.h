// A loop over parts of the batch, and what it does with each element of its state.
#ifndef GSHARD_CORE_PIPELINE_PART_LOOP_H_
#define GSHARD_CORE_PIPELINE_PART_LOOP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/analysis/trip_count.h"
#include "core/transforms/loop_parts.h"
#include "ir/traversal.h"

namespace gshard::pipeline {

// Does `x` add up the rows of an array, and nothing else?
bool AddsUpRows(const Instruction& x);

// The counted loop of an entry, and what its body does with each element of its state.
class PartLoop {
 public:
  enum class Kind : uint8_t { kOther, kCounter, kKept, kSum, kStack, kChain };

  // `users` outlives it.
  PartLoop(const Instruction* loop, const LoopCounter& counter, const Users& users);

  bool IsUnderstood() const;
  // What a loop with sums hands on and is no sum; null: there are none, or all are understood.
  const Instruction* Unknown() const;
  // What counts the turns is in turn i: start + i * step.
  std::pair<int64_t, int64_t> StartAndStep(const Instruction* counter) const {
    return starts_.at(*StateElement(counter));
  }
  Kind kind(int64_t element) const { return kinds_[static_cast<size_t>(element)]; }
  int64_t parts() const { return counter_.trips; }
  const Computation& body() const { return *body_; }
  // Does the body add something to a sum here? `total` is the operand that is the sum.
  bool AddsToSum(const Instruction* x, int64_t& total) const;
  // What elements of kind kChain follow from in the turn before, in the body's order.
  const std::vector<Instruction*>& chain() const { return chain_; }
  // What is stacked in each turn.
  const Instruction* StackedRow(int64_t element) const {
    return body_->root()->operand(element)->operand(1);
  }

  // Is `x` the part of a kept array that belongs to the turn: row i of [parts, ..], or rows
  // i * n onward of [parts * n, ..]?
  bool TakesPart(const Instruction* x) const;
  bool IsCounter(const Instruction* x) const {
    const std::optional<int64_t> element = StateElement(x);
    return element && starts_.contains(*element);
  }
  int64_t KeptElementOf(const Instruction* x) const {
    const std::optional<int64_t> element = StateElement(x);
    return element && kind(*element) == Kind::kKept ? *element : -1;
  }
  // i if x is element i of what the body is given.
  std::optional<int64_t> StateElement(const Instruction* x) const {
    return ElementOf(x, body_->parameter(0));
  }

 private:
  Kind KindOf(int64_t i);
  // Integers that follow from themselves, from turn to turn, such as a random key that is split in
  // each: of no sums and of nothing floating.
  void FindChains();
  bool FollowsFromChains(const Instruction* x,
                         std::unordered_set<const Instruction*>& behind) const;
  // What counts the turns, the loop's own counter or another.
  bool FindCounter(int64_t i);
  bool IsReadOnce(const Instruction* x) const;
  // From the element to the result there are only additions, read by nobody else.
  bool IsSum(const Instruction* result, const Instruction* element);
  bool IsStack(const Instruction* result, const Instruction* element) const;
  // Along dim 0 at turn * `rows`, and at 0 of the others, from operand `first` of `x` on?
  bool StartsByTurn(const Instruction* x, int64_t first, int64_t rows) const;
  // What an integer scalar of the body is in this turn.
  std::optional<int64_t> Number(const Instruction* x, int64_t turn) const;

  const Instruction* loop_;
  LoopCounter counter_;
  const Users& users_;
  const Computation* body_;
  std::map<int64_t, std::pair<int64_t, int64_t>> starts_;  // of counters, and their steps
  std::vector<Kind> kinds_;
  std::vector<Instruction*> chain_;
  std::unordered_map<const Instruction*, int64_t> adds_;  // with the place of the sum
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PART_LOOP_H_
