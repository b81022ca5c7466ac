#include "core/pipeline/emit/stage_signature.h"

#include <algorithm>

#include "core/pipeline/emit/pass_inputs.h"
#include "core/pipeline/emit/pass_values.h"
#include "core/pipeline/emit/stage_functions.h"
#include "ir/attribute_equality.h"
#include "ir/equality.h"
#include "ir/hash.h"

namespace gshard::pipeline {
namespace {

bool DoTheSame(const Instruction& a, const Instruction& b) {
  return a.shape() == b.shape() && a.backend_config() == b.backend_config() &&
         a.operand_count() == b.operand_count() && SameAttributes(a, b) &&
         std::ranges::equal(a.called(), b.called(), [](const Computation* p, const Computation* q) {
           return p == q || SameComputation(*p, *q);
         });
}

int64_t AddressWord(const void* pointer) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer));
}

}  // namespace

int64_t OperationClasses::Of(const Instruction* x) {
  if (x->id() >= known_.size()) known_.resize(2 * x->id() + 1, 0);
  int32_t& known = known_[x->id()];
  if (known != 0) return known;
  std::vector<const Instruction*>& same_hash =
      by_hash_[HashPointer(HashOfAttributes(*x), x->shape())];
  const auto equal = std::ranges::find_if(
      same_hash, [&](const Instruction* other) { return DoTheSame(*x, *other); });
  // The id of the first of them, which is its own.
  const Instruction* first = equal == same_hash.end() ? x : *equal;
  if (first == x) same_hash.push_back(x);
  return known = static_cast<int32_t>(first->id()) + 1;
}

class StageSignatures::Writer {
 public:
  Writer(const StageFunctionInputs& in, OperationClasses& classes, Pass pass, int64_t v)
      : in_(in), classes_(classes), pass_(pass), v_(v), values_(*in.stages, pass, v) {}

  std::vector<int64_t> Run() {
    const StageGraph& stages = *in_.stages;
    words_ = {static_cast<int64_t>(pass_)};
    for (Instruction* target : stages.TargetsOf(pass_, v_)) WriteComputed(target);
    const RegionState& state = *in_.state;
    const auto k = static_cast<size_t>(v_);
    if (pass_ == Pass::kForward && v_ + 1 < stages.count()) WriteSlots(state.forward, k);
    if (pass_ == Pass::kBackward && v_ > 0) WriteSlots(state.backward, k - 1);
    const Pass saving = stages.recomputes_ahead() ? Pass::kRecompute : Pass::kForward;
    if (pass_ == saving) WriteSlots(state.saved, k);
    if (pass_ == Pass::kBackward) WriteSlots(state.delayed, k);
    WriteTerms(stages.pass(pass_, v_).terms);
    for (Instruction* x : stages.pass(pass_, v_).outputs) {
      words_.push_back(static_cast<int64_t>(state.outputs.SlotOf(k, x)));
      words_.push_back(NumberOf(x));
    }
    return std::move(words_);
  }

 private:
  // In the order in which the function computes them, each value by operations on earlier ones.
  void WriteComputed(Instruction* target) {
    const auto is_known = [&](const PassValue& value) {
      return numbers_.contains(value) || (value.second < 0 && WriteGiven(value));
    };
    values_.ForEachBehind(target, is_known,
                          [&](const PassValue& value, const std::vector<PassValue>& operands) {
                            const bool is_input = values_.IsLayerInput(value);
                            words_.push_back(is_input ? kLayerInput : classes_.Of(value.first));
                            if (!is_input) WriteAnnotation(value.first);
                            for (const PassValue& operand : operands)
                              words_.push_back(numbers_.at(operand));
                            Number(value);
                          });
  }

  bool WriteGiven(const PassValue& value) {
    const PassInput input = FindPassInput(*in_.stages, *in_.state, pass_, v_, value.first);
    if (input.kind == PassInput::Kind::kNone) return false;
    words_.insert(words_.end(),
                  {kGiven, static_cast<int64_t>(input.kind), input.element,
                   static_cast<int64_t>(input.row), AddressWord(value.first->shape())});
    if (input.place != nullptr) words_.push_back(input.place->offset);
    if (input.kind == PassInput::Kind::kExamples) WriteAnnotation(value.first);
    Number(value);
    return true;
  }

  void WriteAnnotation(const Instruction* x) {
    if (!in_.shardings->is_fully_manual()) words_.push_back(AddressWord(in_.annotation(x)));
  }

  void WriteSlots(const ValueSlots& slots, size_t k) {
    for (const auto& [slot, x] : slots.values(k)) {
      words_.push_back(static_cast<int64_t>(slot));
      words_.push_back(NumberOf(const_cast<Instruction*>(x)));
    }
    words_.push_back(kEnd);
  }

  void WriteTerms(const std::vector<StageTerm>& terms) {
    const RegionState& state = *in_.state;
    const auto k = static_cast<size_t>(v_);
    for (const StageTerm& term : terms) {
      if (const auto* place = state.term_packs.Find(k, term.accumulated)) {
        words_.insert(words_.end(), {kGiven, static_cast<int64_t>(place->pack), place->offset});
      } else {
        words_.push_back(static_cast<int64_t>(state.terms.SlotOf(k, term.accumulated)));
      }
      words_.push_back(static_cast<int64_t>(in_.phases->accumulated()[term.accumulated].combiner));
      for (Instruction* x : term.values) words_.push_back(NumberOf(x));
      words_.push_back(kEnd);
    }
    words_.push_back(kEnd);
  }

  void Number(const PassValue& value) {
    numbers_.emplace(value, static_cast<int64_t>(numbers_.size()));
  }
  int64_t NumberOf(Instruction* x) const { return numbers_.at(values_.ResultOf(x)); }

  // No class, slot or number of a value.
  static constexpr int64_t kEnd = -1, kGiven = -2, kLayerInput = -3;
  const StageFunctionInputs& in_;
  OperationClasses& classes_;
  Pass pass_;
  int64_t v_;
  PassValues values_;
  std::vector<int64_t> words_;
  std::unordered_map<PassValue, int64_t, HashOfPassValue> numbers_;
};

std::vector<int64_t> StageSignatures::Of(Pass pass, int64_t v) {
  const bool is_known = in_.layers->regions().empty() && !in_.results_of && pass != Pass::kNone;
  if (!is_known) return {};
  return Writer(in_, classes_, pass, v).Run();
}

}  // namespace gshard::pipeline
