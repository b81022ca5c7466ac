// The table opcode -> kernel factory. The switch has no default: the compiler reports an opcode
// that was forgotten.
#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {
KernelFactory KernelFactoryOf(Opcode opcode) {
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
    case Opcode::kMap: return &MakeElementwise;
    case Opcode::kBroadcast: return &MakeBroadcast;
    case Opcode::kCopy:
    case Opcode::kReshape:
    case Opcode::kDynamicReshape:
    case Opcode::kBitcast: return &MakeReshape;
    case Opcode::kTranspose: return &MakeTranspose;
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kReverse:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kGetDimensionSize:
    case Opcode::kSetDimensionSize: return &MakeSlice;
    case Opcode::kDot:
    case Opcode::kRaggedDot:
    case Opcode::kScaledDot: return &MakeDot;
    case Opcode::kConvolution: return &MakeConvolution;
    case Opcode::kReduce: return &MakeReduce;
    case Opcode::kScan: return &MakeScan;
    case Opcode::kBatchNormTraining:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormGrad: return &MakeBatchNorm;
    case Opcode::kReduceWindow:
    case Opcode::kSelectAndScatter: return &MakeReduceWindow;
    case Opcode::kGather:
    case Opcode::kScatter: return &MakeGatherScatter;
    case Opcode::kSort:
    case Opcode::kTopK: return &MakeSort;
    case Opcode::kIota: return &MakeIota;
    case Opcode::kRng:
    case Opcode::kRngBitGenerator: return &MakeRng;
    case Opcode::kCholesky:
    case Opcode::kTriangularSolve: return &MakeLinalg;
    case Opcode::kFft: return &MakeFft;
    case Opcode::kCustomCall: return &MakeCustomCall;
    // The executor's own: values that exist before the run, the state of random numbers, control
    // flow, tuples, communication.
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
    case Opcode::kInfeed:
    case Opcode::kOutfeed: return nullptr;
  }
  throw InternalError("opcode out of range");
}

}  // namespace gshard::cpu
