// dot, ragged-dot, scaled-dot.
#include <algorithm>

#include "backends/cpu/dot_product.h"
#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {
namespace {

class DotKernel : public Kernel {
 public:
  explicit DotKernel(DotProduct product) : product_(std::move(product)) {}

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    product_.Run(operands[0], operands[1], results[0], scratch);
  }
  int64_t RangeGranule() const override { return product_.row_granule() * product_.columns(); }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    const int64_t n = product_.columns();
    product_.RunRows(first / n, (first + count) / n, operands[0], operands[1], results[0], scratch);
  }
  void RunBatch(int64_t count, std::span<const BatchOperand> operands,
                std::span<const BatchResult> results, Scratch& scratch) const override {
    const bool stacks = product_.CanStack() && operands[1].stride == 0 &&
                        operands[0].stride == product_.lhs_bytes() &&
                        results[0].stride == product_.result_bytes();
    if (stacks) {
      product_.RunStacked(count, operands[0].items[0], operands[1].items[0], results[0].data,
                          scratch);
      return;
    }
    Kernel::RunBatch(count, operands, results, scratch);
  }
  int64_t Flops() const override { return product_.Flops(); }

 private:
  DotProduct product_;
};

DotProduct::Operand OperandOf(const Shape* shape, Dims batch, Dims contracting) {
  return {shape->dtype(), shape->dims(), batch, contracting};
}

KernelOrError MakeDenseDot(const Instruction& instruction) {
  const DotAttributes& dot = instruction.attributes<DotAttributes>();
  return std::make_unique<DotKernel>(
      DotProduct(OperandOf(instruction.operand(0)->shape(), dot.lhs_batch, dot.lhs_contracting),
                 OperandOf(instruction.operand(1)->shape(), dot.rhs_batch, dot.rhs_contracting),
                 instruction.shape()->dtype()));
}

}  // namespace

KernelOrError MakeDot(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::kDot:
      return MakeDenseDot(instruction);
    default:
      throw InternalError("not an operation of the dot family");
  }
}

}  // namespace gshard::cpu
