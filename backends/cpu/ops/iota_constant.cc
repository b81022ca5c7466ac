// iota, as a program of one step.
#include "backends/cpu/ops/factories.h"
#include "backends/cpu/program_kernel.h"

namespace gshard::cpu {

KernelOrError MakeIota(const Instruction& instruction) {
  return MakeSingleElementwise(instruction);
}

}  // namespace gshard::cpu
