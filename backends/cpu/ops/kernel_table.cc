// The table opcode -> kernel factory, from kernels.def.
#include "backends/cpu/ops/kernel_table.h"

#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {

KernelFactory KernelFactoryOf(Opcode opcode) {
  switch (opcode) {
#define GSHARD_KERNEL(opcode, Factory) \
  case Opcode::opcode:                 \
    return &Factory;
#define GSHARD_NO_KERNEL(opcode, support) \
  case Opcode::opcode:                    \
    return nullptr;
#include "backends/cpu/ops/kernels.def"
  }
  throw InternalError("opcode out of range");
}

}  // namespace gshard::cpu
