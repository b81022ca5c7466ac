// A walk backward from every root and logarithm. See positive_inputs.h.
#include "backends/cpu/io/positive_inputs.h"

#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

#include "ir/constant_fill.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/op_traits.h"

namespace gshard::cpu {
namespace {

// What x is a copy of, element for element or each for many, in any float type.
const Instruction* SourceOf(const Instruction* x) {
  while (KeepsOrder(x->opcode()) || x->opcode() == Opcode::kConvert ||
         x->opcode() == Opcode::kBroadcast) {
    x = x->operand(0);
  }
  return x;
}

bool IsWholeNumber(const Instruction* x) {
  const std::optional<double> number = FillingNumber(x);
  return number && *number == std::floor(*number);
}

// Is x NaN where its first operand is negative?
bool WantsPositive(const Instruction& x) {
  if (!x.shape()->IsArray() || !IsFloat(x.shape()->dtype())) return false;
  switch (x.opcode()) {
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
    case Opcode::kLog:
      return true;
    case Opcode::kPower:
      return !IsWholeNumber(x.operand(1));
    default:  // defined for numbers of either sign
      return false;
  }
}

class PositiveWalk {
 public:
  explicit PositiveWalk(const Module& module) : entry_(module.entry()) {
    int64_t leaf = 0;
    for (const Instruction* x : entry_->parameters()) {
      first_leaf_[x] = leaf;
      leaf += x->shape()->leaf_count();
    }
    for (const Computation* computation : module.computations()) {
      for (const Instruction* x : computation->instructions()) {
        for (const Computation* called : x->called()) callers_[called].push_back(x);
        if (WantsPositive(*x)) Enter(x->operand(0), 0);
      }
    }
  }

  std::vector<int64_t> Run() {
    while (!open_.empty()) {
      const auto [x, leaf] = open_.back();
      open_.pop_back();
      Follow(*x, leaf);
    }
    return {found_.begin(), found_.end()};
  }

 private:
  // A value, and which of its leaves in pre-order.
  using State = std::pair<const Instruction*, int64_t>;

  void Enter(const Instruction* x, int64_t leaf) {
    if (seen_.emplace(x, leaf).second) open_.emplace_back(x, leaf);
  }
  void EnterAll(std::span<Instruction* const> operands) {
    for (const Instruction* operand : operands) Enter(operand, 0);
  }

  void Follow(const Instruction& x, int64_t leaf) {
    switch (x.opcode()) {
      case Opcode::kParameter:
        return FollowParameter(x, leaf);
      case Opcode::kTuple:
        for (int64_t i = x.operand_count() - 1; i >= 0; --i) {
          const int64_t first = x.shape()->first_leaf(i);
          if (leaf >= first) return Enter(x.operand(i), leaf - first);
        }
        return;
      case Opcode::kGetTupleElement:
        return Enter(x.operand(0), FirstLeafRead(x) + leaf);
      case Opcode::kOptBarrier:
      case Opcode::kCopy:
        return Enter(x.operand(0), leaf);
      case Opcode::kWhile:
        Enter(x.operand(0), leaf);
        return Enter(x.called(1)->root(), leaf);
      case Opcode::kCall:
      case Opcode::kFusion:
      case Opcode::kConditional:
        for (const Computation* called : x.called()) Enter(called->root(), leaf);
        return;
      default:  // makes arrays, which have rules of their own
        if (x.shape()->IsArray() && IsFloat(x.shape()->dtype())) FollowArray(x);
        return;
    }
  }

  void FollowParameter(const Instruction& x, int64_t leaf) {
    if (x.parent() == entry_) {
      found_.insert(first_leaf_.at(&x) + leaf);
      return;
    }
    const int64_t number = x.attributes<ParameterAttributes>().number;
    for (const Instruction* caller : callers_[x.parent()]) {
      switch (caller->opcode()) {
        case Opcode::kCall:
        case Opcode::kFusion:
          Enter(caller->operand(number), leaf);
          break;
        case Opcode::kWhile:
          Enter(caller->operand(0), leaf);
          Enter(caller->called(1)->root(), leaf);
          break;
        case Opcode::kConditional:
          for (int64_t i = 0; i < static_cast<int64_t>(caller->called().size()); ++i) {
            if (caller->called(i) == x.parent()) Enter(caller->operand(i + 1), leaf);
          }
          break;
        default:  // a function of elements
          break;
      }
    }
  }

  void FollowArray(const Instruction& x) {
    switch (x.opcode()) {
      case Opcode::kMultiply:
        if (SourceOf(x.operand(0)) == SourceOf(x.operand(1))) return;
        return EnterAll(x.operands());
      case Opcode::kAdd:
      case Opcode::kDivide:
      case Opcode::kMaximum:
      case Opcode::kMinimum:
      case Opcode::kConcatenate:
      case Opcode::kAllReduce:
        return EnterAll(x.operands());
      case Opcode::kPower:
        if (!IsWholeNumber(x.operand(1))) Enter(x.operand(0), 0);
        return;
      case Opcode::kSelect:
      case Opcode::kDynamicUpdateSlice:
        return EnterAll(x.operands().subspan(x.opcode() == Opcode::kSelect ? 1 : 0, 2));
      case Opcode::kReduce:
        if (x.called(0)->root()->opcode() == Opcode::kAdd) Enter(x.operand(0), 0);
        return;
      case Opcode::kReshape:
      case Opcode::kBitcast:
      case Opcode::kTranspose:
      case Opcode::kBroadcast:
      case Opcode::kConvert:
      case Opcode::kSlice:
      case Opcode::kDynamicSlice:
      case Opcode::kReverse:
      case Opcode::kGather:
      case Opcode::kPad:
      case Opcode::kAllGather:
      case Opcode::kAllToAll:
      case Opcode::kCollectivePermute:
        return Enter(x.operand(0), 0);
      default:  // its sign does not follow from positive operands, or is known
        return;
    }
  }

  const Computation* entry_;
  std::unordered_map<const Instruction*, int64_t> first_leaf_;
  std::unordered_map<const Computation*, std::vector<const Instruction*>> callers_;
  std::set<State> seen_;
  std::vector<State> open_;
  std::set<int64_t> found_;
};

}  // namespace

std::vector<int64_t> FindPositiveInputs(const Module& module) { return PositiveWalk(module).Run(); }

}  // namespace gshard::cpu
