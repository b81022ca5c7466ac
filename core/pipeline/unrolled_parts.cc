#include "core/pipeline/unrolled_parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/pipeline/part_loop.h"
#include "core/pipeline/plan/clone.h"
#include "core/transforms/cse.h"
#include "core/transforms/rewriter.h"
#include "ir/builder.h"
#include "ir/constant_fill.h"
#include "ir/dims.h"
#include "ir/equality.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

// Numbers of their own that parts may have, such as their places in the batch.
constexpr int64_t kMostOwnNumbers = 1024;

// Where rows [first, first + n) of an array are taken, and nothing else; else nothing.
std::optional<int64_t> FirstRowTaken(const Instruction* x) {
  if (x->opcode() != Opcode::kSlice || x->shape()->rank() == 0) return std::nullopt;
  const auto& slice = x->attributes<SliceAttributes>();
  const Shape *part = x->shape(), *whole = x->operand(0)->shape();
  if (std::ranges::any_of(slice.strides, [](int64_t stride) { return stride != 1; }))
    return std::nullopt;
  return std::ranges::equal(part->dims().subspan(1), whole->dims().subspan(1))
             ? std::optional(slice.starts[0])
             : std::nullopt;
}

// Are these examples, perhaps in another type or shape?
bool AreExamples(const Instruction* x, const BatchDims& batch) {
  while (x->opcode() == Opcode::kConvert || x->opcode() == Opcode::kCopy ||
         x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kTranspose) {
    x = x->operand(0);
  }
  return x->opcode() == Opcode::kParameter &&
         batch.dimension.contains(x->attributes<ParameterAttributes>().number);
}

class PartRoller {
 public:
  PartRoller(Module& module, const BatchDims& batch)
      : module_(module), batch_(batch), entry_(module.entry()), users_(module) {}

  bool Run() {
    FindSlices();
    if (parts_ < 2) return false;
    FindParts();
    if (!FindResults()) return false;
    for (const Result& result : results_) {
      if (!Match(result.terms)) return false;
    }
    Replace();
    return true;
  }

 private:
  static constexpr int64_t kNoPart = -1, kSeveral = -2;
  using Terms = std::vector<Instruction*>;  // by part
  // What becomes of the parts' values.
  struct Result {
    Instruction* x = nullptr;  // a sum, of rows perhaps, or rows of one array: a concatenation
    Terms terms;
    Instruction* first = nullptr;  // what a sum has besides; null: nothing
    bool is_stack() const { return x->opcode() == Opcode::kConcatenate; }
  };

  // Slices of one array that are together the array, by their order; of as many parts as those of
  // the first examples.
  void FindSlices() {
    std::vector<Terms> groups;
    std::map<std::pair<const Instruction*, int64_t>, size_t> numbers;  // by array, rows of a part
    for (Instruction* x : entry_->instructions()) {
      position_.emplace(x, position_.size());
      const std::optional<int64_t> first = FirstRowTaken(x);
      if (!first || x->shape()->dim(0) == 0) continue;
      const int64_t rows = x->shape()->dim(0), all = x->operand(0)->shape()->dim(0);
      if (all % rows != 0 || *first % rows != 0 || all == rows) continue;
      const auto [number, is_new] = numbers.emplace(std::pair(x->operand(0), rows), groups.size());
      if (is_new) groups.emplace_back(static_cast<size_t>(all / rows), nullptr);
      groups[number->second][static_cast<size_t>(*first / rows)] = x;
    }
    std::erase_if(groups, HasGap);
    const auto of_examples = std::ranges::find_if(
        groups, [&](const Terms& group) { return AreExamples(group[0]->operand(0), batch_); });
    if (of_examples == groups.end()) return;
    parts_ = std::ssize(*of_examples);
    for (const Terms& group : groups) {
      if (std::ssize(group) != parts_) continue;
      for (Instruction* x : group) slices_[x] = group;
    }
  }

  static bool HasGap(const Terms& terms) {
    return std::ranges::find(terms, nullptr) != terms.end();
  }

  int64_t PartOf(const Instruction* x) const {
    const auto found = part_of_.find(x);
    return found == part_of_.end() ? kNoPart : found->second;
  }

  // Which part each value follows from, and which follow from constants alone: parts have those of
  // their own, as they may be of a part's shape.
  void FindParts() {
    for (const Instruction* x : entry_->instructions()) {
      const bool is_of_constants =
          x->opcode() != Opcode::kParameter && !HasSideEffect(*x) &&
          std::ranges::all_of(x->operands(), [&](const Instruction* operand) {
            return of_constants_.contains(operand);
          });
      if (is_of_constants) of_constants_.insert(x);
      int64_t part = kNoPart;
      for (const Instruction* operand : x->operands()) {
        const int64_t of = PartOf(operand);
        if (of != kNoPart && of != part) part = part == kNoPart ? of : kSeveral;
      }
      const auto slices = slices_.find(x);
      if (slices != slices_.end() && part == kNoPart && AreExamples(x->operand(0), batch_)) {
        part = std::ranges::find(slices->second, x) - slices->second.begin();
      }
      if (part != kNoPart) part_of_[x] = part;
    }
  }

  // False: something else becomes of a part's value than a sum over all parts or a row.
  bool FindResults() {
    std::unordered_map<const Instruction*, Result> open;  // sums over some of the parts
    for (Instruction* x : entry_->instructions()) {
      if (PartOf(x) == kNoPart) continue;
      if (PartOf(x) >= 0) {
        if (x == entry_->root()) return false;
        continue;
      }
      const bool reads_part = std::ranges::any_of(x->operands(), [&](const Instruction* operand) {
        return PartOf(operand) >= 0 || open.contains(operand);
      });
      if (!reads_part) continue;  // it follows from results
      std::optional<Result> result = ResultOf(x, open);
      if (!result) return false;
      for (const Instruction* operand : x->operands()) open.erase(operand);
      if (HasGap(result->terms)) {
        open.emplace(x, *std::move(result));
      } else {
        results_.push_back(*std::move(result));
      }
    }
    return open.empty() && !results_.empty();
  }

  std::optional<Result> ResultOf(Instruction* x,
                                 const std::unordered_map<const Instruction*, Result>& open) const {
    Result result{x, Terms(static_cast<size_t>(parts_), nullptr)};
    if (x->opcode() == Opcode::kConcatenate) {
      const bool is_stack = x->attributes<DimensionsAttributes>().dimensions[0] == 0 &&
                            x->shape()->dim(0) == parts_ && x->operand_count() == parts_;
      for (int64_t i = 0; is_stack && i < parts_; ++i) {
        if (PartOf(x->operand(i)) != i) return std::nullopt;
        result.terms[static_cast<size_t>(i)] = x->operand(i);
      }
      if (!is_stack) return std::nullopt;
      if (Instruction* sum = SumOfRows(x)) result.x = sum;
      return result;
    }
    if (x->opcode() != Opcode::kAdd) return std::nullopt;
    for (Instruction* operand : x->operands()) {
      const auto some = open.find(operand);
      const bool is_some = some != open.end();
      // Of a sum over some parts nothing else may become; and none may follow from another's.
      if (is_some ? users_.of(operand).size() != 1 : PartOf(operand) == kSeveral)
        return std::nullopt;
      if (!Join(is_some ? some->second : TermOf(operand), result)) return std::nullopt;
    }
    return result;
  }

  // What adds up the rows of `stack`, if nothing else reads them; else null.
  Instruction* SumOfRows(const Instruction* stack) const {
    if (users_.of(stack).size() != 1) return nullptr;
    Instruction* x = users_.of(stack)[0];
    return AddsUpRows(*x) && x->operand(0) == stack && IsFilledWithZero(x->operand(1)) ? x
                                                                                       : nullptr;
  }

  // A sum of one term. Zeros that the first part is added to are left out.
  Result TermOf(Instruction* x) const {
    Result term{x, Terms(static_cast<size_t>(parts_), nullptr)};
    const int64_t part = PartOf(x);
    if (part == kNoPart) {
      term.first = x;
      return term;
    }
    while (x->opcode() == Opcode::kAdd && users_.of(x).size() == 1 &&
           (IsFilledWithZero(x->operand(0)) || IsFilledWithZero(x->operand(1)))) {
      x = x->operand(IsFilledWithZero(x->operand(0)) ? 1 : 0);
    }
    term.terms[static_cast<size_t>(part)] = x;
    return term;
  }

  static bool Join(const Result& more, Result& all) {
    if (more.first != nullptr && all.first != nullptr) return false;
    if (more.first != nullptr) all.first = more.first;
    for (size_t i = 0; i < all.terms.size(); ++i) {
      if (more.terms[i] == nullptr) continue;
      if (all.terms[i] != nullptr) return false;
      all.terms[i] = more.terms[i];
    }
    return true;
  }

  // Values of the parts that are the same function of what the parts share and of their slices, of
  // which the loop's body has one.
  struct Matched {
    enum class Kind : uint8_t { kOperation, kRows, kOwnNumber } kind = Kind::kOperation;
    Terms xs;
    Instruction* stack = nullptr;  // of kOwnNumber: an array with a row for each part
  };

  // Are the terms such values?
  bool Match(const Terms& terms) {
    std::vector<Terms> todo = {terms};
    while (!todo.empty()) {
      Matched next{.xs = std::move(todo.back())};
      todo.pop_back();
      const Terms& xs = next.xs;
      const bool is_shared = std::ranges::all_of(xs, [&](auto* x) { return x == xs[0]; });
      if (is_shared && PartOf(xs[0]) != kNoPart) return false;
      if ((is_shared && !of_constants_.contains(xs[0])) || made_.contains(xs)) continue;
      const auto slices = slices_.find(xs[0]);
      if (slices != slices_.end() && slices->second == xs) {
        next.kind = Matched::Kind::kRows;
      } else if (is_shared || AreAlike(xs)) {
        for (int64_t k = 0; k < xs[0]->operand_count(); ++k) todo.push_back(OperandsOf(xs, k));
      } else if (AreOwnNumbers(xs)) {
        next.kind = Matched::Kind::kOwnNumber;
      } else {
        return false;
      }
      made_.emplace(xs, nullptr);
      matched_.push_back(std::move(next));
    }
    return true;
  }

  static Terms OperandsOf(const Terms& xs, int64_t k) {
    Terms operands;
    for (const Instruction* x : xs) operands.push_back(x->operand(k));
    return operands;
  }

  bool AreAlike(const Terms& xs) const {
    if (HasSideEffect(*xs[0]) || xs[0]->opcode() == Opcode::kParameter) return false;
    for (size_t i = 0; i < xs.size(); ++i) {
      const bool is_own = PartOf(xs[0]) == kNoPart ? PartOf(xs[i]) == kNoPart
                                                   : PartOf(xs[i]) == static_cast<int64_t>(i);
      if (!is_own || xs[i]->operand_count() != xs[0]->operand_count() ||
          !Compatible(xs[i]->shape(), xs[0]->shape()) ||
          !SameButFrontendAttributes(*xs[i], *xs[0])) {
        return false;
      }
    }
    return true;
  }

  bool AreOwnNumbers(const Terms& xs) const {
    return std::ranges::all_of(xs, [&](const Instruction* x) {
      return PartOf(x) == kNoPart && x->shape()->IsArray() &&
             SameDims(x->shape(), xs[0]->shape()) &&
             x->shape()->dtype() == xs[0]->shape()->dtype() &&
             x->shape()->element_count() <= kMostOwnNumbers;
    });
  }

  // An array with a row for each part.
  static Instruction* Stacked(Builder& b, const Terms& xs) {
    std::vector<int64_t> row = {1};
    row.insert(row.end(), xs[0]->shape()->dims().begin(), xs[0]->shape()->dims().end());
    Terms rows;
    for (Instruction* x : xs) rows.push_back(b.Reshape(x, row));
    return b.Concatenate(rows, 0);
  }

  int64_t ElementOf(Instruction* value) {
    const auto [found, is_new] = element_of_.emplace(value, std::ssize(state_));
    if (is_new) state_.push_back(value);
    return found->second;
  }

  void Replace() {
    Builder b(module_, entry_);
    state_ = {b.ScalarInt(DType::kS32, 0)};
    for (const Result& result : results_) {
      state_.push_back(result.first != nullptr ? result.first : b.Zero(result.x->shape()->bare()));
    }
    // In the order of the text, as the first part has them.
    std::ranges::stable_sort(matched_, {}, [&](const Matched& x) { return position_.at(x.xs[0]); });
    for (Matched& matched : matched_) {
      Instruction* x = matched.xs[0];
      if (matched.kind == Matched::Kind::kRows) {
        ElementOf(x->operand(0));
      } else if (matched.kind == Matched::Kind::kOwnNumber) {
        ElementOf(matched.stack = Stacked(b, matched.xs));
      } else {
        for (int64_t k = 0; k < x->operand_count(); ++k) {
          if (!made_.contains(OperandsOf(matched.xs, k))) ElementOf(x->operand(k));
        }
      }
    }
    Instruction* init = b.Tuple(state_);
    Computation* called[] = {Condition(init->shape()), Body(init->shape())};
    Instruction* loop = b.Add(Opcode::kWhile, std::span<Instruction* const>(&init, 1),
                              NoAttributes{}, init->shape(), called, "parts");
    std::unordered_map<const Instruction*, Instruction*> by;
    for (size_t i = 0; i < results_.size(); ++i) {
      by[results_[i].x] = b.GetTupleElement(loop, static_cast<int64_t>(i) + 1);
    }
    for (Instruction* x : entry_->instructions()) {
      for (int64_t k = 0; k < x->operand_count(); ++k) {
        if (const auto found = by.find(x->operand(k)); found != by.end())
          x->set_operand(k, found->second);
      }
    }
    if (const auto found = by.find(entry_->root()); found != by.end())
      entry_->set_root(found->second);
    entry_->SetInstructions(PostOrder(*entry_));
    module_.SetComputations(CallPostOrder(module_));
    RemoveDeadCode(module_);
  }

  Computation* Condition(const Shape* state) {
    Builder b(module_, module_.AddComputation("parts_left"));
    Instruction* parameter = b.Parameter(0, state, "state");
    b.computation()->set_root(b.Compare(ComparisonDirection::kLt, b.GetTupleElement(parameter, 0),
                                        b.ScalarInt(DType::kS32, parts_)));
    return b.computation();
  }

  Computation* Body(const Shape* state) {
    Builder b(module_, module_.AddComputation("part"));
    Instruction* parameter = b.Parameter(0, state, "state");
    std::vector<Instruction*> elements;
    for (int64_t i = 0; i < std::ssize(state->elements()); ++i) {
      elements.push_back(b.GetTupleElement(parameter, i));
    }
    const auto element = [&](Instruction* value) {
      return elements[static_cast<size_t>(element_of_.at(value))];
    };
    // So many rows of the part's in an array.
    const auto rows_of = [&](Instruction* whole, int64_t rows) {
      Instruction* first = b.Multiply(elements[0], b.ScalarInt(DType::kS32, rows));
      return b.DynamicSliceDim(element(whole), 0, first, rows);
    };
    for (const Matched& matched : matched_) {
      Instruction* x = matched.xs[0];
      Instruction*& made = made_.at(matched.xs);
      if (matched.kind == Matched::Kind::kOwnNumber) {
        made = b.Reshape(rows_of(matched.stack, 1), x->shape()->dims());
      } else if (matched.kind == Matched::Kind::kRows) {
        made = rows_of(x->operand(0), x->shape()->dim(0));
      } else {
        std::vector<Instruction*> operands;
        for (int64_t k = 0; k < x->operand_count(); ++k) {
          const auto found = made_.find(OperandsOf(matched.xs, k));
          operands.push_back(found != made_.end() ? found->second : element(x->operand(k)));
        }
        made = CloneInto(module_, b.computation(), x, operands, /*take_name=*/false);
      }
    }
    std::vector<Instruction*> next = {b.Add(elements[0], b.ScalarInt(DType::kS32, 1))};
    for (size_t i = 0; i < results_.size(); ++i) {
      Instruction* term = made_.at(results_[i].terms);
      next.push_back(results_[i].is_stack()
                         ? b.DynamicUpdateDim(elements[i + 1], term, 0, elements[0])
                         : Plus(b, elements[i + 1], term));
    }
    next.insert(next.end(), elements.begin() + std::ssize(next), elements.end());
    b.computation()->set_root(b.Tuple(next));
    return b.computation();
  }

  static Instruction* Plus(Builder& b, Instruction* sum, Instruction* term) {
    return b.Add(sum, b.Reshape(term, sum->shape()->dims()));
  }

  Module& module_;
  const BatchDims& batch_;
  Computation* entry_;
  const Users users_;
  int64_t parts_ = 0;
  std::unordered_map<const Instruction*, Terms> slices_;  // a slice: all of its array
  std::unordered_map<const Instruction*, int64_t> part_of_;
  std::unordered_set<const Instruction*> of_constants_;
  std::vector<Result> results_;
  std::vector<Matched> matched_;
  std::map<Terms, Instruction*> made_;                       // in the loop's body, of these
  std::unordered_map<const Instruction*, size_t> position_;  // in the text
  // The loop's state: the number of the part, results, and what the parts read.
  std::vector<Instruction*> state_;
  std::unordered_map<const Instruction*, int64_t> element_of_;
};

}  // namespace

std::unique_ptr<Module> RollUnrolledParts(const Module& module, const BatchDims& batch) {
  const bool takes_examples = std::ranges::any_of(
      module.entry()->instructions(),
      [&](const Instruction* x) { return FirstRowTaken(x) && AreExamples(x->operand(0), batch); });
  if (!takes_examples) return nullptr;
  std::unique_ptr<Module> rolled = module.Clone();
  MergeCommonSubexpressions(*rolled);
  return PartRoller(*rolled, batch).Run() ? std::move(rolled) : nullptr;
}

}  // namespace gshard::pipeline
