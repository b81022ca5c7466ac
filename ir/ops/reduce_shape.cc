// Reductions along whole dims: reduce, scan, batch norm.
#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferReduce(Context& ctx, const OpView& op) {
  if (Problem problem = CheckInputsAndInits(op)) return Wrong(std::move(problem));
  const Shape* x = op.operands[0];
  Dims dimensions = op.as<DimensionsAttributes>().dimensions;
  if (Problem problem = CheckDimList("dimensions", dimensions, x->rank())) {
    return Wrong(std::move(problem));
  }
  TypeList types;
  if (Problem problem = CheckReducer(op.called[0], "computation",
                                     op.operands.first(op.operands.size() / 2), types.list)) {
    return Wrong(std::move(problem));
  }
  ResultDims dims;
  for (int64_t i = 0; i < x->rank(); ++i) {
    if (!Contains(dimensions, i)) dims.AppendDim(x, i);
  }
  return PerType(ctx, dims, types.list);
}

// Operands are inputs then initial carries; the body maps (elements.., carries..) to (outputs..,
// carries..), elements and outputs lacking the scanned dim. The result is the root's with that dim
// put back into the outputs.
ShapeResult InferScan(Context& ctx, const OpView& op) {
  const auto& scan = op.as<ScanAttributes>();
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  const size_t count = op.operands.size();
  if (scan.num_carries < 0 || static_cast<size_t>(scan.num_carries) > count) {
    return Wrong("scan has {} operands, num_carries must not exceed them, found {}", count,
                 scan.num_carries);
  }
  const size_t carries = static_cast<size_t>(scan.num_carries);
  const size_t inputs = count - carries;
  if (inputs == 0) return Wrong("scan needs at least one input besides its carries");
  const Computation* body = op.called[0];
  if (Problem problem = CheckParameterCount(body, "computation", count)) {
    return Wrong(std::move(problem));
  }
  if (Problem problem = CheckDimIndex("dimensions", scan.dimension, op.operands[0]->rank())) {
    return Wrong(std::move(problem));
  }
  const int64_t length = op.operands[0]->dim(scan.dimension);
  const bool dynamic = op.operands[0]->IsDynamic(scan.dimension);
  for (size_t i = 0; i < inputs; ++i) {
    const Shape* input = op.operands[i];
    if (input->rank() <= scan.dimension || !SizesAgree(input->dim(scan.dimension), length)) {
      return Wrong("inputs of scan must have {} elements along dim {}, found {}", length,
                   scan.dimension, Text(input));
    }
    ResultDims element;
    for (int64_t d = 0; d < input->rank(); ++d) {
      if (d != scan.dimension) element.AppendDim(input, d);
    }
    if (Problem problem =
            CheckParameter(body, "computation", i, element.Make(ctx, input->dtype()))) {
      return Wrong(std::move(problem));
    }
  }
  for (size_t i = 0; i < carries; ++i) {
    if (Problem problem =
            CheckParameter(body, "computation", inputs + i, op.operands[inputs + i])) {
      return Wrong(std::move(problem));
    }
  }
  const Shape* root = body->root()->shape();
  std::span<const Shape* const> results(&root, 1);
  if (root->IsTuple()) results = root->elements();
  if (results.size() < carries) {
    return Wrong("computation {} of scan must return its {} carries last, found {}", body->name(),
                 carries, Text(root));
  }
  std::vector<const Shape*> shapes;
  const size_t outputs = results.size() - carries;
  for (size_t i = 0; i < results.size(); ++i) {
    const Shape* result = results[i];
    if (i >= outputs) {
      const Shape* carry = op.operands[inputs + i - outputs];
      if (!SameUpToDynamic(result, carry)) {
        return Wrong("carry {} of scan starts as {}, computation {} returns {}", i - outputs,
                     Text(carry), body->name(), Text(result));
      }
      shapes.push_back(result->bare());
      continue;
    }
    if (!result->IsArray() || result->rank() < scan.dimension) {
      return Wrong("output {} of scan has no dim {}: computation {} returns {}", i, scan.dimension,
                   body->name(), Text(result));
    }
    ResultDims dims;
    for (int64_t d = 0; d <= result->rank(); ++d) {
      if (d == scan.dimension) dims.Append(length, dynamic);
      if (d < result->rank()) dims.AppendDim(result, d);
    }
    shapes.push_back(dims.Make(ctx, result->dtype()));
  }
  return root->IsTuple() ? ctx.Tuple(shapes) : shapes[0];
}

namespace {

// Operands from 1 on are vectors over the feature dim; the last may be a full gradient instead.
Problem CheckBatchNorm(const OpView& op, bool last_is_full) {
  const Shape* x = op.operands[0];
  const int64_t feature = op.as<BatchNormAttributes>().feature_index;
  if (Problem problem = CheckArrays(op)) return problem;
  if (!IsFloat(x->dtype())) {
    return ProblemOf("{} takes floats, found {}", OpcodeName(op.opcode), Text(x));
  }
  if (Problem problem = CheckDimIndex("feature_index", feature, x->rank())) return problem;
  for (size_t i = 1; i < op.operands.size(); ++i) {
    const Shape* operand = op.operands[i];
    if (last_is_full && i + 1 == op.operands.size()) {
      if (DimsAgree(x, operand) && CommonType(x->dtype(), operand->dtype())) continue;
      return ProblemOf("operand {} of {} must be {}, found {}", i, OpcodeName(op.opcode), Text(x),
                       Text(operand));
    }
    if (operand->rank() != 1 || !SizesAgree(operand->dim(0), x->dim(feature)) ||
        !IsFloat(operand->dtype())) {
      return ProblemOf("operand {} of {} must be a vector over the {} features of {}, found {}", i,
                       OpcodeName(op.opcode), x->dim(feature), Text(x), Text(operand));
    }
  }
  return std::nullopt;
}

const Shape* WithFeatureVectors(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0]->bare();
  const Shape* vector = ctx.WithDType(op.operands[1]->bare(), x->dtype());
  const Shape* elements[] = {x, vector, vector};
  return ctx.Tuple(elements);
}

}  // namespace

ShapeResult InferBatchNormTraining(Context& ctx, const OpView& op) {
  if (Problem problem = CheckBatchNorm(op, false)) return Wrong(std::move(problem));
  return WithFeatureVectors(ctx, op);
}

ShapeResult InferBatchNormInference(Context&, const OpView& op) {
  if (Problem problem = CheckBatchNorm(op, false)) return Wrong(std::move(problem));
  return op.operands[0]->bare();
}

ShapeResult InferBatchNormGrad(Context& ctx, const OpView& op) {
  if (Problem problem = CheckBatchNorm(op, true)) return Wrong(std::move(problem));
  return WithFeatureVectors(ctx, op);
}

}  // namespace gshard
