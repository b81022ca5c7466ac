#include "core/pipeline/emit/stage_difference.h"

#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
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

// Operations of the user's text that one pass has more of than the other.
struct Surplus {
  std::map<std::string, int64_t> count;  // by description
  const Instruction* first = nullptr;    // in the pass, of a description that the other lacks most

  std::string Text() const {
    constexpr size_t kMaxNamed = 3;
    std::vector<std::string> names;
    for (const auto& [description, number] : count) {
      if (names.size() == kMaxNamed) break;
      names.push_back(number == 1 ? description : fmt::format("{} {}", number, description));
    }
    const size_t more = count.size() - names.size();
    return fmt::format("{}{}", fmt::join(names, ", "),
                       more > 0 ? fmt::format(" and {} more kinds", more) : "");
  }
};

bool IsOfText(const Instruction* x) {
  // Constants and their copies come where they are used, however often.
  return !x->source().empty() && x->operand_count() > 0 && x->opcode() != Opcode::kBroadcast;
}

Surplus SurplusOf(const Computation& a, const Computation& b) {
  Surplus surplus;
  for (const Instruction* x : b.instructions()) {
    if (IsOfText(x)) ++surplus.count[Described(*x)];
  }
  for (const Instruction* x : a.instructions()) {
    if (IsOfText(x)) --surplus.count[Described(*x)];
  }
  std::erase_if(surplus.count, [](const auto& entry) { return entry.second <= 0; });
  std::unordered_set<std::string> of_a;
  for (const Instruction* x : a.instructions()) of_a.insert(Described(*x));
  for (const Instruction* x : b.instructions()) {
    if (!IsOfText(x) || !surplus.count.contains(Described(*x))) continue;
    const bool is_new = !of_a.contains(Described(*x));
    if (surplus.first == nullptr || is_new) surplus.first = x;
    if (is_new) break;
  }
  return surplus;
}

// The stages compute unlike numbers of some operations; nothing: the same ones, otherwise.
std::optional<Diagnostic> OtherOperations(const Module& module, const std::string& begin,
                                          const Computation& a, const Computation& b) {
  const Surplus of_a = SurplusOf(b, a), of_b = SurplusOf(a, b);
  if (of_a.first == nullptr && of_b.first == nullptr) return std::nullopt;
  std::string what;
  if (of_b.first != nullptr) what = fmt::format("only the latter has {}", of_b.Text());
  if (of_a.first != nullptr) {
    what += fmt::format("{}only the former has {}", what.empty() ? "" : "; ", of_a.Text());
  }
  Diagnostic error = module.ErrorAt(of_b.first != nullptr ? of_b.first : of_a.first,
                                    "E-PIPELINE-006", begin + what);
  if (of_a.first != nullptr && of_b.first != nullptr) {
    Diagnostic note = module.ErrorAt(of_a.first, "", "what only the former has");
    note.severity = Severity::kNote;
    error.notes.push_back(std::move(note));
  }
  return error;
}

// The same operations, of other values or with other attributes: the first of them.
Diagnostic OtherDetails(const Module& module, const std::string& begin, const Computation& a,
                        const Computation& b) {
  const auto [x, y, is_handed_on] = FirstDifference(a, b);
  if (x == nullptr && y == nullptr) {
    return MakeError("E-PIPELINE-006", begin + "they hand on other values");
  }
  if (x == nullptr || y == nullptr) {
    const Instruction* more = x == nullptr ? y : x;
    return module.ErrorAt(
        more, "E-PIPELINE-006",
        begin + fmt::format("only {} has this {}", x == nullptr ? "the latter" : "the former",
                            Described(*more)));
  }
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
  Diagnostic error = module.ErrorAt(y, "E-PIPELINE-006", begin + what);
  Diagnostic note = module.ErrorAt(x, "", "what the former has there");
  note.severity = Severity::kNote;
  error.notes.push_back(std::move(note));
  return error;
}

}  // namespace

Diagnostic UnlikeStages(const Module& module, const std::string& stages, const Computation& a,
                        const Computation& b) {
  const std::string begin = stages + " do not compute the same: ";
  std::optional<Diagnostic> operations = OtherOperations(module, begin, a, b);
  Diagnostic error = operations ? *std::move(operations) : OtherDetails(module, begin, a, b);
  error.hint =
      "stages are equal stretches of layers, which a loss on some of the layers, or layers of "
      "several "
      "kinds, make unlike: --cut REGEX names layers that are equal, such as blocks of several; "
      "other "
      "schedules take stages of any kind: --schedule 1f1b";
  return error;
}

}  // namespace gshard::pipeline
