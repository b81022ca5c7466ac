// The one table opcode -> reverse rule. A forgotten or doubled opcode does not compile.
#include <array>

#include "core/autodiff/rules.h"

namespace gshard {
namespace {

struct Row {
  Opcode opcode;
  GradRule rule;
};

constexpr GradRule Rule(GradFunction function) { return {GradKind::kRule, function}; }
constexpr GradRule kZeroRule = {GradKind::kZero, nullptr};
constexpr GradRule kNoRule = {GradKind::kNone, nullptr};

// Elementwise opcodes need a row only where their derivative is zero.
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

struct OpcodeFlags {
  Opcode opcode;
  uint32_t flags;
};
constexpr OpcodeFlags kOpcodes[] = {
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, flags, shape, types) \
  {Opcode::enumerator, flags},
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
};

constexpr bool EveryOpcodeHasOneRule() {
  for (const OpcodeFlags& o : kOpcodes) {
    int rows = 0;
    for (const Row& row : kRows) rows += row.opcode == o.opcode ? 1 : 0;
    const bool may_have_none = (o.flags & kElementwise) != 0;
    if (rows > 1 || (rows == 0 && !may_have_none)) return false;
  }
  return true;
}
static_assert(EveryOpcodeHasOneRule(), "each opcode needs exactly one reverse rule");

constexpr std::array<GradRule, kOpcodeCount> BuildTable() {
  std::array<GradRule, kOpcodeCount> table{};
  table.fill(Rule(GradElementwise));
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
