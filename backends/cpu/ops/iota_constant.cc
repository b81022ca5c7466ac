// iota, as a program of one step.
#include "backends/cpu/elementwise/program_kernel.h"
#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {

KernelOrError MakeIota(const Instruction& instruction) {
  return MakeSingleElementwise(instruction);
}

}  // namespace gshard::cpu
