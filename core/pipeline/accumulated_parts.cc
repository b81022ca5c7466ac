#include "core/pipeline/accumulated_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/analysis/combiner.h"
#include "core/analysis/integer_value.h"
#include "core/analysis/trip_count.h"
#include "core/pipeline/plan/clone.h"
#include "core/pipeline/plan/phases.h"
#include "core/resize/resize_batch.h"
#include "core/transforms/algebraic_simplifier.h"
#include "core/transforms/forward_tuple_elements.h"
#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"
#include "fmt/format.h"
#include "ir/builder.h"
#include "ir/custom_call.h"
#include "ir/dimwise_call.h"
#include "ir/integer_operation.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

// Followed by how many parts there are, and a colon.
constexpr std::string_view kPartMark = "gshard.dimwise:part";

// The counted loop of an entry, and what its body does with each element of its state.
class PartLoop {
 public:
  enum class Kind : uint8_t { kOther, kCounter, kKept, kSum, kStack };

  PartLoop(const Instruction* loop, const LoopCounter& counter, const Users& users)
      : loop_(loop), counter_(counter), users_(users), body_(loop->called(1)) {
    const Instruction* root = body_->root();
    for (int64_t i = 0; i < root->operand_count(); ++i) kinds_.push_back(KindOf(i));
  }

  bool IsUnderstood() const {
    return std::ranges::find(kinds_, Kind::kOther) == kinds_.end() &&
           std::ranges::find(kinds_, Kind::kSum) != kinds_.end();
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
  std::unordered_map<const Instruction*, int64_t> adds_;  // with the place of the sum
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
    if (!ResizeBatch(module_, size_)) return false;
    module_.header() = header;
    if (!KeepsMeaning(before)) return false;
    TakeAllExamples();
    return true;
  }

 private:
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

  // A copy of row [1, n, ..] or rows [n, ..] of one part; of which array, in which order.
  struct Rows {
    Instruction* whole;
    bool is_minor;  // the part's number counts within that of its examples
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
    if (!parts.IsUnderstood()) return false;
    const std::vector<Instruction*> needed = Needed(parts);
    int64_t examples = 0;
    for (const Instruction* x : needed) {
      if (parts.IsCounter(x)) return false;
      if (!parts.TakesPart(x)) continue;
      const Shape* shape = x->shape();
      const int64_t dim = DimOfExamples(shape);
      const bool is_part = dim < shape->rank() && (examples == 0 || shape->dim(dim) == examples) &&
                           IsOfExamples(init->operand(parts.KeptElementOf(x->operand(0))));
      if (!is_part) return false;
      examples = shape->dim(dim);
    }
    const int64_t all = examples * parts.parts();
    if (examples == 0 || (size_.from != 0 && (size_.from != examples || size_.to != all))) {
      return false;
    }
    size_.from = examples, size_.to = all;
    CopyBody(loop, parts, needed);
    return true;
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
    for (Instruction* x : needed) {
      if (const std::optional<int64_t> element = parts.StateElement(x)) {
        inner[x] = value_.at(init->operand(*element));
        continue;
      }
      if (parts.TakesPart(x)) {
        inner[x] = PartOf(init->operand(parts.KeptElementOf(x->operand(0))), x);
        continue;
      }
      std::vector<Instruction*> operands;
      for (Instruction* operand : x->operands()) operands.push_back(inner.at(operand));
      int64_t total = 0;
      if (parts.AddsToSum(x, total)) {
        Instruction*& term = operands[static_cast<size_t>(1 - total)];
        term = Marked(term);
      }
      inner[x] = CloneInto(module_, entry_, x, operands, /*take_name=*/true);
    }
    Results& results = results_[loop];
    for (int64_t i = 0; i < body.root()->operand_count(); ++i) {
      const PartLoop::Kind kind = parts.kind(i);
      Instruction* element = nullptr;
      if (kind == PartLoop::Kind::kKept) element = value_.at(init->operand(i));
      if (kind == PartLoop::Kind::kSum) element = inner.at(body.root()->operand(i));
      results.elements.push_back(element);
      results.stacked.push_back(
          kind == PartLoop::Kind::kStack ? Marked(inner.at(parts.StackedRow(i))) : nullptr);
    }
  }

  Instruction* Marked(Instruction* x) {
    CustomCallAttributes attributes;
    attributes.target = module_.arena().Copy(
        std::string_view(fmt::format("{}{}:", kPartMark, size_.to / size_.from)));
    return builder_->Add(Opcode::kCustomCall, {&x, 1}, attributes, x->shape(), {}, "part_sum");
  }

  Instruction* PartOf(Instruction* whole, const Instruction* slice) {
    const int64_t number = old_->parameter_count() + std::ssize(rows_);
    builder_->set_origin(slice);
    Instruction* part = builder_->Parameter(number, slice->shape(), "part");
    builder_->set_origin(nullptr);
    rows_[part] = {value_.at(whole), IsMinor(whole)};
    size_.dimension[number] = DimOfExamples(slice->shape());
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

  // Only the body has grown, and it has no random numbers, which are each part's own.
  bool KeepsMeaning(const std::vector<const Shape*>& before) const {
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) {
        if (x->shape() == before[x->id()]) continue;
        const bool is_random = x->opcode() == Opcode::kXor || x->opcode() == Opcode::kRng ||
                               x->opcode() == Opcode::kRngBitGenerator;
        const bool is_given = x->opcode() == Opcode::kParameter && computation == entry_ &&
                              !rows_.contains(const_cast<Instruction*>(x));
        if (is_random || is_given || x == entry_->root()) return false;
      }
    }
    return true;
  }

  // What the parts stand for, in their place.
  void TakeAllExamples() {
    Computation* made = module_.AddComputation(entry_->name());
    Builder builder(module_, made);
    std::unordered_map<const Instruction*, Instruction*> value;
    std::vector<std::pair<const Instruction*, Rows>> waiting(rows_.begin(), rows_.end());
    const auto take = [&](const Instruction* whole) {
      for (const auto& [part, rows] : waiting) {
        if (rows.whole != whole) continue;
        Instruction* all = value.at(whole);
        std::vector<int64_t> order(static_cast<size_t>(all->shape()->rank()));
        for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
        const bool has_part_dim = part->shape()->dim(0) == 1;
        if (has_part_dim && rows.is_minor) std::swap(order[0], order[1]);
        value[part] = builder.Reshape(builder.Transpose(all, order), part->shape()->dims());
      }
    };
    for (Instruction* x : entry_->instructions()) {
      if (rows_.contains(x)) continue;
      std::vector<Instruction*> operands;
      for (Instruction* operand : x->operands()) operands.push_back(value.at(operand));
      value[x] = CloneInto(module_, made, x, operands, /*take_name=*/true);
      take(x);
    }
    made->set_root(value.at(entry_->root()));
    module_.set_entry(made);
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
  BatchSize size_;
};

bool IsPartMark(const Instruction* x) {
  return x->opcode() == Opcode::kCustomCall &&
         x->attributes<CustomCallAttributes>().target.starts_with(kPartMark);
}

int64_t PartsOfMark(const Instruction* x) {
  std::string_view number = x->attributes<CustomCallAttributes>().target.substr(kPartMark.size());
  int64_t parts = 1;
  std::from_chars(number.data(), number.data() + number.size(), parts);
  return parts;
}

// Is what a part adds linear in sums over examples, and in what each part adds alike?
class PartSums {
 public:
  explicit PartSums(const Module& module) : has_sum_(module.instruction_limit()) {
    for (const Instruction* x : module.entry()->instructions()) {
      has_sum_[x->id()] = x->opcode() == Opcode::kAllReduce || AnyHasSum(x);
    }
  }

  // The first instruction that is not; null: all are.
  const Instruction* NotLinear(const Instruction* x) {
    if (!seen_.insert(x).second) return nullptr;
    if (x->opcode() == Opcode::kAllReduce) {
      return Phases::IsSum(x) && !AnyHasSum(x) ? nullptr : x;
    }
    for (const int64_t i : LinearOperands(x)) {
      if (i < 0) return x;
      const Instruction* operand = x->operand(i);
      if (!HasSum(operand)) {
        if (!IsFilledWith(operand, 0.0)) alike_.insert({x, i});
      } else if (const Instruction* found = NotLinear(operand)) {
        return found;
      }
    }
    return nullptr;
  }
  // Is operand i of `x` something that each part adds, of no examples, such as a decay of weights?
  bool IsAlike(const Instruction* x, int64_t i) const { return alike_.contains({x, i}); }

 private:
  bool HasSum(const Instruction* x) const { return has_sum_[x->id()]; }
  bool AnyHasSum(const Instruction* x) const {
    return std::ranges::any_of(x->operands(), [&](const Instruction* y) { return HasSum(y); });
  }

  // The operands in which x is linear; -1: in others it is not.
  std::vector<int64_t> LinearOperands(const Instruction* x) const {
    const auto only = [&](std::vector<int64_t> linear) {
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        const bool is_linear = std::ranges::find(linear, i) != linear.end();
        if (!is_linear && HasSum(x->operand(i))) return std::vector<int64_t>{-1};
      }
      return linear;
    };
    switch (x->opcode()) {  // what gradients of weights go through
      case Opcode::kAdd:
      case Opcode::kSubtract:
        return {0, 1};
      case Opcode::kConcatenate: {
        std::vector<int64_t> all;
        for (int64_t i = 0; i < x->operand_count(); ++i) all.push_back(i);
        return all;
      }
      case Opcode::kMultiply:
      case Opcode::kDot:
        return only({HasSum(x->operand(0)) ? 0 : 1});
      case Opcode::kSelect:
        return only({1, 2});
      case Opcode::kDynamicUpdateSlice:
        return only({0, 1});
      case Opcode::kPad:
        return IsFilledWith(x->operand(1), 0.0) ? std::vector<int64_t>{0}
                                                : std::vector<int64_t>{-1};
      case Opcode::kReduce: {
        const bool adds_up = x->operand_count() == 2 && CombinerOf(x->called(0)) == Opcode::kAdd &&
                             IsFilledWith(x->operand(1), 0.0);
        return {adds_up ? 0 : -1};
      }
      case Opcode::kDivide:
      case Opcode::kNegate:
      case Opcode::kConvert:
      case Opcode::kCopy:
      case Opcode::kReshape:
      case Opcode::kTranspose:
      case Opcode::kBroadcast:
      case Opcode::kReverse:
      case Opcode::kSlice:
      case Opcode::kDynamicSlice:
      case Opcode::kOptBarrier:
        return only({0});
      case Opcode::kCustomCall:
        return {IsIdentityCall(*x) || IsPartMark(x) ? 0 : -1};
      default:  // others are not linear, or not known to be
        return {-1};
    }
  }

  std::vector<bool> has_sum_;  // by id: it follows from a sum over examples
  std::unordered_set<const Instruction*> seen_;
  std::set<std::pair<const Instruction*, int64_t>> alike_;
};

}  // namespace

std::unique_ptr<Module> MergeAccumulatedParts(const Module& module, const BatchDims& batch) {
  const auto is_counted = [](const Instruction* x) {
    return x->opcode() == Opcode::kWhile && CounterOf(*x);
  };
  if (std::ranges::none_of(module.entry()->instructions(), is_counted)) return nullptr;
  std::unique_ptr<Module> merged = module.Clone();
  ForwardTupleElements(*merged);
  RemoveDeadCode(*merged);
  return PartMerger(*merged, batch).Run() ? std::move(merged) : nullptr;
}

Expected<void> CheckPartSums(Module& module) {
  PartSums sums(module);
  int64_t parts = 1;
  for (const Instruction* x : module.entry()->instructions()) {
    if (!IsPartMark(x)) continue;
    parts = PartsOfMark(x);
    const Instruction* wrong = sums.NotLinear(x);
    if (wrong == nullptr) continue;
    Diagnostic error = module.ErrorAt(
        wrong, "E-PIPELINE-003",
        fmt::format("a loop adds up '{}' ({}) over parts of the batch, which is no sum over the "
                    "examples of a part",
                    wrong->name(), OpcodeName(wrong->opcode())));
    error.hint =
        "divide sums by what the examples count behind the loop; or take a step without it: "
        "--microbatches says into how many parts";
    return Fail(std::move(error));
  }
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
    Builder& builder = rewriter.builder();
    std::vector<Instruction*> operands(x->operands().begin(), x->operands().end());
    bool any = false;
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      if (!sums.IsAlike(x, i)) continue;
      Instruction*& operand = operands[static_cast<size_t>(i)];
      Instruction* times = builder.Scalar(operand->shape()->dtype(), static_cast<double>(parts));
      operand = builder.Multiply(operand, builder.BroadcastScalar(times, operand->shape()->dims()));
      any = true;
    }
    if (IsPartMark(x)) return operands[0];
    return any ? builder.CloneWith(x, operands, x->shape()) : x;
  });
  return {};
}

}  // namespace gshard::pipeline
