// The table opcode -> kernel factory (kernels.def).
#ifndef GSHARD_BACKENDS_CPU_OPS_KERNEL_TABLE_H_
#define GSHARD_BACKENDS_CPU_OPS_KERNEL_TABLE_H_

#include "backends/cpu/elementwise/kernel.h"
#include "ir/opcode.h"

namespace gshard::cpu {

// Null for opcodes that the executor itself handles (control flow, tuples, collectives, parameters,
// constants, partition-id, replica-id).
KernelFactory KernelFactoryOf(Opcode opcode);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_KERNEL_TABLE_H_
