#include "core/pipeline/emit/stage_difference.h"

#include <unordered_map>

#include "fmt/format.h"
#include "ir/equality.h"

namespace gshard::pipeline {
namespace {

// Null: what the pass computes ends there. Both are instructions of the user's text: lookups of
// weights and rows stand in between.
struct StageDifference {
  const Instruction* a = nullptr;
  const Instruction* b = nullptr;
  bool is_handed_on = false;  // both compute the same, and hand on other values of it
};

const Instruction* OfTextFrom(const Computation& pass, size_t i) {
  while (i < pass.instructions().size() && pass.instructions()[i]->source().empty()) ++i;
  return i < pass.instructions().size() ? pass.instructions()[i] : nullptr;
}

// What x moves or looks up.
const Instruction* OfTextBehind(const Instruction* x) {
  while (x->source().empty() && x->operand_count() > 0) x = x->operand(0);
  return x->source().empty() ? nullptr : x;
}

bool SameWithout(const Instruction& x, const Instruction& y) {
  return x.opcode() == y.opcode() && x.shape() == y.shape() && x.sharding() == y.sharding() &&
         SameOperation(x, y);
}

StageDifference FirstDifference(const Computation& a, const Computation& b) {
  std::unordered_map<const Instruction*, const Instruction*> in_b;
  const size_t both = std::min(a.instructions().size(), b.instructions().size());
  size_t i = 0;
  for (; i < both; ++i) {
    const Instruction& x = *a.instructions()[i];
    const Instruction& y = *b.instructions()[i];
    if (!SameWithout(x, y) ||
        !std::equal(
            x.operands().begin(), x.operands().end(), y.operands().begin(), y.operands().end(),
            [&](const Instruction* of_a, const Instruction* of_b) { return in_b[of_a] == of_b; })) {
      break;
    }
    in_b[&x] = &y;
  }
  const StageDifference found = {OfTextFrom(a, i), OfTextFrom(b, i)};
  if (found.a != nullptr || found.b != nullptr) return found;
  // Sums and selects of the schedule's own, over what the passes compute.
  const Instruction *of_a = i < both ? a.instructions()[i] : a.root(),
                    *of_b = i < both ? b.instructions()[i] : b.root();
  for (int64_t k = 0; k < std::min(of_a->operand_count(), of_b->operand_count()); ++k) {
    if (in_b[of_a->operand(k)] == of_b->operand(k)) continue;
    const Instruction *x = OfTextBehind(of_a->operand(k)), *y = OfTextBehind(of_b->operand(k));
    if (x != nullptr && y != nullptr) return {x, y, /*is_handed_on=*/true};
  }
  return {};
}

std::string Described(const Instruction& x) {
  return fmt::format("{} {}", OpcodeName(x.opcode()), ToString(x.shape(), false));
}

}  // namespace

Diagnostic UnlikeStages(const Module& module, const std::string& stages, const Computation& a,
                        const Computation& b) {
  const auto [x, y, is_handed_on] = FirstDifference(a, b);
  const std::string begin = stages + " do not compute the same: ";
  Diagnostic error;
  if (x == nullptr && y == nullptr) {
    error = MakeError("E-PIPELINE-006", begin + "they hand on other values");
  } else if (x == nullptr || y == nullptr) {
    const Instruction* more = x == nullptr ? y : x;
    error = module.ErrorAt(
        more, "E-PIPELINE-006",
        begin + fmt::format("only {} has this {}", x == nullptr ? "the latter" : "the former",
                            Described(*more)));
  } else {
    const bool constant = x->opcode() == Opcode::kConstant && y->opcode() == Opcode::kConstant;
    std::string what = Described(*y) + " where the former has " + Described(*x);
    if (is_handed_on) {
      what = fmt::format("the latter hands on this {}, the former another value", Described(*y));
    } else if (constant) {
      what = "the latter has another constant";
    } else if (SameWithout(*x, *y)) {
      what = fmt::format("this {} has other operands", Described(*y));
    } else if (Described(*x) == Described(*y)) {
      what = fmt::format("this {} has other attributes", Described(*y));
    }
    error = module.ErrorAt(y, "E-PIPELINE-006", begin + what);
    Diagnostic note = module.ErrorAt(x, "", "what the former has there");
    note.severity = Severity::kNote;
    error.notes.push_back(std::move(note));
  }
  error.hint =
      "its stages are equal stretches of layers: --cut REGEX names other layers; other schedules "
      "take "
      "stages of any kind: --schedule 1f1b";
  return error;
}

}  // namespace gshard::pipeline
