// Custom calls to LAPACK as JAX emits them for the CPU ("lapack_sgetrf_ffi").
#ifndef GSHARD_BACKENDS_CPU_OPS_LAPACK_CALL_H_
#define GSHARD_BACKENDS_CPU_OPS_LAPACK_CALL_H_

#include <string_view>

#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {

bool IsLapackTarget(std::string_view target);

// Errors: operand or result shapes, or a backend_config, that the routine cannot have.
KernelOrError MakeLapackCall(const Instruction& instruction);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_LAPACK_CALL_H_
