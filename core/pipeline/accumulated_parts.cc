#include "core/pipeline/accumulated_parts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/analysis/trip_count.h"
#include "core/pipeline/part_loop.h"
#include "core/pipeline/part_numbers.h"
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
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

class PartMerger {
 public:
  // `has_numbers`: parts may have numbers of their own that their examples decide.
  PartMerger(Module& module, const BatchDims& batch, bool has_numbers)
      : module_(module),
        batch_(batch),
        users_(module),
        old_(module.entry()),
        has_numbers_(has_numbers) {}

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
    const PartNumbers statistics(
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
      const Instruction* number = statistics.FactorOfSum(x);
      if (number != nullptr) {
        inner[x] = ScaledSum({*builder_, inner, x, numbers.at(number)});
        if (inner[x] != nullptr) continue;
      }
      if (statistics.IsFactorAlone(x, users_)) continue;  // where it is needed
      std::vector<Instruction*> operands;
      int64_t total = 0;
      for (Instruction* operand : x->operands()) {
        const bool has_own = statistics.UsesOwn(x) && numbers.contains(operand);
        if (!has_own && !inner.contains(operand)) {
          Instruction* const own[] = {numbers.at(operand->operand(0))};
          inner[operand] = CloneInto(module_, entry_, operand, own, /*take_name=*/true);
        }
        operands.push_back(has_own ? numbers.at(operand) : inner.at(operand));
      }
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
      if (kind == PartLoop::Kind::kChain) element = chains.at(i).last;
      results.elements.push_back(element);
      results.stacked.push_back(
          kind == PartLoop::Kind::kStack ? Marked(inner.at(parts.StackedRow(i))) : nullptr);
    }
  }

  // Instructions of the body, in its order, as this part has them, copied into the entry. `state`:
  // what an element of the loop's state is then.
  template <typename State>
  std::unordered_map<const Instruction*, Instruction*> InPart(const PartLoop& parts, int64_t part,
                                                              const std::vector<Instruction*>& list,
                                                              State state) {
    std::unordered_map<const Instruction*, Instruction*> inner;
    for (Instruction* x : list) {
      if (parts.IsCounter(x)) {
        const auto [start, step] = parts.StartAndStep(x);
        inner[x] = builder_->ScalarInt(x->shape()->dtype(), start + part * step);
      } else if (const std::optional<int64_t> element = parts.StateElement(x)) {
        inner[x] = state(*element);
      } else {
        std::vector<Instruction*> operands;
        for (const Instruction* operand : x->operands()) operands.push_back(inner.at(operand));
        inner[x] = CloneInto(module_, entry_, x, operands, /*take_name=*/false);
      }
    }
    return inner;
  }

  // By statistic of a part's examples: what stands for it, the values of all parts in one array.
  // They are computed part by part, before the loop.
  std::unordered_map<const Instruction*, Instruction*> NumbersOf(const Instruction* loop,
                                                                 const PartLoop& parts,
                                                                 const PartNumbers& statistics) {
    const Instruction* init = loop->operand(0);
    std::unordered_map<const Instruction*, std::vector<Instruction*>> of_parts;
    for (int64_t part = 0; part < parts.parts() && !statistics.numbers().empty(); ++part) {
      const auto inner = InPart(parts, part, statistics.behind(),
                                [&](int64_t element) { return value_.at(init->operand(element)); });
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
        chain.of_parts = builder_->DynamicUpdateDim(chain.of_parts, row, 0,
                                                    builder_->ScalarInt(DType::kS32, part));
      }
      const auto inner = InPart(parts, part, parts.chain(), [&](int64_t element) {
        const auto chain = chains.find(element);
        return chain == chains.end() ? value_.at(init->operand(element)) : chain->second.last;
      });
      for (auto& [i, chain] : chains) chain.last = inner.at(parts.body().root()->operand(i));
    }
    return chains;
  }

  Instruction* Marked(Instruction* x) {
    CustomCallAttributes attributes;
    attributes.target = module_.arena().Copy(
        std::string_view(fmt::format("{}{}:", kPartMark, size_.to / size_.from)));
    builder_->set_origin(x);
    Instruction* made =
        builder_->Add(Opcode::kCustomCall, {&x, 1}, attributes, x->shape(), {}, "part_sum");
    builder_->set_origin(nullptr);
    return made;
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
    if (found == stacks_.end() || !AddsUpRows(*x)) return false;
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
        builder.set_origin(part);
        Instruction* const given[] = {builder.Reshape(all, dims)};
        CustomCallAttributes mark;
        mark.target = kGivenMark;
        value[part] = builder.Add(Opcode::kCustomCall, given, mark, given[0]->shape());
        builder.set_origin(nullptr);
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
  bool has_numbers_;
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
  for (const bool has_numbers : {true, false}) {
    std::unique_ptr<Module> merged = module.Clone();
    ForwardTupleElements(*merged);
    RemoveDeadCode(*merged);
    PartMerger merger(*merged, batch, has_numbers);
    if (merger.Run()) return merged;
    refused = merger.refused();
  }
  return nullptr;
}

}  // namespace gshard::pipeline
