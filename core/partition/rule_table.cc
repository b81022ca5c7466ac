#include "core/partition/rule_table.h"

#include <array>

#include "core/partition/ops/rules.h"
#include "ir/opcode_rows.h"

namespace gshard {
namespace {

using namespace partition_rules;

struct Row {
  Opcode opcode;
  OpRule rule;
  bool is_default = false;
};

constexpr bool kDefault = true;

// clang-format off
constexpr Row kRows[] = {
    {Opcode::kConvert, Convert},
    {Opcode::kBitcastConvert, BitcastConvert},
    {Opcode::kMap, Pointwise},
    {Opcode::kBroadcast, Broadcast},
    {Opcode::kReshape, Reshape},
    {Opcode::kDynamicReshape, Whole, kDefault},
    {Opcode::kBitcast, Bitcast},
    {Opcode::kTranspose, Transpose},
    {Opcode::kSlice, Slice},
    {Opcode::kPad, Pad},
    {Opcode::kConcatenate, Concatenate},
    {Opcode::kReverse, Reverse},
    {Opcode::kDynamicSlice, DynamicSlice},
    {Opcode::kDynamicUpdateSlice, DynamicUpdateSlice},
    {Opcode::kGetDimensionSize, GetDimensionSize},
    {Opcode::kSetDimensionSize, Whole, kDefault},
    {Opcode::kDot, Dot},
    {Opcode::kRaggedDot, RaggedDot},
    {Opcode::kScaledDot, ScaledDot},
    {Opcode::kConvolution, Convolution},
    {Opcode::kReduce, Reduce},
    {Opcode::kScan, Scan},
    {Opcode::kBatchNormTraining, BatchNorm},
    {Opcode::kBatchNormInference, BatchNorm},
    {Opcode::kBatchNormGrad, BatchNorm},
    {Opcode::kReduceWindow, ReduceWindow},
    {Opcode::kSelectAndScatter, SelectAndScatter},
    {Opcode::kGather, Gather},
    {Opcode::kScatter, Scatter},
    {Opcode::kSort, Sort},
    {Opcode::kTopK, TopK},
    {Opcode::kParameter, Whole, kDefault},  // the driver makes parameters
    {Opcode::kConstant, Constant},
    {Opcode::kIota, Iota},
    {Opcode::kPartitionId, DeviceId},
    {Opcode::kReplicaId, DeviceId},
    {Opcode::kRng, Rng},
    {Opcode::kRngBitGenerator, RngBitGenerator},
    {Opcode::kRngGetAndUpdateState, Whole, kDefault},
    {Opcode::kCholesky, MatrixOnBatch},
    {Opcode::kTriangularSolve, MatrixOnBatch},
    {Opcode::kFft, Fft},
    {Opcode::kWhile, While},
    {Opcode::kConditional, Conditional},
    {Opcode::kCall, Call},
    {Opcode::kFusion, Whole, kDefault},
    {Opcode::kAsyncStart, AsyncStart},
    {Opcode::kAsyncUpdate, AsyncUpdate},
    {Opcode::kAsyncDone, AsyncDone},
    {Opcode::kTuple, Tuple},
    {Opcode::kGetTupleElement, GetTupleElement},
    {Opcode::kOptBarrier, OptBarrier},
    {Opcode::kAfterAll, AfterAll},
    {Opcode::kAddDependency, AddDependency},
    {Opcode::kDomain, Pointwise},
    {Opcode::kCopyStart, CopyStart},
    {Opcode::kCopyDone, CopyDone},
    {Opcode::kAllReduce, Collective},
    {Opcode::kAllGather, Collective},
    {Opcode::kReduceScatter, Collective},
    {Opcode::kAllToAll, Collective},
    {Opcode::kRaggedAllToAll, Collective},
    {Opcode::kCollectivePermute, Collective},
    {Opcode::kCollectiveBroadcast, Collective},
    {Opcode::kAllReduceStart, Collective},
    {Opcode::kAllReduceDone, Collective},
    {Opcode::kAllGatherStart, Collective},
    {Opcode::kAllGatherDone, Collective},
    {Opcode::kCollectivePermuteStart, Collective},
    {Opcode::kCollectivePermuteDone, Collective},
    {Opcode::kSend, HostTransfer},
    {Opcode::kSendDone, HostTransfer},
    {Opcode::kRecv, HostTransfer},
    {Opcode::kRecvDone, HostTransfer},
    {Opcode::kInfeed, HostTransfer},
    {Opcode::kOutfeed, HostTransfer},
    {Opcode::kCustomCall, CustomCall},
};
// clang-format on

// Elementwise opcodes are pointwise without a row.
static_assert(OneRowEach<FirstMiscounted(kRows, {0, 1})>::kHolds);

constexpr std::array<OpRuleEntry, kOpcodeCount> MakeTable() {
  std::array<OpRuleEntry, kOpcodeCount> table{};
  table.fill({Pointwise, false});
  for (const Row& row : kRows) table[static_cast<size_t>(row.opcode)] = {row.rule, row.is_default};
  return table;
}

constexpr std::array<OpRuleEntry, kOpcodeCount> kTable = MakeTable();

}  // namespace

const OpRuleEntry& RuleFor(Opcode opcode) { return kTable[static_cast<size_t>(opcode)]; }

}  // namespace gshard
