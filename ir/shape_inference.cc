#include "ir/shape_inference.h"

#include <array>

#include "ir/async_sugar.h"
#include "ir/ops/shape_rules.h"

namespace gshard {

namespace {

struct ShapeRuleRow {
  ShapeRule rule = nullptr;
  int8_t called = 0;       // number of called computations; kVariadic: the rule looks
  bool inferable = false;  // else the text must give the shape
};

// The shape column of ir/opcodes.def.
constexpr ShapeRuleRow Infers(ShapeRule rule, int called = 0) {
  return {rule, static_cast<int8_t>(called), true};
}
constexpr ShapeRuleRow Declares(ShapeRule rule, int called = 0) {
  return {rule, static_cast<int8_t>(called), false};
}

constexpr std::array<ShapeRuleRow, kOpcodeCount> kShapeRules = {{
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, flags, motion, purity, callees, \
                      shape, types)                                                                \
  shape,
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
}};

// Rules may look at parameters and roots of called computations without further ado.
Problem CheckCalled(const OpView& op, int expected) {
  if (expected != kVariadic && op.called.size() != static_cast<size_t>(expected)) {
    return ProblemOf("{} needs {} called computation{}, found {}", OpcodeName(op.opcode), expected,
                     expected == 1 ? "" : "s", op.called.size());
  }
  for (const Computation* called : op.called) {
    if (called == nullptr) {
      return ProblemOf("{} calls a computation that is not there", OpcodeName(op.opcode));
    }
    if (called->root() == nullptr || called->root()->shape() == nullptr) {
      return ProblemOf("computation {}, called by {}, has no root", called->name(),
                       OpcodeName(op.opcode));
    }
    for (int64_t k = 0; k < called->parameter_count(); ++k) {
      const Instruction* parameter = called->parameter(k);
      if (parameter == nullptr || parameter->shape() == nullptr) {
        return ProblemOf("computation {}, called by {}, has no parameter({})", called->name(),
                         OpcodeName(op.opcode), k);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

ShapeResult InferShape(Context& ctx, const OpView& op) {
  const OpcodeInfo& info = InfoOf(op.opcode);
  const ShapeRuleRow& row = kShapeRules[static_cast<size_t>(op.opcode)];
  if (!TakesOperands(op.opcode, op.operands.size())) {
    return Wrong("{} takes {} operand{}, found {}", info.text, info.arity,
                 info.arity == 1 ? "" : "s", op.operands.size());
  }
  if (row.called != 0 || !op.called.empty()) {
    if (Problem problem = CheckCalled(op, row.called)) return Wrong(std::move(problem));
  }
  ShapeResult result = row.rule(ctx, op);
  if (result && (*result)->byte_size() == INT64_MAX && !HasUnbounded(*result)) {
    return Wrong("the result of {}, {}, has more bytes than 64 bits can count", info.text,
                 Text(*result));
  }
  return result;
}

bool ShapeIsInferable(Opcode opcode) { return kShapeRules[static_cast<size_t>(opcode)].inferable; }

}  // namespace gshard
