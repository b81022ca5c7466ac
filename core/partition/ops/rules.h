// The partition rules by family, one function per group of opcodes that share one; the table in
// op_rule.cc says which opcode has which.
#ifndef GSHARD_CORE_PARTITION_OPS_RULES_H_
#define GSHARD_CORE_PARTITION_OPS_RULES_H_

#include "core/partition/op_rule.h"

namespace gshard::partition_rules {

// elementwise
RuleResult Pointwise(RuleContext& rule);
RuleResult Convert(RuleContext& rule);
RuleResult BitcastConvert(RuleContext& rule);
// broadcast, reshape, transpose
RuleResult Broadcast(RuleContext& rule);
RuleResult Reshape(RuleContext& rule);
RuleResult Transpose(RuleContext& rule);
// slice
RuleResult Slice(RuleContext& rule);
// The source, an operation of one array operand, is a slice at known places.
RuleResult SliceAt(RuleContext& rule, const SliceAttributes& slice);
RuleResult Pad(RuleContext& rule);
RuleResult Concatenate(RuleContext& rule);
RuleResult Reverse(RuleContext& rule);
RuleResult DynamicSlice(RuleContext& rule);
RuleResult DynamicUpdateSlice(RuleContext& rule);
RuleResult GetDimensionSize(RuleContext& rule);
// dot, convolution
RuleResult Dot(RuleContext& rule);
RuleResult Convolution(RuleContext& rule);
// reduce, reduce_window
RuleResult Reduce(RuleContext& rule);
RuleResult Scan(RuleContext& rule);
RuleResult BatchNorm(RuleContext& rule);
RuleResult ReduceWindow(RuleContext& rule);
RuleResult SelectAndScatter(RuleContext& rule);
// gather_scatter, sort
RuleResult Gather(RuleContext& rule);
RuleResult Scatter(RuleContext& rule);
RuleResult Sort(RuleContext& rule);
RuleResult TopK(RuleContext& rule);
// iota_constant
RuleResult Constant(RuleContext& rule);
RuleResult Iota(RuleContext& rule);
RuleResult DeviceId(RuleContext& rule);
// rng, linalg, fft
RuleResult Rng(RuleContext& rule);
RuleResult MatrixOnBatch(RuleContext& rule);
RuleResult Fft(RuleContext& rule);
// control_flow, tuple
RuleResult While(RuleContext& rule);
RuleResult Conditional(RuleContext& rule);
RuleResult Call(RuleContext& rule);
RuleResult Tuple(RuleContext& rule);
RuleResult GetTupleElement(RuleContext& rule);
RuleResult OptBarrier(RuleContext& rule);
RuleResult AfterAll(RuleContext& rule);
RuleResult AddDependency(RuleContext& rule);
// collectives, custom_call
RuleResult Collective(RuleContext& rule);
RuleResult HostTransfer(RuleContext& rule);
RuleResult CustomCall(RuleContext& rule);
// Operands whole, operation whole on every device.
RuleResult Whole(RuleContext& rule);

}  // namespace gshard::partition_rules

#endif  // GSHARD_CORE_PARTITION_OPS_RULES_H_
