// The one table opcode -> rules. A forgotten or doubled opcode does not compile.
#include <array>

#include "core/propagation/custom_call_rule.h"
#include "core/propagation/rules.h"
#include "ir/opcode_rows.h"

namespace gshard {
namespace {

struct Row {
  Opcode opcode;
  Rule rule;
};

// Elementwise opcodes need no row: opcodes.def says which they are.
constexpr Rule kElementwiseRule = {ElementwiseForward, SameDimsBackward, ElementwiseSupported};
// Takes nothing but replication, manual regions and annotations; passes on what it has.
constexpr Rule kNoRule = {NothingForward, SameDimsBackward, Never};
// The same, but that its relation of dims may be followed where no compiler is asked about.
constexpr Rule kRelationOnly = {NothingForward, SameDimsBackward, Never, /*has_relation=*/true};

constexpr Row kRows[] = {
    {Opcode::kMap, kElementwiseRule},
    {Opcode::kBroadcast, {BroadcastForward, BroadcastBackward, Always}},
    {Opcode::kReshape, {ReshapeForward, ReshapeBackward, Always}},
    {Opcode::kDynamicReshape, kNoRule},
    {Opcode::kBitcast, kNoRule},
    {Opcode::kTranspose, {TransposeForward, TransposeBackward, Always}},
    {Opcode::kSlice, {FirstOperandForward, SliceBackward, Always}},
    {Opcode::kPad, {FirstOperandForward, PadBackward, Always}},
    {Opcode::kConcatenate, {ConcatenateForward, ConcatenateBackward, Always}},
    {Opcode::kReverse, {ReverseForward, ReverseBackward, Always}},
    {Opcode::kDynamicSlice, {DynamicSliceForward, DynamicSliceBackward, Always}},
    {Opcode::kDynamicUpdateSlice, {DynamicUpdateSliceForward, DynamicUpdateSliceBackward, Always}},
    {Opcode::kGetDimensionSize, kNoRule},
    {Opcode::kSetDimensionSize, kNoRule},
    {Opcode::kDot, {DotLikeForward, DotLikeBackward, Always}},
    {Opcode::kRaggedDot, kNoRule},
    {Opcode::kScaledDot, kRelationOnly},
    {Opcode::kConvolution, {ConvolutionForward, ConvolutionBackward, Always}},
    {Opcode::kReduce, {ReduceForward, ReduceBackward, Always}},
    {Opcode::kScan, {ScanForward, ScanBackward, Always}},
    {Opcode::kBatchNormTraining, {BatchNormForward, BatchNormBackward, Always}},
    {Opcode::kBatchNormInference, {BatchNormForward, BatchNormBackward, Always}},
    {Opcode::kBatchNormGrad, {BatchNormForward, BatchNormBackward, Always}},
    {Opcode::kReduceWindow, {ReduceWindowForward, ReduceWindowBackward, Always}},
    {Opcode::kSelectAndScatter, {SelectAndScatterForward, SameDimsBackward, Always}},
    {Opcode::kGather, {GatherForward, GatherBackward, Always}},
    {Opcode::kScatter, {ScatterForward, ScatterBackward, Always}},
    {Opcode::kSort, {SortForward, SortBackward, Always}},
    {Opcode::kTopK, kRelationOnly},
    {Opcode::kParameter, {ParameterForward, NothingBackward, ParameterSupported}},
    {Opcode::kConstant, {NothingForward, NothingBackward, Always}},
    {Opcode::kIota, {NothingForward, NothingBackward, Always}},
    {Opcode::kPartitionId, kNoRule},
    {Opcode::kReplicaId, kNoRule},
    {Opcode::kRng, {RngForward, SameDimsBackward, Always}},
    {Opcode::kRngBitGenerator, {NothingForward, NothingBackward, Always}},
    {Opcode::kRngGetAndUpdateState, kNoRule},
    {Opcode::kCholesky, kRelationOnly},
    {Opcode::kTriangularSolve, kRelationOnly},
    {Opcode::kFft, kRelationOnly},
    {Opcode::kWhile, {WhileForward, WhileBackward, Always}},
    {Opcode::kConditional, {NothingForward, SameDimsBackward, Always}},
    {Opcode::kCall, {NothingForward, SameDimsBackward, Always}},
    {Opcode::kFusion, {ElementwiseForward, SameDimsBackward, FusionSupported}},
    {Opcode::kAsyncStart, kNoRule},
    {Opcode::kAsyncUpdate, kNoRule},
    {Opcode::kAsyncDone, kNoRule},
    {Opcode::kTuple, {TupleForward, TupleBackward, Always}},
    {Opcode::kGetTupleElement, {GetTupleElementForward, GetTupleElementBackward, Always}},
    {Opcode::kOptBarrier, {FirstOperandForward, SameDimsBackward, Always}},
    {Opcode::kAfterAll, kNoRule},
    {Opcode::kAddDependency, kNoRule},
    {Opcode::kDomain, kNoRule},
    {Opcode::kCopyStart, kNoRule},
    {Opcode::kCopyDone, kNoRule},
    {Opcode::kAllReduce, {CollectiveForward, SameDimsBackward, Always}},
    {Opcode::kAllGather, kNoRule},
    {Opcode::kReduceScatter, {CollectiveForward, SameDimsBackward, Always}},
    {Opcode::kAllToAll, kNoRule},
    {Opcode::kRaggedAllToAll, kNoRule},
    {Opcode::kCollectivePermute, {CollectiveForward, SameDimsBackward, Always}},
    {Opcode::kCollectiveBroadcast, kNoRule},
    {Opcode::kAllReduceStart, kNoRule},
    {Opcode::kAllReduceDone, kNoRule},
    {Opcode::kAllGatherStart, kNoRule},
    {Opcode::kAllGatherDone, kNoRule},
    {Opcode::kCollectivePermuteStart, kNoRule},
    {Opcode::kCollectivePermuteDone, kNoRule},
    {Opcode::kSend, kNoRule},
    {Opcode::kSendDone, kNoRule},
    {Opcode::kRecv, kNoRule},
    {Opcode::kRecvDone, kNoRule},
    {Opcode::kInfeed, {NothingForward, NothingBackward, Always}},
    {Opcode::kOutfeed, {NothingForward, OutfeedBackward, Never}},
    {Opcode::kCustomCall, {CustomCallForward, CustomCallBackward, CustomCallSupported}},
};

// Being elementwise is a row.
static_assert(OneRowEach<FirstMiscounted(kRows, {0, 0})>::kHolds);

constexpr std::array<Rule, kOpcodeCount> BuildTable() {
  std::array<Rule, kOpcodeCount> table{};
  table.fill(kElementwiseRule);
  for (const Row& row : kRows) table[static_cast<size_t>(row.opcode)] = row.rule;
  return table;
}

}  // namespace

constinit const std::array<Rule, kOpcodeCount> kRuleTable = BuildTable();

}  // namespace gshard
