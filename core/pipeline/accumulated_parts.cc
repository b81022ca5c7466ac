#include "core/pipeline/accumulated_parts.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/analysis/combiner.h"
#include "core/analysis/integer_value.h"
#include "core/analysis/trip_count.h"
#include "core/pipeline/part_sums.h"
#include "core/pipeline/part_values.h"
#include "core/pipeline/plan/clone.h"
#include "core/resize/example_dims.h"
#include "core/resize/resize_batch.h"
#include "core/transforms/algebraic_simplifier.h"
#include "core/transforms/forward_tuple_elements.h"
#include "core/transforms/loop_parts.h"
#include "fmt/format.h"
#include "ir/builder.h"
#include "ir/dims.h"
#include "ir/integer_operation.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

// The counted loop of an entry, and what its body does with each element of its state.
class PartLoop {
 public:
  enum class Kind : uint8_t { kOther, kCounter, kKept, kSum, kStack, kChain };

  PartLoop(const Instruction* loop, const LoopCounter& counter, const Users& users)
      : loop_(loop), counter_(counter), users_(users), body_(loop->called(1)) {
    const Instruction* root = body_->root();
    for (int64_t i = 0; i < root->operand_count(); ++i) kinds_.push_back(KindOf(i));
    FindChains();
  }

  bool IsUnderstood() const {
    return std::ranges::find(kinds_, Kind::kOther) == kinds_.end() &&
           std::ranges::find(kinds_, Kind::kSum) != kinds_.end();
  }
  // What a loop with sums hands on and is no sum; null: there are none, or all are understood.
  const Instruction* Unknown() const {
    if (std::ranges::find(kinds_, Kind::kSum) == kinds_.end()) return nullptr;
    const auto other = std::ranges::find(kinds_, Kind::kOther);
    return other == kinds_.end() ? nullptr : body_->root()->operand(other - kinds_.begin());
  }
  // What counts the turns is in turn i: start + i * step.
  std::pair<int64_t, int64_t> StartAndStep(const Instruction* counter) const {
    return starts_.at(*StateElement(counter));
  }
  Kind kind(int64_t element) const { return kinds_[static_cast<size_t>(element)]; }
  int64_t parts() const { return counter_.trips; }
  const Computation& body() const { return *body_; }
  // Does the body add something to a sum here? `total` is the operand that is the sum.
  bool AddsToSum(const Instruction* x, int64_t& total) const {
    const auto found = adds_.find(x);
    if (found != adds_.end()) total = found->second;
    return found != adds_.end();
  }
  // What elements of kind kChain follow from in the turn before, in the body's order.
  const std::vector<Instruction*>& chain() const { return chain_; }
  // What is stacked in each turn.
  const Instruction* StackedRow(int64_t element) const {
    return body_->root()->operand(element)->operand(1);
  }

  // Is `x` the part of a kept array that belongs to the turn: row i of [parts, ..], or rows
  // i * n onward of [parts * n, ..]?
  bool TakesPart(const Instruction* x) const {
    if (x->opcode() != Opcode::kDynamicSlice) return false;
    const Shape *part = x->shape(), *whole = x->operand(0)->shape();
    return KeptElementOf(x->operand(0)) >= 0 && part->dim(0) * parts() == whole->dim(0) &&
           SameRest(part, whole) && StartsByTurn(x, 1, part->dim(0));
  }
  bool IsCounter(const Instruction* x) const {
    const std::optional<int64_t> element = StateElement(x);
    return element && starts_.contains(*element);
  }
  int64_t KeptElementOf(const Instruction* x) const {
    const std::optional<int64_t> element = StateElement(x);
    return element && kind(*element) == Kind::kKept ? *element : -1;
  }
  // i if x is element i of what the body is given.
  std::optional<int64_t> StateElement(const Instruction* x) const {
    return ElementOf(x, body_->parameter(0));
  }

 private:
  Kind KindOf(int64_t i) {
    const Instruction* result = body_->root()->operand(i);
    if (FindCounter(i)) return Kind::kCounter;
    if (StateElement(result) == i) return Kind::kKept;
    std::vector<const Instruction*> reads;
    for (const Instruction* user : users_.of(body_->parameter(0))) {
      if (user->opcode() != Opcode::kGetTupleElement) return Kind::kOther;
      if (StateElement(user) == i) reads.push_back(user);
    }
    if (reads.size() != 1) return Kind::kOther;
    return IsStack(result, reads[0]) ? Kind::kStack
           : IsSum(result, reads[0]) ? Kind::kSum
                                     : Kind::kOther;
  }

  // Integers that follow from themselves, from turn to turn, such as a random key that is split in
  // each: of no sums and of nothing floating.
  void FindChains() {
    for (Kind& kind : kinds_) {
      if (kind == Kind::kOther) kind = Kind::kChain;
    }
    std::unordered_set<const Instruction*> behind;
    for (bool changes = true; changes;) {
      changes = false;
      behind.clear();
      for (int64_t i = 0; i < std::ssize(kinds_); ++i) {
        if (kind(i) != Kind::kChain || FollowsFromChains(body_->root()->operand(i), behind))
          continue;
        kinds_[static_cast<size_t>(i)] = Kind::kOther;
        changes = true;
      }
    }
    for (Instruction* x : body_->instructions()) {
      if (behind.contains(x)) chain_.push_back(x);
    }
  }

  bool FollowsFromChains(const Instruction* x,
                         std::unordered_set<const Instruction*>& behind) const {
    if (behind.contains(x)) return true;
    for (const Shape* leaf : LeafShapes(x->shape())) {
      const bool is_whole_number = leaf->IsArray() &&
                                   ClassOf(leaf->dtype()) != DTypeClass::kFloat &&
                                   ClassOf(leaf->dtype()) != DTypeClass::kComplex;
      if (!is_whole_number) return false;
    }
    if (const std::optional<int64_t> element = StateElement(x)) {
      const Kind of = kind(*element);
      if (of != Kind::kCounter && of != Kind::kKept && of != Kind::kChain) return false;
    } else {
      for (const Instruction* operand : x->operands()) {
        if (!FollowsFromChains(operand, behind)) return false;
      }
    }
    behind.insert(x);
    return true;
  }

  // What counts the turns, the loop's own counter or another.
  bool FindCounter(int64_t i) {
    const Instruction* result = body_->root()->operand(i);
    if (i == counter_.element) {
      starts_[i] = {counter_.start, counter_.step};
    } else if (result->opcode() == Opcode::kAdd && result->shape()->rank() == 0 &&
               StateElement(result->operand(0)) == i) {
      const auto start = ConstantScalar(loop_->operand(0)->operand(i));
      const auto step = ConstantScalar(result->operand(1));
      if (start && step) starts_[i] = {*start, *step};
    }
    return starts_.contains(i);
  }

  bool IsReadOnce(const Instruction* x) const {
    return users_.of(x).size() == 1 && std::ranges::count(users_.of(x)[0]->operands(), x) == 1;
  }

  // From the element to the result there are only additions, read by nobody else.
  bool IsSum(const Instruction* result, const Instruction* element) {
    std::vector<std::pair<const Instruction*, int64_t>> adds;
    const Instruction* x = element;
    while (x != result) {
      if (!IsReadOnce(x)) return false;
      const Instruction* user = users_.of(x)[0];
      const int64_t place = user->operand(0) == x ? 0 : 1;
      const bool adds_up =
          user->opcode() == Opcode::kAdd || (user->opcode() == Opcode::kSubtract && place == 0);
      if (!adds_up) return false;
      adds.emplace_back(user, place);
      x = user;
    }
    if (!IsReadOnce(result)) return false;
    adds_.insert(adds.begin(), adds.end());
    return !adds.empty();
  }

  bool IsStack(const Instruction* result, const Instruction* element) const {
    if (result->opcode() != Opcode::kDynamicUpdateSlice || result->operand(0) != element)
      return false;
    const Shape *row = result->operand(1)->shape(), *whole = result->shape();
    return IsReadOnce(element) && whole->rank() > 0 && row->dim(0) == 1 &&
           whole->dim(0) == parts() && SameRest(row, whole) && StartsByTurn(result, 2, 1);
  }

  static bool SameRest(const Shape* part, const Shape* whole) {
    return part->rank() == whole->rank() &&
           std::ranges::equal(part->dims().subspan(1), whole->dims().subspan(1));
  }

  // Along dim 0 at turn * `rows`, and at 0 of the others, from operand `first` of `x` on?
  bool StartsByTurn(const Instruction* x, int64_t first, int64_t rows) const {
    for (int64_t turn = 0; turn < parts(); ++turn) {
      for (int64_t k = first; k < x->operand_count(); ++k) {
        if (Number(x->operand(k), turn) != (k == first ? turn * rows : 0)) return false;
      }
    }
    return true;
  }

  // What an integer scalar of the body is in this turn.
  std::optional<int64_t> Number(const Instruction* x, int64_t turn) const {
    if (const std::optional<int64_t> element = StateElement(x)) {
      const auto found = starts_.find(*element);
      if (found == starts_.end()) return std::nullopt;
      return found->second.first + turn * found->second.second;
    }
    if (x->opcode() == Opcode::kConstant) return ConstantScalar(x);
    if (x->opcode() == Opcode::kSelect) {
      const std::optional<int64_t> choice = Number(x->operand(0), turn);
      if (!choice) return std::nullopt;
      return Number(x->operand(*choice != 0 ? 1 : 2), turn);
    }
    if (!x->shape()->IsArray() || x->shape()->rank() != 0 || !IsIntegerOperation(x->opcode())) {
      return std::nullopt;
    }
    std::array<int64_t, 3> operands{};
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      const std::optional<int64_t> value = Number(x->operand(i), turn);
      if (!value) return std::nullopt;
      operands[static_cast<size_t>(i)] = *value;
    }
    return EvaluateInteger(*x, operands);
  }

  const Instruction* loop_;
  LoopCounter counter_;
  const Users& users_;
  const Computation* body_;
  std::map<int64_t, std::pair<int64_t, int64_t>> starts_;  // of counters, and their steps
  std::vector<Kind> kinds_;
  std::vector<Instruction*> chain_;
  std::unordered_map<const Instruction*, int64_t> adds_;  // with the place of the sum
};

// Numbers that a part's examples alone decide and that the part's model needs, such as how many of
// its words are not masked: a mean over them is no sum over examples.
class PartStatistics {
 public:
  // `needed`: of the body, in its order. `is_of_examples`: of an element of the loop's state.
  PartStatistics(const PartLoop& parts, const std::vector<Instruction*>& needed,
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

  // Does `x` need the numbers among its operands of each part by itself? Not what adds them up, or
  // makes another of them.
  bool UsesOwn(const Instruction* x) const { return !adds_.contains(x) && !IsNumber(x); }
  const std::vector<const Instruction*>& numbers() const { return numbers_; }
  // What they follow from, in the body's order.
  const std::vector<Instruction*>& behind() const { return behind_; }

 private:
  void Classify(const PartLoop& parts, const Instruction* x,
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

  bool IsNumber(const Instruction* x) const {
    return of_examples_.contains(x) && x->shape()->IsArray() && x->shape()->rank() == 0;
  }

  std::unordered_set<const Instruction*> whole_, of_examples_, adds_;
  std::vector<const Instruction*> numbers_;
  std::vector<Instruction*> behind_;
};

class PartMerger {
 public:
  PartMerger(Module& module, const BatchDims& batch)
      : module_(module), batch_(batch), users_(module), old_(module.entry()) {}

  bool Run() {
    if (!InlineBodies()) return false;
    const ModuleHeader header = module_.header();
    module_.header() = ModuleHeader();  // it does not know the parts
    module_.header().num_partitions = header.num_partitions;
    std::vector<const Shape*> before(module_.instruction_limit());
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) before[x->id()] = x->shape();
    }
    const Expected<ExampleDims> examples = ExampleDims::Find(module_, size_.dimension);
    if (!examples || !ResizeBatch(module_, size_)) return false;
    module_.header() = header;
    if (!KeepsMeaning(before)) return false;
    PartValues values(module_, *examples, before, {size_.to / size_.from, size_.from, is_minor_});
    if (const Instruction* x = values.NumberRows(); x != nullptr) return Refuse(x);
    if (const Instruction* x = values.Find(own_); x != nullptr) return Refuse(x);
    TakeAllExamples(values);
    return true;
  }
  // Why a loop that adds up over parts of the batch is not taken; nothing: there is none.
  const std::optional<Diagnostic>& refused() const { return refused_; }

 private:
  bool Refuse(const Instruction* x) {
    if (refused_) return false;
    refused_ = module_.ErrorAt(
        x, "E-PIPELINE-003",
        fmt::format("a loop adds up over parts of the batch, and of '{}' ({}) it is not known what "
                    "it is for all parts at once",
                    x->name(), OpcodeName(x->opcode())));
    refused_->hint =
        "keys that a part has of its own are split before the loop, or folded with its number; or "
        "take a step without the loop: --microbatches says into how many parts";
    return false;
  }

  // The entry with loops inlined: their parts are parameters for the time being.
  bool InlineBodies() {
    entry_ = module_.AddComputation(old_->name());
    builder_.emplace(module_, entry_);
    for (Instruction* x : old_->instructions()) {
      if (x->opcode() == Opcode::kWhile && Inline(x)) continue;
      if (x->opcode() == Opcode::kGetTupleElement && Element(x)) continue;
      if (x->opcode() == Opcode::kReduce && SumOfStack(x)) continue;
      std::vector<Instruction*> operands;
      for (Instruction* operand : x->operands()) {
        auto found = value_.find(operand);
        if (found == value_.end()) return false;  // a loop's state read as a whole, a stack
        operands.push_back(found->second);
      }
      value_[x] = CloneInto(module_, entry_, x, operands, /*take_name=*/true);
    }
    if (rows_.empty() || !value_.contains(old_->root())) return false;
    entry_->set_root(value_.at(old_->root()));
    module_.set_entry(entry_);
    module_.SetComputations(CallPostOrder(module_));
    return true;
  }

  // What stands for one part's row [1, n, ..] or rows [n, ..] of which array.
  struct Rows {
    Instruction* whole;
    bool are_examples;  // else something else that the part has of its own
  };
  struct Results {
    std::vector<Instruction*> elements;  // null: what nobody may read
    std::vector<Instruction*> stacked;   // by element: the sum of the rows; null: no stack
  };

  // Does a value follow from examples alone?
  bool IsOfExamples(const Instruction* value) const {
    bool any = false;
    std::vector<const Instruction*> open = {value};
    std::unordered_set<const Instruction*> seen;
    while (!open.empty()) {
      const Instruction* x = open.back();
      open.pop_back();
      if (!seen.insert(x).second) continue;
      if (x->opcode() == Opcode::kParameter) {
        if (!batch_.dimension.contains(x->attributes<ParameterAttributes>().number)) return false;
        any = true;
      }
      open.insert(open.end(), x->operands().begin(), x->operands().end());
    }
    return any;
  }

  // Do the numbers of parts count within those of a part's examples, in the order of the batch?
  bool IsMinor(const Instruction* whole) const {
    while (whole->opcode() == Opcode::kConvert || whole->opcode() == Opcode::kCopy) {
      whole = whole->operand(0);
    }
    if (whole->opcode() == Opcode::kTranspose) {
      return whole->attributes<DimensionsAttributes>().dimensions[0] == 1;
    }
    return whole->opcode() == Opcode::kParameter &&
           batch_.dimension.at(whole->attributes<ParameterAttributes>().number) == 1;
  }

  bool Inline(Instruction* loop) {
    const std::optional<LoopCounter> counter = CounterOf(*loop);
    const Instruction* init = loop->operand(0);
    if (!counter || counter->trips < 2 || init->opcode() != Opcode::kTuple) return false;
    if (loop->called(1)->root()->opcode() != Opcode::kTuple) return false;
    const PartLoop parts(loop, *counter, users_);
    if (!parts.IsUnderstood()) return NoteUnknown(parts, *init);
    const std::vector<Instruction*> needed = Needed(parts);
    int64_t examples = 0;
    bool is_minor = true;
    for (const Instruction* x : needed) {
      if (!parts.TakesPart(x)) continue;
      const Instruction* whole = init->operand(parts.KeptElementOf(x->operand(0)));
      if (!IsOfExamples(whole)) continue;
      const Shape* shape = x->shape();
      const int64_t dim = DimOfExamples(shape);
      if (dim >= shape->rank() || (examples != 0 && shape->dim(dim) != examples)) return false;
      examples = shape->dim(dim);
      is_minor = is_minor && shape->dim(0) == 1 && IsMinor(whole);
    }
    const int64_t all = examples * parts.parts();
    if (examples == 0 || (size_.from != 0 && (size_.from != examples || size_.to != all))) {
      return false;
    }
    if (size_.from != 0 && is_minor != is_minor_) return false;
    size_.from = examples, size_.to = all, is_minor_ = is_minor;
    CopyBody(loop, parts, needed);
    return true;
  }

  // Of a loop over parts of examples that adds something up: what else it hands on.
  bool NoteUnknown(const PartLoop& parts, const Instruction& init) {
    const auto of_examples = [&](const Instruction* x) {
      return parts.TakesPart(x) && IsOfExamples(init.operand(parts.KeptElementOf(x->operand(0))));
    };
    const bool is_over_parts = std::ranges::any_of(parts.body().instructions(), of_examples);
    if (const Instruction* x = parts.Unknown(); is_over_parts && x != nullptr) Refuse(x);
    return false;
  }

  static int64_t DimOfExamples(const Shape* part) { return part->dim(0) == 1 ? 1 : 0; }

  // What of the body its sums and stacked rows need, in its order; nothing behind a part's slice.
  static std::vector<Instruction*> Needed(const PartLoop& parts) {
    const Computation& body = parts.body();
    std::unordered_set<const Instruction*> needed;
    for (int64_t i = 0; i < body.root()->operand_count(); ++i) {
      if (parts.kind(i) == PartLoop::Kind::kSum) needed.insert(body.root()->operand(i));
      if (parts.kind(i) == PartLoop::Kind::kStack) needed.insert(parts.StackedRow(i));
    }
    const auto list = body.instructions();
    for (size_t k = list.size(); k-- > 0;) {
      if (!needed.contains(list[k]) || parts.TakesPart(list[k])) continue;
      if (parts.StateElement(list[k])) continue;
      needed.insert(list[k]->operands().begin(), list[k]->operands().end());
    }
    std::vector<Instruction*> ordered;
    for (Instruction* x : list) {
      if (needed.contains(x)) ordered.push_back(x);
    }
    return ordered;
  }

  void CopyBody(Instruction* loop, const PartLoop& parts, const std::vector<Instruction*>& needed) {
    const Instruction* init = loop->operand(0);
    const Computation& body = parts.body();
    std::unordered_map<const Instruction*, Instruction*> inner;
    const std::map<int64_t, Chain> chains = ChainsOf(loop, parts);
    const PartStatistics statistics(
        parts, needed, [&](int64_t element) { return IsOfExamples(init->operand(element)); });
    const std::unordered_map<const Instruction*, Instruction*> numbers =
        NumbersOf(loop, parts, statistics);
    for (Instruction* x : needed) {
      if (parts.IsCounter(x)) {
        inner[x] = NumberOf(parts, x);
        continue;
      }
      if (const std::optional<int64_t> element = parts.StateElement(x)) {
        const auto chain = chains.find(*element);
        inner[x] = chain == chains.end() ? value_.at(init->operand(*element))
                                         : StandIn(x, {chain->second.of_parts, false});
        continue;
      }
      if (parts.TakesPart(x)) {
        inner[x] = PartOf(init->operand(parts.KeptElementOf(x->operand(0))), x);
        continue;
      }
      std::vector<Instruction*> operands;
      int64_t total = 0;
      const bool adds = parts.AddsToSum(x, total);
      for (Instruction* operand : x->operands()) {
        const bool has_own = statistics.UsesOwn(x) && numbers.contains(operand);
        operands.push_back(has_own ? numbers.at(operand) : inner.at(operand));
      }
      if (adds) {
        Instruction*& term = operands[static_cast<size_t>(1 - total)];
        term = Marked(term);
      }
      const bool scales = IsScaledSum(x) && operands[1] != inner.at(x->operand(1));
      inner[x] = scales ? SumOfScaled(x, inner.at(x->operand(0)->operand(0)), operands[1])
                        : CloneInto(module_, entry_, x, operands, /*take_name=*/true);
    }
    Results& results = results_[loop];
    for (int64_t i = 0; i < body.root()->operand_count(); ++i) {
      const PartLoop::Kind kind = parts.kind(i);
      Instruction* element = nullptr;
      if (kind == PartLoop::Kind::kKept) element = value_.at(init->operand(i));
      if (kind == PartLoop::Kind::kSum) element = inner.at(body.root()->operand(i));
      if (kind == PartLoop::Kind::kChain) element = chains.at(i).last;
      results.elements.push_back(element);
      results.stacked.push_back(
          kind == PartLoop::Kind::kStack ? Marked(inner.at(parts.StackedRow(i))) : nullptr);
    }
  }

  // A sum times, or divided by, a number that each part has of its own.
  static bool IsScaledSum(const Instruction* x) {
    if (x->opcode() != Opcode::kDivide && x->opcode() != Opcode::kMultiply) return false;
    const Instruction* sum = x->operand(0);
    return sum->opcode() == Opcode::kReduce && sum->operand_count() == 2 &&
           sum->shape()->rank() == 0 && CombinerOf(sum->called(0)) == Opcode::kAdd &&
           IsFilledWith(sum->operand(1), 0.0);
  }

  // The sum of the scaled terms in its place: each term has the number of its part.
  Instruction* SumOfScaled(const Instruction* x, Instruction* terms, Instruction* number) {
    builder_->set_origin(x);
    Instruction* scaled = builder_->Binary(
        x->opcode(), terms, builder_->BroadcastScalar(number, terms->shape()->dims()));
    Instruction* sum = x->operand(0);
    Instruction* const operands[] = {scaled, builder_->Scalar(x->shape()->dtype(), 0.0)};
    Instruction* result = CloneInto(module_, entry_, sum, operands, /*take_name=*/false);
    builder_->set_origin(nullptr);
    return result;
  }

  // By statistic of a part's examples: what stands for it, the values of all parts in one array.
  // They are computed part by part, before the loop.
  std::unordered_map<const Instruction*, Instruction*> NumbersOf(const Instruction* loop,
                                                                 const PartLoop& parts,
                                                                 const PartStatistics& statistics) {
    const Instruction* init = loop->operand(0);
    std::unordered_map<const Instruction*, std::vector<Instruction*>> of_parts;
    for (int64_t part = 0; part < parts.parts() && !statistics.numbers().empty(); ++part) {
      std::unordered_map<const Instruction*, Instruction*> inner;
      for (Instruction* x : statistics.behind()) {
        if (parts.IsCounter(x)) {
          const auto [start, step] = parts.StartAndStep(x);
          inner[x] = builder_->ScalarInt(x->shape()->dtype(), start + part * step);
        } else if (const std::optional<int64_t> element = parts.StateElement(x)) {
          inner[x] = value_.at(init->operand(*element));
        } else {
          std::vector<Instruction*> operands;
          for (const Instruction* operand : x->operands()) operands.push_back(inner.at(operand));
          inner[x] = CloneInto(module_, entry_, x, operands, /*take_name=*/false);
        }
      }
      for (const Instruction* x : statistics.numbers()) {
        const int64_t one[] = {1};
        of_parts[x].push_back(builder_->Reshape(inner.at(x), one));
      }
    }
    std::unordered_map<const Instruction*, Instruction*> numbers;
    for (const Instruction* x : statistics.numbers()) {
      numbers[x] = StandIn(x, {builder_->Concatenate(of_parts.at(x), 0), false});
    }
    return numbers;
  }

  // An element of kind kChain: what it is in each part, in one array, and after the last.
  struct Chain {
    Instruction *of_parts, *last;
  };
  std::map<int64_t, Chain> ChainsOf(const Instruction* loop, const PartLoop& parts) {
    const Instruction* init = loop->operand(0);
    std::map<int64_t, Chain> chains;
    for (int64_t i = 0; i < init->operand_count(); ++i) {
      if (parts.kind(i) != PartLoop::Kind::kChain) continue;
      Instruction* first = value_.at(init->operand(i));
      const std::vector<int64_t> dims = Prepended(parts.parts(), first->shape()->dims());
      const Shape* shape = module_.context().Array(first->shape()->dtype(), dims);
      chains[i] = {builder_->Zero(shape), first};
    }
    for (int64_t part = 0; part < parts.parts() && !chains.empty(); ++part) {
      for (auto& [i, chain] : chains) {
        Instruction* row = builder_->Reshape(chain.last, Prepended(1, chain.last->shape()->dims()));
        std::vector<Instruction*> starts(static_cast<size_t>(row->shape()->rank()),
                                         builder_->ScalarInt(DType::kS32, 0));
        starts[0] = builder_->ScalarInt(DType::kS32, part);
        chain.of_parts = builder_->DynamicUpdateSlice(chain.of_parts, row, starts);
      }
      std::unordered_map<const Instruction*, Instruction*> inner;
      for (Instruction* x : parts.chain()) {
        if (parts.IsCounter(x)) {
          const auto [start, step] = parts.StartAndStep(x);
          inner[x] = builder_->ScalarInt(x->shape()->dtype(), start + part * step);
        } else if (const std::optional<int64_t> element = parts.StateElement(x)) {
          const auto chain = chains.find(*element);
          inner[x] =
              chain == chains.end() ? value_.at(init->operand(*element)) : chain->second.last;
        } else {
          std::vector<Instruction*> operands;
          for (const Instruction* operand : x->operands()) operands.push_back(inner.at(operand));
          inner[x] = CloneInto(module_, entry_, x, operands, /*take_name=*/false);
        }
      }
      for (auto& [i, chain] : chains) chain.last = inner.at(parts.body().root()->operand(i));
    }
    return chains;
  }

  Instruction* Marked(Instruction* x) {
    CustomCallAttributes attributes;
    attributes.target = module_.arena().Copy(
        std::string_view(fmt::format("{}{}:", kPartMark, size_.to / size_.from)));
    return builder_->Add(Opcode::kCustomCall, {&x, 1}, attributes, x->shape(), {}, "part_sum");
  }

  Instruction* PartOf(Instruction* whole, const Instruction* slice) {
    const bool are_examples = IsOfExamples(whole);
    Instruction* part = StandIn(slice, {value_.at(whole), are_examples});
    const int64_t number = part->attributes<ParameterAttributes>().number;
    if (are_examples) size_.dimension[number] = DimOfExamples(slice->shape());
    return part;
  }

  // The number of the part, of all parts in an array.
  Instruction* NumberOf(const PartLoop& parts, const Instruction* counter) {
    const auto [start, step] = parts.StartAndStep(counter);
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < parts.parts(); ++i) numbers.push_back(start + i * step);
    return StandIn(counter, {builder_->IntegerTable(counter->shape()->dtype(), numbers), false});
  }

  Instruction* StandIn(const Instruction* x, const Rows& rows) {
    const int64_t number = old_->parameter_count() + std::ssize(rows_);
    builder_->set_origin(x);
    Instruction* part = builder_->Parameter(number, x->shape(), "part");
    builder_->set_origin(nullptr);
    rows_[part] = rows;
    if (!rows.are_examples) own_.insert(part);
    return part;
  }

  bool Element(Instruction* x) {
    const auto found = results_.find(x->operand(0));
    if (found == results_.end()) return false;
    const auto index = static_cast<size_t>(x->attributes<GetTupleElementAttributes>().index);
    if (found->second.stacked[index] != nullptr) stacks_[x] = found->second.stacked[index];
    if (found->second.elements[index] != nullptr) value_[x] = found->second.elements[index];
    return true;
  }

  // The rows of all parts, added up: what the merged body makes.
  bool SumOfStack(Instruction* x) {
    const auto found = stacks_.find(x->operand(0));
    if (found == stacks_.end() || x->operand_count() != 2) return false;
    const Dims dims = x->attributes<DimensionsAttributes>().dimensions;
    if (dims.size() != 1 || dims[0] != 0 || CombinerOf(x->called(0)) != Opcode::kAdd) return false;
    Instruction* row = builder_->Reshape(found->second, x->shape()->dims());
    value_[x] = builder_->Add(value_.at(x->operand(1)), row);
    return true;
  }

  // Only the body has grown, and it has no generators of random numbers, whose state is one part's.
  bool KeepsMeaning(const std::vector<const Shape*>& before) {
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) {
        if (x->shape() == before[x->id()]) continue;
        const bool is_random =
            x->opcode() == Opcode::kRng || x->opcode() == Opcode::kRngBitGenerator;
        if (is_random) return Refuse(x);
        const bool is_given = x->opcode() == Opcode::kParameter && computation == entry_ &&
                              !rows_.contains(const_cast<Instruction*>(x));
        if (is_given || x == entry_->root()) return false;
      }
    }
    return true;
  }

  // What the parts stand for, in their place.
  void TakeAllExamples(PartValues& values) {
    Computation* made = module_.AddComputation(entry_->name());
    Builder builder(module_, made);
    std::unordered_map<const Instruction*, Instruction*> value;
    std::vector<std::pair<const Instruction*, Rows>> waiting(rows_.begin(), rows_.end());
    const auto take = [&](const Instruction* whole) {
      for (const auto& [part, rows] : waiting) {
        if (rows.whole != whole) continue;
        Instruction* all = value.at(whole);
        std::vector<int64_t> dims(part->shape()->dims().begin(), part->shape()->dims().end());
        if (!rows.are_examples) {
          dims.insert(dims.begin(), size_.to / size_.from);
        } else if (is_minor_) {
          std::vector<int64_t> order(static_cast<size_t>(all->shape()->rank()));
          std::iota(order.begin(), order.end(), 0);
          std::swap(order[0], order[1]);
          all = builder.Transpose(all, order);
        }
        Instruction* const given[] = {builder.Reshape(all, dims)};
        CustomCallAttributes mark;
        mark.target = kGivenMark;
        value[part] = builder.Add(Opcode::kCustomCall, given, mark, given[0]->shape());
      }
    };
    for (Instruction* x : entry_->instructions()) {
      if (rows_.contains(x)) continue;
      std::vector<Instruction*> operands;
      for (Instruction* operand : x->operands()) operands.push_back(value.at(operand));
      value[x] = values.Copy(x, operands, builder);
      take(x);
    }
    made->set_root(value.at(entry_->root()));
    module_.set_entry(made);
    module_.SetComputations(CallPostOrder(module_));
    RemoveDeadCode(module_);
  }

  Module& module_;
  const BatchDims& batch_;
  Users users_;
  Computation* old_;
  Computation* entry_ = nullptr;
  std::optional<Builder> builder_;
  std::unordered_map<const Instruction*, Instruction*> value_;
  std::unordered_map<const Instruction*, Results> results_;      // of merged loops
  std::unordered_map<const Instruction*, Instruction*> stacks_;  // what they stack: its row
  std::unordered_map<Instruction*, Rows> rows_;                  // by the part
  std::unordered_set<const Instruction*> own_;  // of these, those that are no examples
  BatchSize size_;
  bool is_minor_ = false;  // see PartRows
  std::optional<Diagnostic> refused_;
};

}  // namespace

std::unique_ptr<Module> MergeAccumulatedParts(const Module& module, const BatchDims& batch,
                                              std::optional<Diagnostic>& refused) {
  const auto is_counted = [](const Instruction* x) {
    return x->opcode() == Opcode::kWhile && CounterOf(*x);
  };
  if (std::ranges::none_of(module.entry()->instructions(), is_counted)) return nullptr;
  std::unique_ptr<Module> merged = module.Clone();
  ForwardTupleElements(*merged);
  RemoveDeadCode(*merged);
  PartMerger merger(*merged, batch);
  if (merger.Run()) return merged;
  refused = merger.refused();
  return nullptr;
}

}  // namespace gshard::pipeline
