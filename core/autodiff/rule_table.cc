// The one table opcode -> reverse rule. A forgotten or doubled opcode does not compile.
#include <array>

#include "core/autodiff/rules.h"
#include "ir/opcode_rows.h"

namespace gshard {
namespace {

struct Row {
  Opcode opcode;
  GradRule rule;
};

constexpr GradRule Rule(GradFunction function) { return {GradKind::kRule, function}; }
constexpr GradRule kZeroRule = {GradKind::kZero, nullptr};
constexpr GradRule kNoRule = {GradKind::kNone, nullptr};

// An elementwise opcode with a rule has a line in ops/elementwise.cc, too: a test asks for each.
constexpr Row kRows[] = {
    {Opcode::kFloor, kZeroRule},
    {Opcode::kCeil, kZeroRule},
    {Opcode::kRoundNearestAfz, kZeroRule},
    {Opcode::kRoundNearestEven, kZeroRule},
    {Opcode::kNot, kZeroRule},
    {Opcode::kPopcnt, kZeroRule},
    {Opcode::kCountLeadingZeros, kZeroRule},
    {Opcode::kIsFinite, kZeroRule},
    {Opcode::kBitcastConvert, kZeroRule},
    {Opcode::kMulhi, kZeroRule},
    {Opcode::kAnd, kZeroRule},
    {Opcode::kOr, kZeroRule},
    {Opcode::kXor, kZeroRule},
    {Opcode::kShiftLeft, kZeroRule},
    {Opcode::kShiftRightArithmetic, kZeroRule},
    {Opcode::kShiftRightLogical, kZeroRule},
    {Opcode::kCompare, kZeroRule},
    {Opcode::kAbs, Rule(GradElementwise)},
    {Opcode::kNegate, Rule(GradElementwise)},
    {Opcode::kSign, Rule(GradElementwise)},
    {Opcode::kReal, Rule(GradElementwise)},
    {Opcode::kImag, Rule(GradElementwise)},
    {Opcode::kCopy, Rule(GradElementwise)},
    {Opcode::kConvert, Rule(GradElementwise)},
    {Opcode::kReducePrecision, Rule(GradElementwise)},
    {Opcode::kExponential, Rule(GradElementwise)},
    {Opcode::kExponentialMinusOne, Rule(GradElementwise)},
    {Opcode::kLog, Rule(GradElementwise)},
    {Opcode::kLogPlusOne, Rule(GradElementwise)},
    {Opcode::kLogistic, Rule(GradElementwise)},
    {Opcode::kSqrt, Rule(GradElementwise)},
    {Opcode::kRsqrt, Rule(GradElementwise)},
    {Opcode::kCbrt, Rule(GradElementwise)},
    {Opcode::kSine, Rule(GradElementwise)},
    {Opcode::kCosine, Rule(GradElementwise)},
    {Opcode::kTan, Rule(GradElementwise)},
    {Opcode::kTanh, Rule(GradElementwise)},
    {Opcode::kSinh, Rule(GradElementwise)},
    {Opcode::kCosh, Rule(GradElementwise)},
    {Opcode::kAsin, Rule(GradElementwise)},
    {Opcode::kAcos, Rule(GradElementwise)},
    {Opcode::kAsinh, Rule(GradElementwise)},
    {Opcode::kAcosh, Rule(GradElementwise)},
    {Opcode::kAtanh, Rule(GradElementwise)},
    {Opcode::kErf, Rule(GradElementwise)},
    {Opcode::kAdd, Rule(GradElementwise)},
    {Opcode::kSubtract, Rule(GradElementwise)},
    {Opcode::kMultiply, Rule(GradElementwise)},
    {Opcode::kDivide, Rule(GradElementwise)},
    {Opcode::kRemainder, Rule(GradElementwise)},
    {Opcode::kPower, Rule(GradElementwise)},
    {Opcode::kAtan2, Rule(GradElementwise)},
    {Opcode::kMaximum, Rule(GradElementwise)},
    {Opcode::kMinimum, Rule(GradElementwise)},
    {Opcode::kComplex, Rule(GradElementwise)},
    {Opcode::kStochasticConvert, Rule(GradElementwise)},
    {Opcode::kSelect, Rule(GradElementwise)},
    {Opcode::kClamp, Rule(GradElementwise)},
    {Opcode::kMap, Rule(GradMap)},
    {Opcode::kBroadcast, Rule(GradBroadcast)},
    {Opcode::kReshape, Rule(GradReshape)},
    {Opcode::kDynamicReshape, Rule(GradReshape)},
    {Opcode::kBitcast, Rule(GradBitcast)},
    {Opcode::kTranspose, Rule(GradTranspose)},
    {Opcode::kSlice, Rule(GradSlice)},
    {Opcode::kPad, Rule(GradPad)},
    {Opcode::kConcatenate, Rule(GradConcatenate)},
    {Opcode::kReverse, Rule(GradReverse)},
    {Opcode::kDynamicSlice, Rule(GradDynamicSlice)},
    {Opcode::kDynamicUpdateSlice, Rule(GradDynamicUpdateSlice)},
    {Opcode::kGetDimensionSize, kZeroRule},
    {Opcode::kSetDimensionSize, Rule(GradSetDimensionSize)},
    {Opcode::kDot, Rule(GradDot)},
    {Opcode::kRaggedDot, Rule(GradRaggedDot)},
    {Opcode::kScaledDot, Rule(GradScaledDot)},
    {Opcode::kConvolution, Rule(GradConvolution)},
    {Opcode::kReduce, Rule(GradReduce)},
    {Opcode::kScan, Rule(GradScan)},
    {Opcode::kBatchNormTraining, Rule(GradBatchNormTraining)},
    {Opcode::kBatchNormInference, Rule(GradBatchNormInference)},
    {Opcode::kBatchNormGrad, Rule(GradBatchNormGrad)},
    {Opcode::kReduceWindow, Rule(GradReduceWindow)},
    {Opcode::kSelectAndScatter, Rule(GradSelectAndScatter)},
    {Opcode::kGather, Rule(GradGather)},
    {Opcode::kScatter, Rule(GradScatter)},
    {Opcode::kSort, Rule(GradSort)},
    {Opcode::kTopK, Rule(GradTopK)},
    {Opcode::kParameter, kZeroRule},
    {Opcode::kConstant, kZeroRule},
    {Opcode::kIota, kZeroRule},
    {Opcode::kPartitionId, kZeroRule},
    {Opcode::kReplicaId, kZeroRule},
    {Opcode::kRng, kZeroRule},
    {Opcode::kRngBitGenerator, kZeroRule},
    {Opcode::kRngGetAndUpdateState, kZeroRule},
    {Opcode::kCholesky, Rule(GradCholesky)},
    {Opcode::kTriangularSolve, Rule(GradTriangularSolve)},
    {Opcode::kFft, Rule(GradFft)},
    {Opcode::kWhile, Rule(GradWhile)},
    {Opcode::kConditional, Rule(GradConditional)},
    {Opcode::kCall, Rule(GradCall)},
    {Opcode::kFusion, Rule(GradCall)},
    {Opcode::kTuple, Rule(GradTuple)},
    {Opcode::kGetTupleElement, Rule(GradGetTupleElement)},
    {Opcode::kOptBarrier, Rule(GradFirstOperand)},
    {Opcode::kAfterAll, kZeroRule},
    {Opcode::kAddDependency, Rule(GradFirstOperand)},
    {Opcode::kDomain, Rule(GradFirstOperand)},
    // Adjoints go from the end of an asynchronous pair to the operands of its beginning.
    {Opcode::kAsyncStart, Rule(GradFirstOperand)},
    {Opcode::kAsyncUpdate, Rule(GradFirstOperand)},
    {Opcode::kAsyncDone, Rule(GradAsyncDone)},
    {Opcode::kCopyStart, Rule(GradFirstOperand)},
    {Opcode::kCopyDone, Rule(GradCopyDone)},
    {Opcode::kAllReduce, Rule(GradAllReduce)},
    {Opcode::kAllGather, Rule(GradAllGather)},
    {Opcode::kReduceScatter, Rule(GradReduceScatter)},
    {Opcode::kAllToAll, Rule(GradAllToAll)},
    {Opcode::kRaggedAllToAll, Rule(GradRaggedAllToAll)},
    {Opcode::kCollectivePermute, Rule(GradCollectivePermute)},
    {Opcode::kCollectiveBroadcast, Rule(GradCollectiveBroadcast)},
    {Opcode::kAllReduceStart, Rule(GradFirstOperand)},
    {Opcode::kAllReduceDone, Rule(GradCollectiveDone)},
    {Opcode::kAllGatherStart, Rule(GradFirstOperand)},
    {Opcode::kAllGatherDone, Rule(GradCollectiveDone)},
    {Opcode::kCollectivePermuteStart, Rule(GradFirstOperand)},
    {Opcode::kCollectivePermuteDone, Rule(GradCollectiveDone)},
    {Opcode::kSend, kNoRule},
    {Opcode::kSendDone, kNoRule},
    {Opcode::kRecv, kNoRule},
    {Opcode::kRecvDone, kNoRule},
    {Opcode::kInfeed, kZeroRule},
    {Opcode::kOutfeed, kZeroRule},
    {Opcode::kCustomCall, Rule(GradCustomCall)},
};

static_assert(OneRowEach<FirstMiscounted(kRows, {1, 1})>::kHolds);

constexpr std::array<GradRule, kOpcodeCount> BuildTable() {
  std::array<GradRule, kOpcodeCount> table{};
  for (const Row& row : kRows) table[static_cast<size_t>(row.opcode)] = row.rule;
  return table;
}

constinit const std::array<GradRule, kOpcodeCount> kTable = BuildTable();

}  // namespace

const GradRule& GradRuleFor(Opcode opcode) { return kTable[static_cast<size_t>(opcode)]; }

const char* TextOf(GradKind kind) {
  switch (kind) {
    case GradKind::kRule:
      return "rule";
    case GradKind::kZero:
      return "zero";
    default:
      return "none";
  }
}

}  // namespace gshard
