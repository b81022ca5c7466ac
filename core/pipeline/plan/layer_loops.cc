#include "core/pipeline/plan/layer_loops.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <unordered_map>

#include "core/analysis/integer_value.h"
#include "core/analysis/trip_count.h"
#include "core/pipeline/plan/clone.h"
#include "fmt/format.h"
#include "ir/builder.h"
#include "ir/dims.h"
#include "ir/integer_operation.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

constexpr int64_t kMaxInstructions = 10'000'000;

// An array put together along dim 0 piece by piece, a known number, or an ordinary value.
struct Value {
  Instruction* whole = nullptr;      // null: not put together, or not written, yet
  std::vector<Instruction*> pieces;  // null: as in `base`
  Instruction* base = nullptr;       // of a stack: what it was before
  std::optional<int64_t> number;     // of an integer or pred scalar
  DType type = DType::kS32;          // of the number
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
    entry_->set_root(WholeOf(old_->root()));
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
    if (value->number) {
      value->whole = builder_->ScalarInt(value->type, *value->number);
      Note(value->whole);
      return value->whole;
    }
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
    Body turn(*body);
    for (int64_t trip = 0; trip < trips; ++trip) state = Turn(turn, std::move(state));
    results_[loop] = std::move(state);
    ++written_;
    return {};
  }

  // The body of a loop, and the values that its instructions have in the turn that is written.
  class Body {
   public:
    explicit Body(const Computation& body) : computation(body), uses_(body) {
      uint32_t last_id = 0;
      for (const Instruction* x : body.instructions()) {
        first_id_ = std::min(first_id_, x->id()), last_id = std::max(last_id, x->id());
      }
      values_.resize(last_id - first_id_ + 1);
      constants.resize(values_.size());
      for (const Instruction* user : uses_.of(body.parameter(0))) {
        if (user->opcode() == Opcode::kGetTupleElement) {
          ++times_taken_[user->attributes<GetTupleElementAttributes>().index];
        } else {
          takes_whole_state_ = true;
        }
      }
    }
    size_t PlaceOf(const Instruction* x) const { return x->id() - first_id_; }
    ValueRef& At(const Instruction* x) { return values_[PlaceOf(x)]; }
    // Does only `user` read this value?
    bool IsReadOnce(const Instruction* x) const { return uses_.of(x).size() == 1; }
    bool IsTakenOnce(int64_t element) const {
      auto found = times_taken_.find(element);
      return !takes_whole_state_ && found != times_taken_.end() && found->second == 1;
    }
    void Forget() { std::ranges::fill(values_, nullptr); }

    const Computation& computation;
    std::vector<ValueRef> constants;  // by place; written once for all turns

   private:
    Users uses_;
    uint32_t first_id_ = UINT32_MAX;
    std::vector<ValueRef> values_;                  // by place
    std::unordered_map<int64_t, int> times_taken_;  // by element of the state
    bool takes_whole_state_ = false;
  };

  std::vector<ValueRef> Turn(Body& body, std::vector<ValueRef> state) {
    const Instruction* parameter = body.computation.parameter(0);
    const Instruction* root = body.computation.root();
    auto whole = [&](const Instruction* x) -> Instruction* {
      if (x == parameter) {
        std::vector<Instruction*> elements;
        for (const ValueRef& value : state) elements.push_back(Whole(value));
        return builder_->Tuple(elements);
      }
      return Whole(body.At(x));
    };
    for (Instruction* x : body.computation.instructions()) {
      if (x == parameter || x == root) continue;
      if (x->opcode() == Opcode::kGetTupleElement && x->operand(0) == parameter) {
        const int64_t index = x->attributes<GetTupleElementAttributes>().index;
        ValueRef& element = state[static_cast<size_t>(index)];
        body.At(x) = body.IsTakenOnce(index) ? std::move(element) : element;
        continue;
      }
      if (x->opcode() == Opcode::kConstant) {
        body.At(x) = Constant(x, body);
        continue;
      }
      if (std::optional<int64_t> number = NumberOf(x, body)) {
        body.At(x) = std::make_shared<Value>();
        body.At(x)->number = number, body.At(x)->type = x->shape()->dtype();
        continue;
      }
      if (ValueRef piece = StackAccess(x, body)) {
        body.At(x) = std::move(piece);
        continue;
      }
      std::vector<Instruction*> operands;
      for (const Instruction* operand : x->operands()) operands.push_back(whole(operand));
      Instruction* copy = CloneInto(module_, entry_, x, operands, /*take_name=*/false);
      Note(copy);
      body.At(x) = Plain(copy);
    }
    std::vector<ValueRef> next;
    for (const Instruction* x : root->operands()) next.push_back(body.At(x));
    body.Forget();
    return next;
  }

  ValueRef Constant(Instruction* x, Body& body) {
    ValueRef& value = body.constants[body.PlaceOf(x)];
    if (value == nullptr) {
      value = Plain(CloneInto(module_, entry_, x, {}, /*take_name=*/false));
      Note(value->whole);
      if (x->shape()->IsArray() && x->shape()->rank() == 0) {
        value->number = integers_.Evaluate(value->whole);
      }
    }
    return value;
  }

  std::optional<int64_t> KnownNumber(const ValueRef& value) {
    if (value == nullptr) return std::nullopt;
    if (!value->number && value->whole != nullptr) return integers_.Evaluate(value->whole);
    return value->number;
  }

  // The integer or pred that a scalar of the body is known to be in this turn.
  std::optional<int64_t> NumberOf(const Instruction* x, Body& body) {
    if (!x->shape()->IsArray() || x->shape()->rank() != 0) return std::nullopt;
    const DTypeClass type = ClassOf(x->shape()->dtype());
    if (type == DTypeClass::kFloat || type == DTypeClass::kComplex) return std::nullopt;
    auto known = [&](int64_t i) { return KnownNumber(body.At(x->operand(i))); };
    switch (x->opcode()) {
      case Opcode::kCopy:
      case Opcode::kReshape:
      case Opcode::kOptBarrier:
        return known(0);
      case Opcode::kSelect:
        if (const auto predicate = known(0)) return known(*predicate != 0 ? 1 : 2);
        return std::nullopt;
      default:  // arithmetic, below
        break;
    }
    if (!IsIntegerOperation(x->opcode())) return std::nullopt;
    std::array<int64_t, 3> operands{};
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      const std::optional<int64_t> value = known(i);
      if (!value) return std::nullopt;
      operands[static_cast<size_t>(i)] = *value;
    }
    return EvaluateInteger(*x, operands);
  }

  // The row that a slice or an update of one row along dim 0 is at, if that is known.
  std::optional<int64_t> RowOf(const Instruction* x, int64_t first_start, Body& body) {
    for (int64_t i = first_start + 1; i < x->operand_count(); ++i) {
      if (KnownNumber(body.At(x->operand(i))) != 0) return std::nullopt;
    }
    const std::optional<int64_t> row = KnownNumber(body.At(x->operand(first_start)));
    if (!row) return std::nullopt;
    return std::clamp<int64_t>(*row, 0, x->operand(0)->shape()->dim(0) - 1);
  }

  // What a slice of a row, or an update by one, gives without touching the whole; null: neither.
  ValueRef StackAccess(const Instruction* x, Body& body) {
    const bool slice = x->opcode() == Opcode::kDynamicSlice;
    if (!slice && x->opcode() != Opcode::kDynamicUpdateSlice) return nullptr;
    const Shape* part = slice ? x->shape() : x->operand(1)->shape();
    if (!IsRowOf(part, x->operand(0)->shape())) return nullptr;
    std::optional<int64_t> row = RowOf(x, slice ? 1 : 2, body);
    if (!row) return nullptr;
    if (!slice) return Updated(x, static_cast<size_t>(*row), body);
    const ValueRef& from = body.At(x->operand(0));
    if (from->IsStack()) {
      if (Instruction* piece = from->pieces[static_cast<size_t>(*row)]) return Plain(piece);
    } else {
      builder_->set_origin(x);
    }
    Instruction* base = from->IsStack() ? from->base : Whole(from);
    Instruction* made = builder_->SliceDim(base, 0, *row, *row + 1);
    builder_->set_origin(nullptr);
    Note(made);
    return Plain(made);
  }

  // A stack with another row: itself where nobody reads what it was.
  ValueRef Updated(const Instruction* update, size_t row, Body& body) {
    Instruction* piece = Whole(body.At(update->operand(1)));
    ValueRef& old = body.At(update->operand(0));
    ValueRef from = body.IsReadOnce(update->operand(0)) ? std::move(old) : old;
    if (from.use_count() > 1 || !from->IsStack()) from = std::make_shared<Value>(*from);
    if (!from->IsStack()) {
      from->base = Whole(from);
      from->pieces.assign(static_cast<size_t>(update->shape()->dim(0)), nullptr);
    }
    from->whole = nullptr, from->number.reset();
    from->pieces[row] = piece;
    return from;
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
  std::vector<Dependence> depends_;                                        // by id
  std::unordered_set<const Instruction*> stacks_;
  int64_t written_ = 0, made_ = 0;
};

}  // namespace

Expected<int64_t> WriteOutLayerLoops(Module& module, const std::unordered_set<int64_t>& data) {
  return Writer(module, data).Run();
}

}  // namespace gshard::pipeline
