// The partition rules by family, one function per group of opcodes that share one; the table in
// rule_table.cc says which opcode has which.
#ifndef GSHARD_CORE_PARTITION_OPS_RULES_H_
#define GSHARD_CORE_PARTITION_OPS_RULES_H_

#include "core/partition/scope/op_rule.h"

namespace gshard::partition_rules {

// Of operations that only programs of one device and manual regions have.
inline constexpr char kPartitionedAlready[] =
    "text that is one device's program already (XLA's, after its partitioner) goes to gshard-run "
    "and gshard-cost as it is";

// elementwise
RuleResult Pointwise(PartitionContext& rule);
RuleResult Convert(PartitionContext& rule);
RuleResult BitcastConvert(PartitionContext& rule);
// broadcast, reshape, transpose
RuleResult Broadcast(PartitionContext& rule);
RuleResult Reshape(PartitionContext& rule);
RuleResult Bitcast(PartitionContext& rule);
RuleResult Transpose(PartitionContext& rule);
// slice
RuleResult Slice(PartitionContext& rule);
// The source, an operation of one array operand, is a slice at known places.
RuleResult SliceAt(PartitionContext& rule, const SliceAttributes& slice);
RuleResult Pad(PartitionContext& rule);
RuleResult Concatenate(PartitionContext& rule);
RuleResult Reverse(PartitionContext& rule);
RuleResult DynamicSlice(PartitionContext& rule);
RuleResult DynamicUpdateSlice(PartitionContext& rule);
RuleResult GetDimensionSize(PartitionContext& rule);
// dot, convolution
RuleResult Dot(PartitionContext& rule);
RuleResult ScaledDot(PartitionContext& rule);
RuleResult RaggedDot(PartitionContext& rule);
RuleResult Convolution(PartitionContext& rule);
// reduce, reduce_window
RuleResult Reduce(PartitionContext& rule);
RuleResult Scan(PartitionContext& rule);
RuleResult BatchNorm(PartitionContext& rule);
RuleResult ReduceWindow(PartitionContext& rule);
RuleResult SelectAndScatter(PartitionContext& rule);
// gather_scatter, sort
RuleResult Gather(PartitionContext& rule);
RuleResult Scatter(PartitionContext& rule);
RuleResult Sort(PartitionContext& rule);
RuleResult TopK(PartitionContext& rule);
// The source, a slice, if it takes the first few elements of a sort along a cut dim; else null.
PartitionedValue* FirstOfSort(PartitionContext& rule);
// iota_constant
RuleResult Constant(PartitionContext& rule);
RuleResult Iota(PartitionContext& rule);
RuleResult DeviceId(PartitionContext& rule);
// rng, linalg, fft
RuleResult Rng(PartitionContext& rule);
RuleResult RngBitGenerator(PartitionContext& rule);
RuleResult MatrixOnBatch(PartitionContext& rule);
RuleResult Fft(PartitionContext& rule);
// control_flow, tuple
RuleResult While(PartitionContext& rule);
RuleResult Conditional(PartitionContext& rule);
RuleResult Call(PartitionContext& rule);
RuleResult AsyncStart(PartitionContext& rule);
RuleResult AsyncUpdate(PartitionContext& rule);
RuleResult AsyncDone(PartitionContext& rule);
RuleResult Tuple(PartitionContext& rule);
RuleResult GetTupleElement(PartitionContext& rule);
RuleResult OptBarrier(PartitionContext& rule);
RuleResult AfterAll(PartitionContext& rule);
RuleResult CopyStart(PartitionContext& rule);
RuleResult CopyDone(PartitionContext& rule);
RuleResult AddDependency(PartitionContext& rule);
// collectives, custom_call
RuleResult Collective(PartitionContext& rule);
RuleResult HostTransfer(PartitionContext& rule);
// Of a computation that stays whole: the host exchanges whole arrays with every device where nobody
// says anything.
void ReplicateHostTransfers(Context& context, const Computation& computation);
RuleResult CustomCall(PartitionContext& rule);
// Operands whole, operation whole on every device.
RuleResult Whole(PartitionContext& rule);

}  // namespace gshard::partition_rules

#endif  // GSHARD_CORE_PARTITION_OPS_RULES_H_
