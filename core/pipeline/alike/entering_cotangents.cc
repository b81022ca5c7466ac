#include "core/pipeline/alike/entering_cotangents.h"

#include <utility>
#include <vector>

#include "core/pipeline/emit/side_by_side.h"
#include "core/transforms/rewriter.h"

namespace gshard::pipeline {

bool CopyEnteringCotangents(Module& module, const StageGraph& stages,
                            std::unordered_set<const Instruction*>& copies) {
  const int64_t last = stages.count() - 2;
  if (last < 2) return false;  // one stage only
  const SideBySide found = CompareStages(stages, Pass::kBackward, last - 1, last);
  if (found.not_handed.empty() && found.lone_summands.empty()) return false;
  std::unordered_map<const Instruction*, Instruction*> copy_of;
  for (Instruction* x : module.entry()->instructions()) {
    if (copies.contains(x)) copy_of.emplace(x->operand(0), x);
  }
  std::vector<std::pair<SideBySide::Use, Instruction*>> changed;
  InsertAfterEach(module, module.entry(), [&](Instruction* x, Builder& builder) -> Instruction* {
    const auto add_copy = [&](Instruction* value) {
      Instruction* copy = builder.Add(Opcode::kCopy, {value}, x->shape()->bare(), "cotangent");
      copies.insert(copy);
      return copy;
    };
    if (const auto value = found.not_handed.find(x); value != found.not_handed.end()) {
      Instruction*& copy = copy_of[x];
      if (copy == nullptr) copy = add_copy(x);
      for (const SideBySide::Use& use : value->second) changed.emplace_back(use, copy);
    }
    const auto summand = found.lone_summands.find(x);
    if (summand == found.lone_summands.end()) return x;
    Instruction* zero = add_copy(builder.Zero(x->shape()->bare()));
    return summand->second == 0 ? builder.Add(zero, x) : builder.Add(x, zero);
  });
  for (const auto& [use, copy] : changed) {
    use.user->set_operand(use.operand, use.user->operand(use.place));
    use.user->set_operand(use.place, copy);
  }
  return true;
}

}  // namespace gshard::pipeline
