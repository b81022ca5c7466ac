#include "core/transforms/expand/unrolled_random_bits.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/analysis/integer_value.h"
#include "core/analysis/trip_count.h"
#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

constexpr int64_t kMostTrips = 8;
constexpr size_t kMostOperations = 128;  // of a trip: Threefry has about 60

bool IsOnIntegers(const Instruction* x) {
  if (!x->shape()->IsArray()) return false;
  const DType dtype = x->shape()->dtype();
  if (!IsInteger(dtype) && dtype != DType::kPred) return false;
  const Opcode opcode = x->opcode();
  return IsElementwise(opcode) || KeepsOrder(opcode) || opcode == Opcode::kConstant ||
         opcode == Opcode::kBroadcast || opcode == Opcode::kSlice ||
         opcode == Opcode::kGetTupleElement;
}

class Unroller {
 public:
  Instruction* Visit(Instruction* x, Builder& builder) {
    if (MakesRandomBits(x)) Unroll(x, builder);
    if (x->opcode() != Opcode::kGetTupleElement) return x;
    const auto unrolled = results_.find(x->operand(0));
    if (unrolled == results_.end()) return x;
    return unrolled->second[static_cast<size_t>(x->attributes<GetTupleElementAttributes>().index)];
  }

 private:
  void Unroll(const Instruction* loop, Builder& builder) {
    const Computation& body = *loop->called(1);
    std::vector<Instruction*> state;
    for (int64_t i = 0; i < body.root()->operand_count(); ++i)
      state.push_back(builder.GetTupleElement(loop->operand(0), i));
    const int64_t trips = CounterOf(*loop)->trips;
    for (int64_t trip = 0; trip < trips; ++trip) {
      std::unordered_map<const Instruction*, Instruction*> made;
      for (const Instruction* x : body.instructions()) {
        if (x == body.root() || x == body.parameter(0)) continue;
        if (const std::optional<int64_t> element = ElementOf(x, body.parameter(0))) {
          made[x] = state[static_cast<size_t>(*element)];
          continue;
        }
        std::vector<Instruction*> operands;
        for (const Instruction* operand : x->operands()) operands.push_back(made.at(operand));
        made[x] = Folded(builder.CloneWith(x, operands, x->shape()), builder);
      }
      for (size_t i = 0; i < state.size(); ++i)
        state[i] = made.at(body.root()->operand(static_cast<int64_t>(i)));
    }
    results_[loop] = std::move(state);
  }

  // Counters and numbers of places to rotate by are constants.
  Instruction* Folded(Instruction* x, Builder& builder) {
    if (x->shape()->rank() > 0) return x;
    const std::optional<int64_t> value = values_.Evaluate(x);
    return value ? builder.ScalarInt(x->shape()->dtype(), *value) : x;
  }

  IntegerValues values_;
  std::unordered_map<const Instruction*, std::vector<Instruction*>> results_;  // by loop
};

}  // namespace

bool MakesRandomBits(const Instruction* loop) {
  if (loop->opcode() != Opcode::kWhile || !loop->shape()->IsTuple() ||
      !loop->control_predecessors().empty())
    return false;
  const Computation& body = *loop->called(1);
  const Instruction* root = body.root();
  if (root->opcode() != Opcode::kTuple || body.instructions().size() > kMostOperations)
    return false;
  const bool is_plain = std::ranges::all_of(body.instructions(), [&](const Instruction* x) {
    return x == root || x == body.parameter(0) || IsOnIntegers(x);
  });
  if (!is_plain || !IsReadByElement(body.parameter(0)) || !IsReadByElement(loop)) return false;
  const std::optional<LoopCounter> counter = CounterOf(*loop);
  return counter && counter->trips > 0 && counter->trips <= kMostTrips;
}

bool UnrollRandomBits(Module& module) {
  const bool has_any = std::ranges::any_of(module.computations(), [](const Computation* of) {
    return std::ranges::any_of(of->instructions(), MakesRandomBits);
  });
  if (!has_any) return false;
  Unroller unroller;
  return RewriteLoopCallers(module, [&](Instruction* x, Rewriter& rewriter) {
    return unroller.Visit(x, rewriter.builder());
  });
}

}  // namespace gshard
