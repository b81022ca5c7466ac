// transpose: output dim k is operand dim p_k.
#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/ops/factories.h"
#include "backends/cpu/ops/view_kernel.h"

namespace gshard::cpu {

KernelOrError MakeTranspose(const Instruction& instruction) {
  const std::vector<int64_t> operand = RowMajorStrides(instruction.operand(0)->shape()->dims());
  std::vector<int64_t> strides;
  for (int64_t dim : instruction.attributes<DimensionsAttributes>().dimensions) {
    strides.push_back(operand[static_cast<size_t>(dim)]);
  }
  return MakeViewKernel(instruction.shape(), strides, 0);
}

}  // namespace gshard::cpu
