// Numbers that a part's examples alone decide and that the part's model needs, such as how many of
// its words are not masked: a mean over them is no sum over examples.
//
//   loss = reduce(words * mask) / n                      n = reduce(mask), of the part
//   loss = reduce(words * mask / broadcast(n))           each row has the number of its part
#ifndef GSHARD_CORE_PIPELINE_PART_NUMBERS_H_
#define GSHARD_CORE_PIPELINE_PART_NUMBERS_H_

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/pipeline/part_loop.h"
#include "ir/builder.h"

namespace gshard::pipeline {

class PartNumbers {
 public:
  // `needed`: of the body, in its order. `is_of_examples`: of an element of the loop's state.
  PartNumbers(const PartLoop& parts, const std::vector<Instruction*>& needed,
              const std::function<bool(int64_t)>& is_of_examples);

  // Does `x` need the numbers among its operands of each part by itself? Not what adds them up, or
  // makes another of them.
  bool UsesOwn(const Instruction* x) const { return !adds_.contains(x) && !IsNumber(x); }
  const std::vector<const Instruction*>& numbers() const { return numbers_; }
  // What they follow from, in the body's order.
  const std::vector<Instruction*>& behind() const { return behind_; }
  // The number by which `x` divides or multiplies something; null: it does not, or not such a one.
  const Instruction* FactorOfSum(const Instruction* x) const;
  // Is `x` a number that is broadcast for nothing else than that?
  bool IsFactorAlone(const Instruction* x, const Users& users) const;

 private:
  void Classify(const PartLoop& parts, const Instruction* x,
                std::unordered_set<const Instruction*>& free);
  bool IsNumber(const Instruction* x) const {
    return of_examples_.contains(x) && x->shape()->IsArray() && x->shape()->rank() == 0;
  }

  std::unordered_set<const Instruction*> whole_, of_examples_, adds_;
  std::vector<const Instruction*> numbers_;
  std::vector<Instruction*> behind_;
};

// What ScaledSum reads: `x` divides or multiplies a sum by a number for which `number` stands, and
// `inner` has what stands for the body's instructions before it.
struct ScaledSumInputs {
  Builder& builder;
  const std::unordered_map<const Instruction*, Instruction*>& inner;
  Instruction* x;
  Instruction* number;
};
// The sum of the scaled terms: of a reduction or product, also moved or added to another. Null: it
// is none.
Instruction* ScaledSum(const ScaledSumInputs& in);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PART_NUMBERS_H_
