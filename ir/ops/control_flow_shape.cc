// Operations that run computations: signatures must fit operands and results.
#include "ir/ops/shape_rules.h"

namespace gshard {

namespace {

// `body` takes exactly the operands.
Problem CheckArguments(const Computation* body, std::string_view role,
                       std::span<const Shape* const> operands) {
  if (Problem problem = CheckParameterCount(body, role, operands.size())) return problem;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (Problem problem = CheckParameter(body, role, i, operands[i])) return problem;
  }
  return std::nullopt;
}

}  // namespace

ShapeResult InferWhile(Context& ctx, const OpView& op) {
  const Computation* condition = op.called[0];
  const Computation* body = op.called[1];
  if (Problem problem = CheckArguments(condition, "condition", op.operands)) {
    return Wrong(std::move(problem));
  }
  if (Problem problem = CheckRoot(condition, "condition", ctx.Scalar(DType::kPred))) {
    return Wrong(std::move(problem));
  }
  if (Problem problem = CheckArguments(body, "body", op.operands)) return Wrong(std::move(problem));
  if (Problem problem = CheckRoot(body, "body", op.operands[0])) return Wrong(std::move(problem));
  return body->root()->shape()->bare();
}

ShapeResult InferConditional(Context&, const OpView& op) {
  if (op.operands.empty() || op.called.empty()) {
    return Wrong("conditional needs a selector and at least one branch");
  }
  const Shape* selector = op.operands[0];
  const bool is_pred = selector->IsScalar() && selector->dtype() == DType::kPred;
  const bool is_index = selector->IsScalar() && selector->dtype() == DType::kS32;
  if (!is_pred && !is_index) {
    return Wrong("the selector of conditional must be pred[] or s32[], found {}", Text(selector));
  }
  if (is_pred && op.called.size() != 2) {
    return Wrong("conditional on pred[] needs a true and a false branch, found {} branches",
                 op.called.size());
  }
  if (op.operands.size() != op.called.size() + 1) {
    return Wrong("conditional with {} branches needs one argument for each, found {}",
                 op.called.size(), op.operands.size() - 1);
  }
  const Shape* result = op.called[0]->root()->shape();
  for (size_t i = 0; i < op.called.size(); ++i) {
    if (Problem problem = CheckArguments(op.called[i], "branch", op.operands.subspan(i + 1, 1))) {
      return Wrong(std::move(problem));
    }
    if (Problem problem = CheckRoot(op.called[i], "branch", result)) {
      return Wrong(std::move(problem));
    }
  }
  return result->bare();
}

ShapeResult InferCall(Context&, const OpView& op) {
  if (Problem problem = CheckArguments(op.called[0], "computation", op.operands)) {
    return Wrong(std::move(problem));
  }
  return op.called[0]->root()->shape()->bare();
}

ShapeResult InferFusion(Context& ctx, const OpView& op) { return InferCall(ctx, op); }

namespace {

// (parts.., state..) with the state of the shape that the text gives.
ShapeResult WithDeclaredState(Context& ctx, const OpView& op, std::vector<const Shape*> parts) {
  if (op.declared == nullptr) return ctx.Tuple(parts);
  const Shape* declared = op.declared;
  if (!declared->IsTuple() || declared->elements().size() < 2) {
    return Wrong("{} returns ((operands..), result, state..), found {}", OpcodeName(op.opcode),
                 Text(declared));
  }
  for (int64_t i = 2; i < static_cast<int64_t>(declared->elements().size()); ++i) {
    parts.push_back(declared->element(i)->bare());
  }
  return ctx.Tuple(parts);
}

bool IsEmptyTuple(const Shape* shape) { return shape->IsTuple() && shape->elements().empty(); }

}  // namespace

// ((operands..), result, state..). TPUs start an operation before its operands are there: the start
// has none then, its result is (), and an async-update brings the operands.
ShapeResult InferAsyncStart(Context& ctx, const OpView& op) {
  if (op.operands.empty() && op.called[0]->parameter_count() > 0) {
    return WithDeclaredState(ctx, op, {ctx.Tuple({}), ctx.Tuple({})});
  }
  if (Problem problem = CheckArguments(op.called[0], "computation", op.operands)) {
    return Wrong(std::move(problem));
  }
  std::vector<const Shape*> arguments;
  for (const Shape* operand : op.operands) arguments.push_back(operand->bare());
  return WithDeclaredState(ctx, op, {ctx.Tuple(arguments), op.called[0]->root()->shape()->bare()});
}

namespace {

Problem CheckAsyncOperand(const OpView& op) {
  if (op.operands.empty()) return ProblemOf("{} needs an operand", OpcodeName(op.opcode));
  const Shape* x = op.operands[0];
  if (x->IsTuple() && x->elements().size() >= 2 && x->element(0)->IsTuple()) return std::nullopt;
  return ProblemOf(
      "{} takes the result of an async start, ((operands..), result, state..), found "
      "{}",
      OpcodeName(op.opcode), Text(x));
}

}  // namespace

// With operands of its own it brings those that the start did without; what the start calls is not
// seen here, so the result is as the text has it (the verifier compares it with the computation's).
ShapeResult InferAsyncUpdate(Context& ctx, const OpView& op) {
  if (Problem problem = CheckAsyncOperand(op)) return Wrong(std::move(problem));
  if (op.operands.size() == 1) return op.operands[0]->bare();
  if (!IsEmptyTuple(op.operands[0]->element(0)) || !IsEmptyTuple(op.operands[0]->element(1))) {
    return Wrong("async-update brings operands to a start that has its own, {}",
                 Text(op.operands[0]));
  }
  std::vector<const Shape*> arguments;
  for (const Shape* operand : op.operands.subspan(1)) arguments.push_back(operand->bare());
  const bool has_result =
      op.declared != nullptr && op.declared->IsTuple() && op.declared->elements().size() >= 2;
  return WithDeclaredState(
      ctx, op,
      {ctx.Tuple(arguments), has_result ? op.declared->element(1)->bare() : ctx.Tuple({})});
}

ShapeResult InferAsyncDone(Context&, const OpView& op) {
  if (Problem problem = CheckAsyncOperand(op)) return Wrong(std::move(problem));
  return op.operands[0]->element(1)->bare();
}

}  // namespace gshard
