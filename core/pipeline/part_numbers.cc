#include "core/pipeline/part_numbers.h"

#include <algorithm>

#include "core/analysis/combiner.h"
#include "core/transforms/algebraic_simplifier.h"
#include "ir/constant_fill.h"

namespace gshard::pipeline {
namespace {

// `terms` divided or multiplied by the number.
Instruction* Scaled(const ScaledSumInputs& in, Instruction* terms) {
  Builder& b = in.builder;
  Instruction* numbers = b.Convert(in.number, terms->shape()->dtype());
  return b.Binary(in.x->opcode(), terms, b.BroadcastScalar(numbers, terms->shape()->dims()));
}

Instruction* ScaledTerms(const ScaledSumInputs& in, const Instruction* sum) {
  std::vector<Instruction*> operands;
  for (const Instruction* operand : sum->operands()) {
    const auto found = in.inner.find(operand);
    if (found == in.inner.end()) return nullptr;
    operands.push_back(found->second);
  }
  switch (sum->opcode()) {
    case Opcode::kDot:
      operands[0] = Scaled(in, operands[0]);
      break;
    case Opcode::kReduce: {
      const bool adds_up = operands.size() == 2 && CombinerOf(sum->called(0)) == Opcode::kAdd &&
                           IsFilledWith(sum->operand(1), 0.0);
      if (!adds_up) return nullptr;
      // The gradient of a bias is added up once more, without rows.
      const Opcode before = sum->operand(0)->opcode();
      const bool is_moved = before == Opcode::kReshape || before == Opcode::kReduce;
      Instruction* deeper = is_moved ? ScaledTerms(in, sum->operand(0)) : nullptr;
      operands[0] = deeper != nullptr ? deeper : Scaled(in, operands[0]);
      break;
    }
    case Opcode::kMultiply:
    case Opcode::kDivide: {
      size_t i = 0;
      Instruction* factor = ScaledTerms(in, sum->operand(0));
      if (factor == nullptr && sum->opcode() == Opcode::kMultiply) {
        factor = ScaledTerms(in, sum->operand(1)), i = 1;
      }
      if (factor == nullptr) return nullptr;
      operands[i] = factor;
      break;
    }
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kTranspose:
    case Opcode::kReshape:
    case Opcode::kConvert:
    case Opcode::kNegate:
      for (size_t i = 0; i < operands.size(); ++i) {
        operands[i] = ScaledTerms(in, sum->operand(static_cast<int64_t>(i)));
        if (operands[i] == nullptr) return nullptr;
      }
      break;
    default:  // gradients and losses are sums of these
      return nullptr;
  }
  return in.builder.CloneWith(sum, operands, sum->shape());
}

}  // namespace

PartNumbers::PartNumbers(const PartLoop& parts, const std::vector<Instruction*>& needed,
                         const std::function<bool(int64_t)>& is_of_examples) {
  std::unordered_set<const Instruction*> free;
  for (const Instruction* x : parts.body().instructions()) {
    if (parts.IsCounter(x)) {
      free.insert(x);
    } else if (const std::optional<int64_t> element = parts.StateElement(x)) {
      if (parts.kind(*element) == PartLoop::Kind::kKept && is_of_examples(*element)) {
        whole_.insert(x);
      }
    } else if (x->opcode() != Opcode::kParameter) {
      Classify(parts, x, free);
    }
  }
  for (const Instruction* x : needed) {
    int64_t total = 0;
    if (parts.AddsToSum(x, total)) adds_.insert(x);
    for (const Instruction* operand : x->operands()) {
      const bool is_number = UsesOwn(x) && IsNumber(operand);
      if (is_number && std::ranges::find(numbers_, operand) == numbers_.end()) {
        numbers_.push_back(operand);
      }
    }
  }
  std::unordered_set<const Instruction*> used(numbers_.begin(), numbers_.end());
  const auto list = parts.body().instructions();
  for (size_t k = list.size(); k-- > 0;) {
    if (!used.contains(list[k])) continue;
    behind_.insert(behind_.begin(), list[k]);
    if (parts.StateElement(list[k])) continue;
    used.insert(list[k]->operands().begin(), list[k]->operands().end());
  }
}

void PartNumbers::Classify(const PartLoop& parts, const Instruction* x,
                           std::unordered_set<const Instruction*>& free) {
  if (parts.TakesPart(x)) {
    if (whole_.contains(x->operand(0))) of_examples_.insert(x);
    return;
  }
  bool any = false;
  for (const Instruction* operand : x->operands()) {
    any = any || of_examples_.contains(operand);
    if (!of_examples_.contains(operand) && !free.contains(operand)) return;
  }
  any ? of_examples_.insert(x) : free.insert(x);
}

const Instruction* PartNumbers::FactorOfSum(const Instruction* x) const {
  if (x->opcode() != Opcode::kDivide && x->opcode() != Opcode::kMultiply) return nullptr;
  if (of_examples_.contains(x)) return nullptr;
  const Instruction* factor = x->operand(1);
  if (factor->opcode() == Opcode::kBroadcast) factor = factor->operand(0);
  return IsNumber(factor) && !of_examples_.contains(x->operand(0)) ? factor : nullptr;
}

bool PartNumbers::IsFactorAlone(const Instruction* x, const Users& users) const {
  return x->opcode() == Opcode::kBroadcast && IsNumber(x->operand(0)) &&
         std::ranges::all_of(users.of(x), [&](const Instruction* user) {
           return user->operand(1) == x && FactorOfSum(user) == x->operand(0);
         });
}

Instruction* ScaledSum(const ScaledSumInputs& in) {
  in.builder.set_origin(in.x);
  Instruction* made = ScaledTerms(in, in.x->operand(0));
  in.builder.set_origin(nullptr);
  return made;
}

}  // namespace gshard::pipeline
