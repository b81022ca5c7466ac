// reshape, dynamic-reshape and bitcast. Buffers are row-major, so a reshape keeps the bytes; a
// bitcast reinterprets memory as laid out in the text, which may reorder our elements.
#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/ops/factories.h"
#include "backends/cpu/ops/view_kernel.h"
#include "ir/dims.h"

namespace gshard::cpu {
namespace {

// Between our row-major elements and the order of the layout in memory.
StridedCopy LayoutCopy(const Shape* shape, bool to_memory) {
  const std::vector<int64_t> row_major = RowMajorStrides(shape->dims());
  std::vector<StridedDim> dims(static_cast<size_t>(shape->rank()));
  int64_t stride = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    const size_t dim = shape->layout() != nullptr
                           ? static_cast<size_t>(shape->layout()->minor_to_major[k])
                           : dims.size() - 1 - k;
    dims[dim] = {shape->dims()[dim], row_major[dim], stride};
    stride *= shape->dims()[dim];
    if (!to_memory) std::swap(dims[dim].source, dims[dim].target);
  }
  return {std::move(dims), StorageBytes(shape->dtype())};
}

class LayoutBitcastKernel : public Kernel {
 public:
  LayoutBitcastKernel(const Shape* from, const Shape* to)
      : bytes_(from->element_count() * StorageBytes(from->dtype())),
        to_memory_(LayoutCopy(from, true)),
        from_memory_(LayoutCopy(to, false)) {}
  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    std::byte* memory = scratch.Allocate(static_cast<size_t>(bytes_));
    to_memory_.Run(operands[0], memory);
    from_memory_.Run(memory, results[0]);
  }

 private:
  int64_t bytes_;
  StridedCopy to_memory_, from_memory_;
};

}  // namespace

KernelOrError MakeReshape(const Instruction& instruction) {
  const Shape* from = instruction.operand(0)->shape();
  const Shape* to = instruction.shape();
  const bool is_bitcast = instruction.opcode() == Opcode::kBitcast;
  if (is_bitcast && !(IsRowMajor(from) && IsRowMajor(to))) {
    return std::make_unique<LayoutBitcastKernel>(from, to);
  }
  return MakeCopyKernel(from);
}

}  // namespace gshard::cpu
