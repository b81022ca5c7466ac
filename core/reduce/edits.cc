// See edits.h.

#include "core/reduce/edits.h"

namespace gshard::reduce {

void Redirect(Computation& computation,
              const std::unordered_map<const Instruction*, Instruction*>& by) {
  auto final_value = [&](Instruction* x) {
    for (auto it = by.find(x); it != by.end(); it = by.find(x)) x = it->second;
    return x;
  };
  for (Instruction* instruction : computation.instructions()) {
    for (int64_t i = 0; i < instruction->operand_count(); ++i) {
      instruction->set_operand(i, final_value(instruction->operand(i)));
    }
  }
  computation.set_root(final_value(computation.root()));
}

void MoveToFront(Computation& computation, size_t made) {
  std::vector<Instruction*> list(computation.instructions().begin(),
                                 computation.instructions().end());
  std::rotate(list.begin(), list.end() - static_cast<std::ptrdiff_t>(made), list.end());
  computation.SetInstructions(std::move(list));
}

void MoveBehind(Computation& computation, size_t before, const Instruction* place) {
  std::vector<Instruction*> list(computation.instructions().begin(),
                                 computation.instructions().end());
  const auto made = list.begin() + static_cast<std::ptrdiff_t>(before);
  std::rotate(std::find(list.begin(), made, place) + 1, made, list.end());
  computation.SetInstructions(std::move(list));
}

}  // namespace gshard::reduce
