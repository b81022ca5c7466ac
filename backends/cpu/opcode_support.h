// Who runs an opcode on the emulated mesh: one table that needs no kernels to be linked.
//
// gshard-opt prints it (list-ops) without the libraries behind the kernels; a unit test holds it
// against KernelFactoryOf.
#ifndef GSHARD_BACKENDS_CPU_OPCODE_SUPPORT_H_
#define GSHARD_BACKENDS_CPU_OPCODE_SUPPORT_H_

#include "ir/opcode.h"

namespace gshard::cpu {

enum class OpcodeSupport : uint8_t {
  kNone,
  kKernel,      // a kernel in ops/
  kPlan,        // resolved when planning: values that are there already, tuples, control flow
  kCollective,  // between devices
  kHost,        // files in the place of a host
};

// No default: the compiler reports an opcode that was forgotten.
constexpr OpcodeSupport SupportOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAbs:
    case Opcode::kNegate:
    case Opcode::kSign:
    case Opcode::kFloor:
    case Opcode::kCeil:
    case Opcode::kRoundNearestAfz:
    case Opcode::kRoundNearestEven:
    case Opcode::kNot:
    case Opcode::kPopcnt:
    case Opcode::kCountLeadingZeros:
    case Opcode::kIsFinite:
    case Opcode::kReal:
    case Opcode::kImag:
    case Opcode::kConvert:
    case Opcode::kBitcastConvert:
    case Opcode::kReducePrecision:
    case Opcode::kExponential:
    case Opcode::kExponentialMinusOne:
    case Opcode::kLog:
    case Opcode::kLogPlusOne:
    case Opcode::kLogistic:
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
    case Opcode::kCbrt:
    case Opcode::kSine:
    case Opcode::kCosine:
    case Opcode::kTan:
    case Opcode::kTanh:
    case Opcode::kSinh:
    case Opcode::kCosh:
    case Opcode::kAsin:
    case Opcode::kAcos:
    case Opcode::kAsinh:
    case Opcode::kAcosh:
    case Opcode::kAtanh:
    case Opcode::kErf:
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kMultiply:
    case Opcode::kMulhi:
    case Opcode::kDivide:
    case Opcode::kRemainder:
    case Opcode::kPower:
    case Opcode::kAtan2:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
    case Opcode::kShiftLeft:
    case Opcode::kShiftRightArithmetic:
    case Opcode::kShiftRightLogical:
    case Opcode::kComplex:
    case Opcode::kStochasticConvert:
    case Opcode::kCompare:
    case Opcode::kSelect:
    case Opcode::kClamp:
    case Opcode::kMap:
    case Opcode::kBroadcast:
    case Opcode::kCopy:
    case Opcode::kReshape:
    case Opcode::kDynamicReshape:
    case Opcode::kBitcast:
    case Opcode::kTranspose:
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kReverse:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kGetDimensionSize:
    case Opcode::kSetDimensionSize:
    case Opcode::kDot:
    case Opcode::kRaggedDot:
    case Opcode::kScaledDot:
    case Opcode::kConvolution:
    case Opcode::kReduce:
    case Opcode::kScan:
    case Opcode::kBatchNormTraining:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormGrad:
    case Opcode::kReduceWindow:
    case Opcode::kSelectAndScatter:
    case Opcode::kGather:
    case Opcode::kScatter:
    case Opcode::kSort:
    case Opcode::kTopK:
    case Opcode::kIota:
    case Opcode::kRng:
    case Opcode::kRngBitGenerator:
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve:
    case Opcode::kFft:
    case Opcode::kCustomCall:
      return OpcodeSupport::kKernel;
    case Opcode::kRngGetAndUpdateState:
    case Opcode::kParameter:
    case Opcode::kConstant:
    case Opcode::kPartitionId:
    case Opcode::kReplicaId:
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kCall:
    case Opcode::kFusion:
    case Opcode::kAsyncStart:
    case Opcode::kAsyncUpdate:
    case Opcode::kAsyncDone:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kOptBarrier:
    case Opcode::kAfterAll:
    case Opcode::kAddDependency:
    case Opcode::kDomain:
    case Opcode::kCopyStart:
    case Opcode::kCopyDone:
      return OpcodeSupport::kPlan;
    case Opcode::kAllReduce:
    case Opcode::kAllGather:
    case Opcode::kReduceScatter:
    case Opcode::kAllToAll:
    case Opcode::kRaggedAllToAll:
    case Opcode::kCollectivePermute:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kAllReduceStart:
    case Opcode::kAllReduceDone:
    case Opcode::kAllGatherStart:
    case Opcode::kAllGatherDone:
    case Opcode::kCollectivePermuteStart:
    case Opcode::kCollectivePermuteDone:
    case Opcode::kSend:
    case Opcode::kSendDone:
    case Opcode::kRecv:
    case Opcode::kRecvDone:
      return OpcodeSupport::kCollective;
    case Opcode::kInfeed:
    case Opcode::kOutfeed:
      return OpcodeSupport::kHost;
  }
  return OpcodeSupport::kNone;
}

constexpr const char* TextOf(OpcodeSupport support) {
  switch (support) {
    case OpcodeSupport::kNone:
      return "";
    case OpcodeSupport::kKernel:
      return "kernel";
    case OpcodeSupport::kPlan:
      return "plan";
    case OpcodeSupport::kCollective:
      return "collective";
    case OpcodeSupport::kHost:
      return "host";
  }
  return "";
}

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPCODE_SUPPORT_H_
