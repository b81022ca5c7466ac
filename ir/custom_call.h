// Custom calls that the tools know by their target: markers of shardings, barriers, the borders of
// manual regions and hints about placement. All give back their operand's elements.
#ifndef GSHARD_IR_CUSTOM_CALL_H_
#define GSHARD_IR_CUSTOM_CALL_H_

#include <string_view>

#include "ir/attributes.h"
#include "ir/computation.h"

namespace gshard {

inline constexpr std::string_view kShardingTarget = "Sharding";
inline constexpr std::string_view kShardBarrierFrom = "ShardBarrierFrom";
inline constexpr std::string_view kShardBarrierTo = "ShardBarrierTo";

inline bool IsCustomCallTo(const Instruction& x, std::string_view target) {
  return x.opcode() == Opcode::kCustomCall && x.attributes<CustomCallAttributes>().target == target;
}

// A call whose tiles Python code of the program decides on (JAX's custom_partitioning), by a
// pointer that the text cannot hold.
inline constexpr std::string_view kPythonPartitionedTarget = "CustomSPMDPartitioning";

// The border of a manual region, as GSPMD writes it.
inline constexpr std::string_view kEnterManualTarget = "SPMDFullToShardShape";
inline constexpr std::string_view kLeaveManualTarget = "SPMDShardToFullShape";
bool IsRegionMarker(const Instruction& x);

// Speaks of its value's sharding and of nothing else.
bool IsShardingMarker(std::string_view target);

// Speaks of where or in which layout the value lies.
bool IsPlacementHint(std::string_view target);

// Speaks of the indices that a gather or scatter reads, as XLA's compiler for TPUs writes it: that
// they lie in bounds, or that they were packed.
bool IsIndexHint(std::string_view target);

// The largest elements of each row and their positions, as JAX prints it in HLO and XLA's compilers
// for TPUs keep it.
inline constexpr std::string_view kTopKTarget = "TopK";

// A sort by CUB, along the last dim, as XLA's compiler for GPUs writes it: keys and, in their
// order, values; the call's options say whether it is `descending`.
bool IsRadixSortCall(const Instruction& x);

// An array without values yet, of XLA's compilers for accelerators: it is written part by part.
inline constexpr std::string_view kAllocateBufferTarget = "AllocateBuffer";

// Operands one behind another where they lie already, of XLA's compiler for TPUs: the pieces of an
// array that were copied to fast memory one by one.
inline constexpr std::string_view kConcatBitcastTarget = "ConcatBitcast";
// Ends of a fusion of a TPU's compiler that begins a collective, or waits for it.
inline constexpr std::string_view kAsyncCollectiveStartTarget = "AsyncCollectiveStart";
inline constexpr std::string_view kAsyncCollectiveDoneTarget = "AsyncCollectiveDone";

// Bytes that cuBLAS, cuDNN or CUB may use while it works and that nobody reads, as XLA's compiler
// for GPUs gives them to a call: the last of its results. Null: it has none.
const Shape* WorkspaceOf(const Instruction& call);

// One of the markers and hints above: on a device the result has its operand's bytes.
bool IsIdentityCall(const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_IR_CUSTOM_CALL_H_
