#include "core/pipeline/part_sums.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/analysis/combiner.h"
#include "core/pipeline/plan/phases.h"
#include "core/transforms/algebraic_simplifier.h"
#include "core/transforms/rewriter.h"
#include "fmt/format.h"
#include "ir/builder.h"
#include "ir/constant_fill.h"
#include "ir/custom_call.h"

namespace gshard::pipeline {
namespace {

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
      const bool is_given = IsCustomCallTo(*x, kGivenMark);
      has_sum_[x->id()] = !is_given && (x->opcode() == Opcode::kAllReduce || AnyHasSum(x));
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
    if (IsPartMark(x) || IsCustomCallTo(*x, kGivenMark)) return operands[0];
    return any ? builder.CloneWith(x, operands, x->shape()) : x;
  });
  return {};
}

}  // namespace gshard::pipeline
