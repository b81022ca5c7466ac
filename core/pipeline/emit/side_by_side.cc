#include "core/pipeline/emit/side_by_side.h"

#include <algorithm>

namespace gshard::pipeline {
namespace {

class Walk {
 public:
  Walk(const StageGraph& stages, Pass pass, int64_t a, int64_t b)
      : stages_(stages), pass_(pass), a_(a), b_(b) {}

  SideBySide Run() {
    // What is handed on goes first: which of the sums belong together hangs on what is told here.
    const auto &of_a = HandedOn(a_), &of_b = HandedOn(b_);
    for (size_t i = std::min(of_a.size(), of_b.size()); i-- > 0;) {
      open_.emplace_back(of_a[i], of_b[i]);
    }
    CompareOpen();
    std::vector<Instruction*> sums = SumsOf(b_);
    for (Instruction* x : SumsOf(a_)) {
      const auto y = std::ranges::max_element(
          sums, {}, [&](Instruction* each) { return LikenessOf(x, each, kMaxDepth); });
      if (y == sums.end()) break;
      open_.emplace_back(x, *y);
      CompareOpen();
      sums.erase(y);
    }
    return std::move(found_);
  }

 private:
  static constexpr int kMaxDepth = 3;

  const std::vector<Instruction*>& HandedOn(int64_t stage) const {
    return pass_ == Pass::kForward ? stages_.forward_bundle(stage)
                                   : stages_.backward_bundle(stage - 1);
  }
  std::vector<Instruction*> SumsOf(int64_t stage) const {
    std::vector<Instruction*> sums;
    for (const StageTerm& term : stages_.pass(pass_, stage).terms) {
      sums.insert(sums.end(), term.values.begin(), term.values.end());
    }
    return sums;
  }

  // The more of what they are made of is known to be in the same place, the larger.
  int LikenessOf(const Instruction* x, const Instruction* y, int depth) const {
    if (const auto known = pair_of_.find(x); known != pair_of_.end()) {
      return known->second == y ? 2 : -2;
    }
    if (!IsAlike(x, y)) return -1;
    int likeness = 0;
    for (int64_t i = 0; depth > 0 && i < x->operand_count(); ++i) {
      likeness += LikenessOf(x->operand(i), y->operand(i), depth - 1);
    }
    return likeness;
  }

  void CompareOpen() {
    while (!open_.empty()) {
      const auto [x, y] = open_.back();
      open_.pop_back();
      Compare(x, y);
    }
  }

  bool IsComputed(int64_t stage, const Instruction* x) const {
    return stages_.StageOf(x) == stage && !stages_.IsInput(pass_, stage, x);
  }
  bool IsHanded(int64_t stage, const Instruction* x) const {
    return stages_.StageOf(x) >= 0 && stages_.StageOf(x) != stage &&
           stages_.IsInput(pass_, stage, x);
  }

  void Compare(Instruction* x, Instruction* y) {
    if (!pair_of_.try_emplace(x, y).second) return;
    if (IsHanded(a_, x) && IsHanded(b_, y)) found_.handed.emplace_back(x, y);
    if (!IsComputed(a_, x) || (stages_.StageOf(y) >= 0 && !IsComputed(b_, y))) return;
    if (IsAlike(x, y)) return CompareOperands(x, y);
    for (int64_t i = 0; x->opcode() == Opcode::kAdd && i < 2; ++i) {
      if (!IsHanded(a_, x->operand(i)) || !IsAlike(x->operand(1 - i), y)) continue;
      found_.lone_summands[y] = i;
      return Compare(x->operand(1 - i), y);
    }
  }

  void CompareOperands(Instruction* x, Instruction* y) {
    const bool are_swapped = AreSwapped(x, y);
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      const int64_t at = are_swapped ? 1 - i : i;
      Instruction *of_x = x->operand(i), *of_y = y->operand(at);
      if (IsHanded(a_, of_x) && !IsHanded(b_, of_y)) {
        found_.not_handed[of_y].push_back({y, at, i});
      } else {
        open_.emplace_back(of_x, of_y);
      }
    }
  }

  // Constants are put behind what they are added to.
  bool AreSwapped(const Instruction* x, const Instruction* y) const {
    if (x->opcode() != Opcode::kAdd && x->opcode() != Opcode::kMultiply) return false;
    for (int64_t i = 0; i < 2; ++i) {
      if (!IsHanded(a_, x->operand(i)) || IsHanded(a_, x->operand(1 - i))) continue;
      return IsAlike(x->operand(1 - i), y->operand(i)) &&
             !IsAlike(x->operand(1 - i), y->operand(1 - i));
    }
    return false;
  }

  static bool IsAlike(const Instruction* x, const Instruction* y) {
    return x->opcode() == y->opcode() && x->shape()->bare() == y->shape()->bare() &&
           std::ranges::equal(
               x->operands(), y->operands(), {},
               [](const Instruction* of_x) { return of_x->shape()->bare(); },
               [](const Instruction* of_y) { return of_y->shape()->bare(); });
  }

  const StageGraph& stages_;
  Pass pass_;
  int64_t a_, b_;
  std::vector<std::pair<Instruction*, Instruction*>> open_;
  std::unordered_map<const Instruction*, const Instruction*> pair_of_;
  SideBySide found_;
};

}  // namespace

SideBySide CompareStages(const StageGraph& stages, Pass pass, int64_t a, int64_t b) {
  return Walk(stages, pass, a, b).Run();
}

}  // namespace gshard::pipeline
