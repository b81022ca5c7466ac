// Custom calls that do linear algebra: LAPACK's own (lapack_sgetrf_ffi), what JAX calls in their
// place on GPUs (cusolver_getrf_ffi, hipsolver_getrf_ffi, cusparse_gtsv2_ffi), and what XLA has for
// TPUs (LuDecomposition). All functions are pure and may be called from any thread.
#ifndef GSHARD_IR_LINALG_CALL_H_
#define GSHARD_IR_LINALG_CALL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ir/instruction.h"

namespace gshard {

// The routine that a call for GPUs stands for: "getrf" of cusolver_getrf_ffi and
// hipsolver_getrf_ffi, "gtsv2" of cusparse_gtsv2_ffi, "eig" of cuhybrid_eig_real,
// "lu_pivots_to_permutation" of cu_lu_pivots_to_permutation; empty: it is none by its name.
std::string_view GpuLinalgRoutine(std::string_view target);

// The same of XLA's own calls, as it has them on TPUs: "geqrf" of Qr, "orgqr" of
// ProductOfElementaryHouseholderReflectors, "syevd" of Eigh, "getrf" of LuDecomposition (whose
// pivots count from 0); empty: it is none of these.
std::string_view TpuLinalgRoutine(std::string_view target);

// The routine of a call on any platform. Complex types have the names of the real ones: "syevd" of
// lapack_cheevd_ffi. Empty: it is no call of linear algebra.
std::string_view LinalgRoutine(std::string_view target);

inline bool IsLinalgCall(std::string_view target) { return !LinalgRoutine(target).empty(); }

// Numbers, letters and truth values (0 or 1) by key.
using LinalgOptions = std::map<std::string, int64_t, std::less<>>;

// What the call's backend_config says: `{uplo = 76 : ui8, left = true}`. What GPUs and TPUs say
// otherwise, or leave unsaid, is there as LAPACK has it, too: uplo for `lower` and for the list
// that Eigh has; mode of syevd; compute_left and compute_right of eig.
LinalgOptions LinalgOptionsOf(const Instruction& call);

// Leading dims of every operand and result over which a call of linear algebra loops: the matrices
// or vectors behind them are independent of each other. Of LAPACK (lapack_*_ffi) and those for GPUs
// as JAX says in the call's frontend attribute num_batch_dims; 0 if it does not, or if the shapes
// have no such dims.
int64_t BatchDimsOf(const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_IR_LINALG_CALL_H_
