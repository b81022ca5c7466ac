// Custom calls to linear algebra: LAPACK's routines as JAX calls them on CPUs
// ("lapack_sgetrf_ffi"), cuSOLVER's and hipSOLVER's on GPUs ("cusolver_getrf_ffi"), and XLA's own
// on TPUs ("LuDecomposition", "Qr", "Eigh").
#ifndef GSHARD_BACKENDS_CPU_OPS_LAPACK_CALL_H_
#define GSHARD_BACKENDS_CPU_OPS_LAPACK_CALL_H_

#include <string_view>

#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {

// Is a call to `target` one of them?
bool IsLapackTarget(std::string_view target);

// Errors: operand or result shapes, or a backend_config, that the routine cannot have.
KernelOrError MakeLapackCall(const Instruction& instruction);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_LAPACK_CALL_H_
