#include "core/pipeline/plan/layer_loops.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>

#include "core/analysis/integer_value.h"
#include "core/analysis/trip_count.h"
#include "core/pipeline/plan/clone.h"
#include "fmt/format.h"
#include "ir/builder.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

constexpr int64_t kMaxInstructions = 10'000'000;

// An array put together along dim 0 piece by piece, or an ordinary value.
struct Value {
  Instruction* whole = nullptr;      // null: not put together yet
  std::vector<Instruction*> pieces;  // null: as in `base`
  Instruction* base = nullptr;       // of a stack: what it was before
  bool IsStack() const { return !pieces.empty(); }
};
using ValueRef = std::shared_ptr<Value>;

class Writer {
 public:
  Writer(Module& module, const std::unordered_set<int64_t>& data)
      : module_(module), data_(data), old_(module.entry()) {}

  Expected<int64_t> Run() {
    if (!HasCandidates()) return 0;
    // The old entry keeps its instructions; names go over to the copies.
    entry_ = module_.AddComputation(old_->name());
    builder_.emplace(module_, entry_);
    for (Instruction* x : old_->instructions()) {
      if (auto done = Visit(x); !done) return Fail(std::move(done.error()));
    }
    entry_->set_root(Whole(At(old_->root())));
    module_.set_entry(entry_);
    RemoveDeadCode(module_);
    return written_;
  }

 private:
  struct Dependence {
    bool examples = false, weights = false;
  };
  Dependence DependenceOf(const Instruction* x) const {
    return x->id() < depends_.size() ? depends_[x->id()] : Dependence{};
  }

  bool HasCandidates() const {
    for (const Instruction* x : old_->instructions()) {
      if (x->opcode() == Opcode::kWhile && TripCount(*x)) return true;
    }
    return false;
  }

  ValueRef At(const Instruction* x) { return values_.at(x); }

  static ValueRef Plain(Instruction* x) {
    auto value = std::make_shared<Value>();
    value->whole = x;
    return value;
  }

  Expected<void> Visit(Instruction* x) {
    if (x->opcode() == Opcode::kGetTupleElement) {
      auto it = results_.find(x->operand(0));
      if (it != results_.end()) {
        values_[x] =
            it->second[static_cast<size_t>(x->attributes<GetTupleElementAttributes>().index)];
        return {};
      }
    }
    if (x->opcode() == Opcode::kWhile) {
      std::optional<int64_t> trips = TripCount(*x);
      if (trips && IsOverLayers(x)) return WriteOut(x, *trips);
    }
    std::vector<Instruction*> operands;
    for (Instruction* operand : x->operands()) operands.push_back(WholeOf(operand));
    Instruction* copy = CloneInto(module_, entry_, x, operands, /*take_name=*/true);
    Note(copy);
    values_[x] = Plain(copy);
    return {};
  }

  Instruction* WholeOf(Instruction* x) {
    auto it = results_.find(x);
    if (it != results_.end()) return TupleOf(x, it->second);
    return Whole(At(x));
  }

  Instruction* TupleOf(Instruction* loop, const std::vector<ValueRef>& state) {
    Instruction*& tuple = tuples_[loop];
    if (tuple == nullptr) {
      std::vector<Instruction*> elements;
      for (const ValueRef& value : state) elements.push_back(Whole(value));
      tuple = builder_->Tuple(elements);
    }
    return tuple;
  }

  // The array itself; stacks are put together once.
  Instruction* Whole(const ValueRef& value) {
    if (value->whole != nullptr) return value->whole;
    std::vector<Instruction*> parts;
    for (size_t i = 0; i < value->pieces.size(); ++i) {
      int64_t row = static_cast<int64_t>(i);
      Instruction* piece = value->pieces[i];
      if (piece == nullptr) piece = builder_->SliceDim(value->base, 0, row, row + 1);
      parts.push_back(piece);
    }
    value->whole = builder_->Concatenate(parts, 0);
    Note(value->whole);
    stacks_.insert(value->whole);
    return value->whole;
  }

  // Does a value depend on examples, or on nothing but weights and constants?
  void Note(const Instruction* x) {
    if (x->id() >= depends_.size()) depends_.resize(std::max<size_t>(2 * x->id(), 1024));
    const bool is_data = x->opcode() == Opcode::kParameter &&
                         data_.count(x->attributes<ParameterAttributes>().number) != 0;
    Dependence own{is_data, x->opcode() == Opcode::kParameter && !is_data};
    for (const Instruction* operand : x->operands()) {
      const Dependence from = DependenceOf(operand);
      own.examples = own.examples || from.examples;
      own.weights = own.weights || from.weights;
    }
    depends_[x->id()] = own;
  }

  // See the head of the header.
  bool IsOverLayers(const Instruction* loop) {
    const Instruction* init = loop->operand(0);
    const Computation* body = loop->called(1);
    if (body->parameter_count() != 1 || body->root()->opcode() != Opcode::kTuple) return false;
    if (loop->called(0)->parameter_count() != 1) return false;
    if (init->opcode() != Opcode::kTuple) return false;
    for (const Instruction* x : body->instructions()) {
      if (x->opcode() != Opcode::kDynamicSlice) continue;
      const Instruction* from = x->operand(0);
      if (from->opcode() != Opcode::kGetTupleElement || from->operand(0) != body->parameter(0)) {
        continue;
      }
      if (x->attributes<DynamicSliceAttributes>().slice_sizes[0] != 1) continue;
      const ValueRef& value =
          At(init->operand(from->attributes<GetTupleElementAttributes>().index));
      if (value->IsStack()) return true;
      const Dependence on = DependenceOf(value->whole);
      const bool only_weights = on.weights && !on.examples;
      if (only_weights || stacks_.count(value->whole) != 0) return true;
    }
    return false;
  }

  Expected<void> WriteOut(Instruction* loop, int64_t trips) {
    const Computation* body = loop->called(1);
    made_ += trips * static_cast<int64_t>(body->instructions().size());
    if (made_ > kMaxInstructions) {
      return Fail(module_.ErrorAt(loop, "E-PIPELINE-010",
                                  fmt::format("writing out the {} layers of '{}' takes more than "
                                              "{} instructions",
                                              trips, loop->name(), kMaxInstructions)));
    }
    std::vector<ValueRef> state;
    for (Instruction* x : loop->operand(0)->operands()) state.push_back(At(x));
    for (int64_t trip = 0; trip < trips; ++trip) state = Turn(body, state);
    results_[loop] = std::move(state);
    ++written_;
    return {};
  }

  std::vector<ValueRef> Turn(const Computation* body, const std::vector<ValueRef>& state) {
    std::unordered_map<const Instruction*, ValueRef> local;
    const Instruction* parameter = body->parameter(0);
    auto whole = [&](const Instruction* x) -> Instruction* {
      if (x == parameter) {
        std::vector<Instruction*> elements;
        for (const ValueRef& value : state) elements.push_back(Whole(value));
        return builder_->Tuple(elements);
      }
      return Whole(local.at(x));
    };
    for (Instruction* x : body->instructions()) {
      if (x == parameter || x == body->root()) continue;
      if (x->opcode() == Opcode::kGetTupleElement && x->operand(0) == parameter) {
        local[x] = state[static_cast<size_t>(x->attributes<GetTupleElementAttributes>().index)];
        continue;
      }
      if (ValueRef piece = StackAccess(x, local)) {
        local[x] = std::move(piece);
        continue;
      }
      std::vector<Instruction*> operands;
      for (const Instruction* operand : x->operands()) operands.push_back(whole(operand));
      local[x] = Plain(Made(CloneInto(module_, entry_, x, operands, /*take_name=*/false)));
    }
    std::vector<ValueRef> next;
    for (const Instruction* x : body->root()->operands()) next.push_back(local.at(x));
    return next;
  }

  // A copy, or the scalar constant that it is known to be.
  Instruction* Made(Instruction* x) {
    if (std::optional<int64_t> known = integers_.Evaluate(x);
        known && x->opcode() != Opcode::kConstant && x->shape()->rank() == 0) {
      x = builder_->ScalarInt(x->shape()->dtype(), *known);
      integers_.Evaluate(x);
    }
    Note(x);
    return x;
  }

  // The row that a slice or an update of one row along dim 0 is at, if that is known.
  std::optional<int64_t> RowOf(const Instruction* x, int64_t first_start,
                               const std::unordered_map<const Instruction*, ValueRef>& local) {
    for (int64_t i = first_start; i < x->operand_count(); ++i) {
      auto it = local.find(x->operand(i));
      if (it == local.end() || it->second->whole == nullptr) return std::nullopt;
      std::optional<int64_t> start = integers_.Evaluate(it->second->whole);
      if (!start) return std::nullopt;
      if (i == first_start) continue;
      if (*start != 0) return std::nullopt;
    }
    int64_t row = *integers_.Evaluate(local.at(x->operand(first_start))->whole);
    int64_t rows = x->operand(0)->shape()->dim(0);
    return row < 0 ? 0 : row >= rows ? rows - 1 : row;
  }

  static bool IsRow(const Shape* part, const Shape* all) {
    if (all->rank() == 0 || part->rank() != all->rank() || part->dim(0) != 1) return false;
    for (int64_t d = 1; d < all->rank(); ++d) {
      if (part->dim(d) != all->dim(d)) return false;
    }
    return true;
  }

  // What a slice of a row, or an update by one, gives without touching the whole; null: neither.
  ValueRef StackAccess(const Instruction* x,
                       const std::unordered_map<const Instruction*, ValueRef>& local) {
    const bool slice = x->opcode() == Opcode::kDynamicSlice;
    if (!slice && x->opcode() != Opcode::kDynamicUpdateSlice) return nullptr;
    const Shape* part = slice ? x->shape() : x->operand(1)->shape();
    if (!IsRow(part, x->operand(0)->shape())) return nullptr;
    std::optional<int64_t> row = RowOf(x, slice ? 1 : 2, local);
    if (!row) return nullptr;
    const ValueRef& from = local.at(x->operand(0));
    if (!slice) {
      auto value = std::make_shared<Value>(*from);
      if (!value->IsStack()) {
        value->base = from->whole;
        value->pieces.assign(static_cast<size_t>(x->shape()->dim(0)), nullptr);
      }
      value->whole = nullptr;
      value->pieces[static_cast<size_t>(*row)] = Whole(local.at(x->operand(1)));
      return value;
    }
    if (from->IsStack()) {
      if (Instruction* piece = from->pieces[static_cast<size_t>(*row)]) return Plain(piece);
      return Plain(Made(builder_->SliceDim(from->base, 0, *row, *row + 1)));
    }
    builder_->set_origin(x);
    Instruction* made = Made(builder_->SliceDim(from->whole, 0, *row, *row + 1));
    builder_->set_origin(nullptr);
    return Plain(made);
  }

  Module& module_;
  const std::unordered_set<int64_t>& data_;
  Computation* old_;
  Computation* entry_ = nullptr;
  std::optional<Builder> builder_;
  IntegerValues integers_;
  std::unordered_map<const Instruction*, ValueRef> values_;
  std::unordered_map<const Instruction*, std::vector<ValueRef>> results_;  // of loops written out
  std::unordered_map<const Instruction*, Instruction*> tuples_;            // of those, where needed
  std::vector<Dependence> depends_;  // by id
  std::unordered_set<const Instruction*> stacks_;
  int64_t written_ = 0, made_ = 0;
};

}  // namespace

Expected<int64_t> WriteOutLayerLoops(Module& module, const std::unordered_set<int64_t>& data) {
  return Writer(module, data).Run();
}

}  // namespace gshard::pipeline
