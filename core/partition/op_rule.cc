#include "core/partition/op_rule.h"

#include <array>

#include "core/partition/ops/rules.h"
#include "ir/diagnostic.h"
#include "ir/dims.h"

namespace gshard {

Instruction* PartitionContext::Operand(int64_t i, const MeshLayout* layout) {
  return scope_.Reshard(operand(i), layout, {.user = &source_, .value = source_.operand(i)});
}

Instruction* PartitionContext::Move(PartitionedValue* value, const MeshLayout* layout) {
  return scope_.Reshard(value, layout, {.user = &source_, .value = value->source});
}

void PartitionContext::TakeName(Instruction* local) { scope_.TakeName(local, &source_); }

Instruction* PartitionContext::EmitLocal(std::span<Instruction* const> operands,
                                         const Shape* shape) {
  return scope_.CloneLocal(&source_, operands, shape);
}

const Strategy& PartitionContext::Choose(const Labels& labels) {
  return scope_.run().strategies.Choose(scope_, labels, operands_, result_shapes_, wanted_);
}

PartitionedValue* PartitionContext::ByLabels(const Labels& labels) {
  const Strategy& strategy = Choose(labels);
  std::vector<Instruction*> locals;
  locals.reserve(operands_.size());
  for (size_t i = 0; i < operands_.size(); ++i) {
    locals.push_back(Operand(static_cast<int64_t>(i), strategy.operands[i]));
  }
  return Emit(locals, strategy.results);
}

PartitionedValue* PartitionContext::Emit(std::span<Instruction* const> operands,
                                         std::span<const MeshLayout* const> results) {
  const Shape* shape = source_.shape();
  if (!shape->IsTuple()) {
    return Result(EmitLocal(operands, LocalShape(context(), shape, results[0])), results[0]);
  }
  std::vector<const Shape*> elements;
  for (size_t i = 0; i < results.size(); ++i) {
    elements.push_back(LocalShape(context(), shape->elements()[i], results[i]));
  }
  return scope_.NewFromLocal(shape, results, EmitLocal(operands, context().Tuple(elements)));
}

PartitionedValue* PartitionContext::Finish(Instruction* local, const Instruction* operand,
                                           const MeshLayout* layout) {
  if (local != operand) {
    const Shape* shape = LocalShape(context(), source_.shape(), layouts().Reduced(layout));
    CheckInternal(SameDims(shape, local->shape()), "a local result of another shape");
    local->set_shape(shape);
    TakeName(local);
  }
  return Result(local, layout);
}

std::vector<const MeshLayout*> PartitionContext::WholeLeaves(const Shape* shape) {
  std::vector<const Shape*> leaves;
  AppendLeafShapes(shape, leaves);
  std::vector<const MeshLayout*> layouts;
  for (const Shape* leaf : leaves) layouts.push_back(Whole(leaf->IsArray() ? leaf->rank() : 0));
  return layouts;
}

PartitionedValue* PartitionContext::Default() {
  std::vector<Instruction*> locals;
  for (size_t i = 0; i < operands_.size(); ++i) {
    ReshardCause cause{.user = &source_, .value = source_.operand(static_cast<int64_t>(i))};
    locals.push_back(scope_.Materialize(operands_[i], WholeLeaves(operands_[i]->shape), cause));
  }
  return scope_.NewFromLocal(source_.shape(), WholeLeaves(source_.shape()),
                             EmitLocal(locals, source_.shape()));
}

tl::unexpected<Diagnostic> PartitionContext::Error(std::string code, std::string message,
                                                   std::string hint) const {
  Diagnostic error = scope_.run().module.ErrorAt(&source_, std::move(code), std::move(message));
  error.hint = std::move(hint);
  return Fail(std::move(error));
}

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

constexpr uint32_t kFlags[] = {
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, flags) (flags),
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
};

constexpr std::array<OpRuleEntry, kOpcodeCount> MakeTable() {
  std::array<OpRuleEntry, kOpcodeCount> table{};
  std::array<bool, kOpcodeCount> present{};
  auto set = [&](size_t i, OpRuleEntry entry) {
    table[i] = entry;
    present[i] = true;
  };
  for (size_t i = 0; i < table.size(); ++i) {
    if ((kFlags[i] & kElementwise) != 0) set(i, {Pointwise, false});
  }
  for (const Row& row : kRows) set(static_cast<size_t>(row.opcode), {row.rule, row.is_default});
  for (bool is_there : present) {
    // Ends compilation: the table is constant.
    if (!is_there) throw InternalError("an opcode has no partition rule");
  }
  return table;
}

constexpr std::array<OpRuleEntry, kOpcodeCount> kTable = MakeTable();

}  // namespace

const OpRuleEntry& RuleFor(Opcode opcode) { return kTable[static_cast<size_t>(opcode)]; }

}  // namespace gshard
