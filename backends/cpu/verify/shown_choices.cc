#include "backends/cpu/verify/shown_choices.h"

#include <unordered_map>

#include "backends/cpu/verify/near_ties.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

class ShownChoicesBuilder {
 public:
  ShownChoicesBuilder(const Module& whole, const Module& partitioned,
                      std::span<const Candidate> arrays)
      : arrays_(arrays),
        listed_(whole.instruction_limit(), 0),
        positions_(partitioned.instruction_limit(), 0) {
    for (const Candidate& array : arrays) {
      listed_[array.x->id()] = 1;
      forms_.emplace(array.x, array.form);
    }
    uint32_t next = 0;
    for (const Computation* computation : partitioned.computations()) {
      for (const Instruction* x : computation->instructions()) positions_[x->id()] = next++;
    }
  }

  ShownChoices Run() {
    for (const Candidate& array : arrays_) {
      if (DecidingInstruction(*array.x) != nullptr) AddChoice(array);
    }
    return std::move(shown_);
  }

 private:
  void AddChoice(const Candidate& choice) {
    const Instruction& x = *choice.x;
    const Instruction* local = choice.form->local;
    std::vector<const Instruction*> deciding;
    bool is_held = true;
    for (const Instruction* operand : DecidingOperands(*DecidingInstruction(x))) {
      const Instruction* held = HeldForm(operand, listed_);
      is_held = is_held && held != nullptr && held->parent() == x.parent();
      if (held != nullptr) deciding.push_back(held);
    }
    is_held = is_held && !deciding.empty();
    const auto first = static_cast<uint32_t>(shown_.candidates.size());
    for (const Instruction* held : deciding) {
      if (!is_held) break;
      const LocalForm* form = forms_.at(held);
      const bool follows = form->local->parent() == local->parent() &&
                           positions_[form->local->id()] <= positions_[local->id()];
      Add(*held, form, {held, &x}, {form->local, follows ? local : form->local});
    }
    const auto probe = static_cast<uint32_t>(shown_.candidates.size());
    Add(x, choice.form, {&x, &x}, {local, local});
    shown_.choices.push_back({&x, probe, first, is_held});
  }

  void Add(const Instruction& x, const LocalForm* form, ProbePoint whole, ProbePoint local) {
    Candidate& candidate = shown_.candidates.emplace_back();
    candidate.x = &x;
    candidate.form = form;
    candidate.in_each_pass = true;
    shown_.whole_probes.push_back(whole);
    shown_.local_probes.push_back(local);
    shown_.choice_of.push_back(static_cast<uint32_t>(shown_.choices.size()));
  }

  std::span<const Candidate> arrays_;
  std::vector<uint8_t> listed_;      // by instruction id of the whole graph
  std::vector<uint32_t> positions_;  // by instruction id of the mesh's program
  std::unordered_map<const Instruction*, const LocalForm*> forms_;
  ShownChoices shown_;
};

}  // namespace

ShownChoices FindShownChoices(const Module& whole, const Module& partitioned,
                              std::span<const Candidate> arrays) {
  return ShownChoicesBuilder(whole, partitioned, arrays).Run();
}

}  // namespace gshard::cpu
