// The one table opcode -> relation of dims. A forgotten or doubled opcode does not compile.
#include <array>

#include "core/op_dims/dim_relation.h"
#include "core/op_dims/relation_rules.h"
#include "ir/opcode_rows.h"

namespace gshard {
namespace {

using namespace op_dims;  // NOLINT: the rules are this table's vocabulary

struct Row {
  Opcode opcode;
  RelationRule rule;
};

// Elementwise opcodes need no row but where shapes may differ: opcodes.def says which they are.
constexpr Row kRows[] = {
    {Opcode::kBitcastConvert, BitcastConvert},
    {Opcode::kMap, Elementwise},
    {Opcode::kBroadcast, Broadcast},
    {Opcode::kReshape, Reshape},
    {Opcode::kDynamicReshape, Unrelated},
    {Opcode::kBitcast, Unrelated},
    {Opcode::kTranspose, Transpose},
    {Opcode::kSlice, Slice},
    {Opcode::kPad, Pad},
    {Opcode::kConcatenate, Concatenate},
    {Opcode::kReverse, Reverse},
    {Opcode::kDynamicSlice, DynamicSlice},
    {Opcode::kDynamicUpdateSlice, DynamicUpdateSlice},
    {Opcode::kGetDimensionSize, Unrelated},
    {Opcode::kSetDimensionSize, Elementwise},
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
    {Opcode::kParameter, Unrelated},
    {Opcode::kConstant, Unrelated},
    {Opcode::kIota, Unrelated},
    {Opcode::kPartitionId, Unrelated},
    {Opcode::kReplicaId, Unrelated},
    {Opcode::kRng, Unrelated},
    {Opcode::kRngBitGenerator, RngBitGenerator},
    {Opcode::kRngGetAndUpdateState, Unrelated},
    {Opcode::kCholesky, Cholesky},
    {Opcode::kTriangularSolve, TriangularSolve},
    {Opcode::kFft, Fft},
    {Opcode::kWhile, Unrelated},
    {Opcode::kConditional, Unrelated},
    {Opcode::kCall, Unrelated},
    {Opcode::kFusion, Unrelated},
    {Opcode::kAsyncStart, Unrelated},
    {Opcode::kAsyncUpdate, Unrelated},
    {Opcode::kAsyncDone, Unrelated},
    {Opcode::kTuple, Unrelated},
    {Opcode::kGetTupleElement, Unrelated},
    {Opcode::kOptBarrier, Unrelated},
    {Opcode::kAfterAll, Unrelated},
    {Opcode::kAddDependency, Unrelated},
    {Opcode::kDomain, Elementwise},
    {Opcode::kCopyStart, Unrelated},
    {Opcode::kCopyDone, Unrelated},
    {Opcode::kAllReduce, CollectiveByDim},
    {Opcode::kAllGather, CollectiveByDim},
    {Opcode::kReduceScatter, CollectiveByDim},
    {Opcode::kAllToAll, CollectiveByDim},
    {Opcode::kRaggedAllToAll, Unrelated},
    {Opcode::kCollectivePermute, CollectiveByDim},
    {Opcode::kCollectiveBroadcast, CollectiveByDim},
    {Opcode::kAllReduceStart, CollectiveByDim},
    {Opcode::kAllReduceDone, Elementwise},
    {Opcode::kAllGatherStart, Unrelated},
    {Opcode::kAllGatherDone, Unrelated},
    {Opcode::kCollectivePermuteStart, Unrelated},
    {Opcode::kCollectivePermuteDone, Unrelated},
    {Opcode::kSend, Unrelated},
    {Opcode::kSendDone, Unrelated},
    {Opcode::kRecv, Unrelated},
    {Opcode::kRecvDone, Unrelated},
    {Opcode::kInfeed, Unrelated},
    {Opcode::kOutfeed, Unrelated},
    {Opcode::kCustomCall, CustomCall},
};

static_assert(OneRowEach<FirstMiscounted(kRows, {0, 1})>::kHolds);

constexpr std::array<RelationRule, kOpcodeCount> BuildTable() {
  std::array<RelationRule, kOpcodeCount> table{};
  table.fill(Elementwise);
  for (const Row& row : kRows) table[static_cast<size_t>(row.opcode)] = row.rule;
  return table;
}

constexpr std::array<RelationRule, kOpcodeCount> kTable = BuildTable();

}  // namespace

void op_dims::Unrelated(RelationBuilder& b) { b.Unrelated(); }
void op_dims::Elementwise(RelationBuilder& b) { b.Elementwise(); }

DimRelation RelationOf(const Instruction& x) {
  RelationBuilder b(x);
  kTable[static_cast<size_t>(x.opcode())](b);
  return std::move(b).Finish();
}

}  // namespace gshard
