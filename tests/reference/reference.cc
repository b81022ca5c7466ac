// Computations, control flow and tuples of the reference evaluator; which family has an opcode.
#include "tests/reference/reference.h"

#include <map>
#include <string>

#include "tests/reference/families.h"

namespace gshard::cpu {
namespace {

ReferenceValue While(const Instruction& x, ReferenceValue state) {
  for (;;) {
    const ReferenceValue go_on = EvaluateReference(*x.called(0), std::span(&state, 1));
    if (go_on.data[0].i == 0) return state;
    state = EvaluateReference(*x.called(1), std::span(&state, 1));
  }
}

ReferenceValue Conditional(const Instruction& x, ReferenceOperands operands) {
  const ReferenceValue& selector = operands[0];
  const int64_t count = static_cast<int64_t>(x.called().size());
  int64_t branch = selector.data[0].i;
  if (selector.shape->dtype() == DType::kPred) branch = branch != 0 ? 0 : 1;
  if (branch < 0 || branch >= count) branch = count - 1;
  return EvaluateReference(*x.called(branch), operands.subspan(static_cast<size_t>(branch) + 1, 1));
}

void AppendLeaves(const ReferenceValue& value, std::vector<Number>& leaves) {
  leaves.insert(leaves.end(), value.data.begin(), value.data.end());
  for (const ReferenceValue& element : value.elements) AppendLeaves(element, leaves);
}

}  // namespace

std::vector<Number> CallScalars(const Computation& computation, std::span<const Number> arguments) {
  std::vector<ReferenceValue> values;
  for (size_t k = 0; k < arguments.size(); ++k) {
    values.push_back({computation.parameter(static_cast<int64_t>(k))->shape(), {arguments[k]}, {}});
  }
  std::vector<Number> leaves;
  AppendLeaves(EvaluateReference(computation, values), leaves);
  return leaves;
}

ReferenceValue EvaluateReference(const Computation& computation,
                                 std::span<const ReferenceValue> arguments) {
  std::map<const Instruction*, ReferenceValue> values;
  for (const Instruction* x : computation.instructions()) {
    if (x->opcode() == Opcode::kParameter) {
      values[x] = arguments[static_cast<size_t>(x->attributes<ParameterAttributes>().number)];
      continue;
    }
    std::vector<ReferenceValue> operands;
    for (const Instruction* operand : x->operands()) operands.push_back(values.at(operand));
    values[x] = EvaluateReference(*x, operands);
  }
  return values.at(computation.root());
}

ReferenceValue EvaluateReference(const Instruction& x, std::span<const ReferenceValue> operands) {
  switch (x.opcode()) {
    case Opcode::kConstant: {
      ReferenceValue value = FromLiteral(*x.attributes<ConstantAttributes>().literal);
      value.shape = x.shape();
      return value;
    }
    case Opcode::kTuple: {
      ReferenceValue tuple;
      tuple.shape = x.shape();
      tuple.elements.assign(operands.begin(), operands.end());
      return tuple;
    }
    case Opcode::kGetTupleElement:
      return operands[0]
          .elements[static_cast<size_t>(x.attributes<GetTupleElementAttributes>().index)];
    case Opcode::kOptBarrier:
    case Opcode::kAddDependency:
    case Opcode::kDomain:
      return operands[0];
    case Opcode::kAfterAll:
      return Zeros(x.shape());
    case Opcode::kPartitionId:
    case Opcode::kReplicaId:
      return Zeros(x.shape());
    case Opcode::kCall:
    case Opcode::kFusion:
      return EvaluateReference(*x.called(0), operands);
    case Opcode::kWhile:
      return While(x, operands[0]);
    case Opcode::kConditional:
      return Conditional(x, operands);
    case Opcode::kBitcastConvert:
    case Opcode::kBitcast:
    case Opcode::kReshape:
    case Opcode::kDynamicReshape:
    case Opcode::kBroadcast:
    case Opcode::kTranspose:
    case Opcode::kReverse:
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kGetDimensionSize:
    case Opcode::kIota:
      return MovementReference(x, operands);
    case Opcode::kDot:
    case Opcode::kRaggedDot:
    case Opcode::kScaledDot:
      return DotReference(x, operands);
    case Opcode::kConvolution:
      return ConvolutionReference(x, operands);
    case Opcode::kReduce:
    case Opcode::kScan:
      return ReduceReference(x, operands);
    case Opcode::kReduceWindow:
    case Opcode::kSelectAndScatter:
      return WindowReference(x, operands);
    case Opcode::kGather:
    case Opcode::kScatter:
      return IndexingReference(x, operands);
    case Opcode::kSort:
    case Opcode::kTopK:
      return SortReference(x, operands);
    case Opcode::kBatchNormTraining:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormGrad:
      return BatchNormReference(x, operands);
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve:
      return LinalgReference(x, operands);
    case Opcode::kFft:
      return FftReference(x, operands);
    case Opcode::kCustomCall:
      if (x.attributes<CustomCallAttributes>().target == "TopK") return SortReference(x, operands);
      return operands[0];
    case Opcode::kMap:
      return ElementwiseReference(x, operands);
    default:
      if (IsElementwise(x.opcode())) return ElementwiseReference(x, operands);
      throw InternalError(std::string(OpcodeName(x.opcode())) +
                          " is unknown to the reference evaluator");
  }
}

}  // namespace gshard::cpu
