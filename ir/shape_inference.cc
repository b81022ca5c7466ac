#include "ir/shape_inference.h"

#include <array>

#include "ir/ops/shape_rules.h"

namespace gshard {

namespace {

struct ShapeRuleRow {
  ShapeRule rule = nullptr;
  int8_t called = 0;  // number of called computations; kVariadic: the rule looks
  bool inferable = false;
  bool present = false;  // not rule != nullptr: sanitizers make that no constant
};

constexpr bool kDeclared = false;  // the text must give the shape
constexpr bool kInferable = true;

// One row per opcode; Rows() fails to compile if one is missing.
constexpr std::array<ShapeRuleRow, kOpcodeCount> Rows() {
  std::array<ShapeRuleRow, kOpcodeCount> rows{};
  auto set = [&rows](Opcode opcode, ShapeRule rule, bool inferable, int called = 0) {
    rows[static_cast<size_t>(opcode)] = {rule, static_cast<int8_t>(called), inferable, true};
  };
  for (Opcode opcode : {Opcode::kAbs,
                        Opcode::kNegate,
                        Opcode::kSign,
                        Opcode::kFloor,
                        Opcode::kCeil,
                        Opcode::kRoundNearestAfz,
                        Opcode::kNot,
                        Opcode::kRoundNearestEven,
                        Opcode::kPopcnt,
                        Opcode::kIsFinite,
                        Opcode::kCountLeadingZeros,
                        Opcode::kReal,
                        Opcode::kImag,
                        Opcode::kExponential,
                        Opcode::kExponentialMinusOne,
                        Opcode::kLog,
                        Opcode::kLogPlusOne,
                        Opcode::kLogistic,
                        Opcode::kSqrt,
                        Opcode::kRsqrt,
                        Opcode::kCbrt,
                        Opcode::kSine,
                        Opcode::kCosine,
                        Opcode::kTan,
                        Opcode::kTanh,
                        Opcode::kSinh,
                        Opcode::kCosh,
                        Opcode::kAsin,
                        Opcode::kAcos,
                        Opcode::kAsinh,
                        Opcode::kAcosh,
                        Opcode::kAtanh,
                        Opcode::kErf}) {
    set(opcode, InferUnary, kInferable);
  }
  for (Opcode opcode :
       {Opcode::kAdd, Opcode::kSubtract, Opcode::kMultiply, Opcode::kMulhi, Opcode::kDivide,
        Opcode::kRemainder, Opcode::kPower, Opcode::kAtan2, Opcode::kMaximum, Opcode::kMinimum,
        Opcode::kAnd, Opcode::kOr, Opcode::kXor, Opcode::kShiftLeft, Opcode::kShiftRightArithmetic,
        Opcode::kShiftRightLogical}) {
    set(opcode, InferBinary, kInferable);
  }
  set(Opcode::kCopy, InferCopy, kInferable);
  set(Opcode::kConvert, InferConvert, kDeclared);
  set(Opcode::kBitcastConvert, InferBitcastConvert, kDeclared);
  set(Opcode::kReducePrecision, InferReducePrecision, kDeclared);
  set(Opcode::kComplex, InferComplex, kInferable);
  set(Opcode::kStochasticConvert, InferStochasticConvert, kDeclared);
  set(Opcode::kCompare, InferCompare, kInferable);
  set(Opcode::kSelect, InferSelect, kInferable);
  set(Opcode::kClamp, InferClamp, kInferable);
  set(Opcode::kMap, InferMap, kInferable, 1);

  set(Opcode::kBroadcast, InferBroadcast, kDeclared);
  set(Opcode::kReshape, InferReshape, kDeclared);
  set(Opcode::kDynamicReshape, InferDynamicReshape, kDeclared);
  set(Opcode::kBitcast, InferBitcast, kDeclared);
  set(Opcode::kTranspose, InferTranspose, kInferable);

  set(Opcode::kSlice, InferSlice, kDeclared);
  set(Opcode::kPad, InferPad, kInferable);
  set(Opcode::kConcatenate, InferConcatenate, kInferable);
  set(Opcode::kReverse, InferReverse, kInferable);
  set(Opcode::kDynamicSlice, InferDynamicSlice, kDeclared);
  set(Opcode::kDynamicUpdateSlice, InferDynamicUpdateSlice, kDeclared);
  set(Opcode::kGetDimensionSize, InferGetDimensionSize, kInferable);
  set(Opcode::kSetDimensionSize, InferSetDimensionSize, kInferable);

  set(Opcode::kDot, InferDot, kInferable);
  set(Opcode::kRaggedDot, InferRaggedDot, kInferable);
  set(Opcode::kScaledDot, InferScaledDot, kInferable);
  set(Opcode::kConvolution, InferConvolution, kInferable);

  set(Opcode::kReduce, InferReduce, kInferable, 1);
  set(Opcode::kScan, InferScan, kInferable, 1);
  set(Opcode::kBatchNormTraining, InferBatchNormTraining, kInferable);
  set(Opcode::kBatchNormInference, InferBatchNormInference, kInferable);
  set(Opcode::kBatchNormGrad, InferBatchNormGrad, kInferable);
  set(Opcode::kReduceWindow, InferReduceWindow, kInferable, 1);
  set(Opcode::kSelectAndScatter, InferSelectAndScatter, kInferable, 2);

  set(Opcode::kGather, InferGather, kInferable);
  set(Opcode::kScatter, InferScatter, kInferable, 1);
  set(Opcode::kSort, InferSort, kInferable, 1);
  set(Opcode::kTopK, InferTopK, kInferable);

  set(Opcode::kParameter, InferParameter, kDeclared);
  set(Opcode::kConstant, InferConstant, kDeclared);
  set(Opcode::kIota, InferIota, kDeclared);
  set(Opcode::kPartitionId, InferDeviceId, kInferable);
  set(Opcode::kReplicaId, InferDeviceId, kInferable);
  set(Opcode::kRng, InferRng, kDeclared);
  set(Opcode::kRngBitGenerator, InferRngBitGenerator, kDeclared);
  set(Opcode::kRngGetAndUpdateState, InferRngState, kDeclared);

  set(Opcode::kCholesky, InferCholesky, kInferable);
  set(Opcode::kTriangularSolve, InferTriangularSolve, kInferable);
  set(Opcode::kFft, InferFft, kInferable);

  set(Opcode::kWhile, InferWhile, kInferable, 2);
  set(Opcode::kConditional, InferConditional, kInferable, kVariadic);
  set(Opcode::kCall, InferCall, kInferable, 1);
  set(Opcode::kFusion, InferFusion, kDeclared, 1);
  set(Opcode::kAsyncStart, InferAsyncStart, kDeclared, 1);
  set(Opcode::kAsyncUpdate, InferAsyncUpdate, kDeclared);
  set(Opcode::kAsyncDone, InferAsyncDone, kDeclared);

  set(Opcode::kTuple, InferTuple, kInferable);
  set(Opcode::kGetTupleElement, InferGetTupleElement, kInferable);
  set(Opcode::kOptBarrier, InferSameAsOperand, kInferable);
  set(Opcode::kAfterAll, InferAfterAll, kInferable);
  set(Opcode::kAddDependency, InferAddDependency, kInferable);
  set(Opcode::kDomain, InferSameAsOperand, kInferable);
  set(Opcode::kCopyStart, InferCopyStart, kDeclared);
  set(Opcode::kCopyDone, InferCopyDone, kDeclared);

  set(Opcode::kAllReduce, InferAllReduce, kDeclared, 1);
  set(Opcode::kAllGather, InferAllGather, kDeclared);
  set(Opcode::kReduceScatter, InferReduceScatter, kDeclared, 1);
  set(Opcode::kAllToAll, InferAllToAll, kDeclared);
  set(Opcode::kRaggedAllToAll, InferRaggedAllToAll, kDeclared);
  set(Opcode::kCollectivePermute, InferCollectivePermute, kDeclared);
  set(Opcode::kCollectiveBroadcast, InferCollectiveBroadcast, kDeclared);
  set(Opcode::kAllReduceStart, InferAllReduce, kDeclared, 1);
  set(Opcode::kAllReduceDone, InferSameAsOperand, kDeclared);
  set(Opcode::kAllGatherStart, InferAllGatherStart, kDeclared);
  set(Opcode::kAllGatherDone, InferPairDone, kDeclared);
  set(Opcode::kCollectivePermuteStart, InferCollectivePermuteStart, kDeclared);
  set(Opcode::kCollectivePermuteDone, InferPairDone, kDeclared);
  set(Opcode::kSend, InferSend, kDeclared);
  set(Opcode::kSendDone, InferSendDone, kDeclared);
  set(Opcode::kRecv, InferRecv, kDeclared);
  set(Opcode::kRecvDone, InferRecvDone, kDeclared);
  set(Opcode::kInfeed, InferInfeed, kDeclared);
  set(Opcode::kOutfeed, InferOutfeed, kDeclared);

  set(Opcode::kCustomCall, InferCustomCall, kDeclared, kVariadic);
  return rows;
}

constexpr bool Complete(const std::array<ShapeRuleRow, kOpcodeCount>& rows) {
  for (const ShapeRuleRow& row : rows) {
    if (!row.present) return false;
  }
  return true;
}

constexpr std::array<ShapeRuleRow, kOpcodeCount> kShapeRules = Rows();
static_assert(Complete(kShapeRules), "an opcode of ir/opcodes.def has no shape rule");

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
  if (info.arity != kVariadic && op.operands.size() != static_cast<size_t>(info.arity)) {
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
