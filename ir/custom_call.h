// Custom calls that the tools know by their target: markers of shardings, barriers, the borders of
// manual regions and hints about placement. All give back their operand's elements.
#ifndef GSHARD_IR_CUSTOM_CALL_H_
#define GSHARD_IR_CUSTOM_CALL_H_

#include <cstdint>
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

// An array without values yet, of XLA's compilers for accelerators: it is written part by part.
inline constexpr std::string_view kAllocateBufferTarget = "AllocateBuffer";

// One of all these but the last two: on a device the result has its operand's bytes.
bool IsIdentityCall(const Instruction& x);

// The routine of linear algebra that a call for GPUs stands for: "getrf" of cusolver_getrf_ffi and
// hipsolver_getrf_ffi, "gtsv2" of cusparse_gtsv2_ffi, "eig" of cuhybrid_eig_real,
// "lu_pivots_to_permutation" of cu_lu_pivots_to_permutation; empty: it is none by its name.
std::string_view GpuLinalgRoutine(std::string_view target);

// The same of XLA's own calls, as it has them on TPUs: "geqrf" of Qr, "orgqr" of
// ProductOfElementaryHouseholderReflectors, "syevd" of Eigh, "getrf" of LuDecomposition (whose
// pivots count from 0); empty: it is none of these.
std::string_view TpuLinalgRoutine(std::string_view target);

// One of these, or LAPACK's own: lapack_*_ffi.
bool IsLinalgCall(std::string_view target);

// Does the lower triangle count for an Eigh, whose backend_config is "lower,sort,iterations,
// tolerance"? Yes if that says nothing.
bool EighReadsLower(std::string_view backend_config);

// Leading dims of every operand and result over which a call of linear algebra loops: the matrices
// or vectors behind them are independent of each other. Of LAPACK (lapack_*_ffi) and those for GPUs
// as JAX says in the call's frontend attribute num_batch_dims; 0 if it does not, or if the shapes
// have no such dims.
int64_t BatchDimsOf(const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_IR_CUSTOM_CALL_H_
