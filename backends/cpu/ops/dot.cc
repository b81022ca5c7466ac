// dot, ragged-dot, scaled-dot.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/cpu/elementwise/elementwise_program.h"
#include "backends/cpu/ops/dot_kernels.h"
#include "backends/cpu/ops/dot_product.h"
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
    if (product_.CanWiden()) {
      RunShared(count, operands, results[0], scratch);
      return;
    }
    Kernel::RunBatch(count, operands, results, scratch);
  }
  bool SumsBatch() const override { return product_.CanSum(); }
  void RunSum(int64_t count, std::span<const BatchOperand> operands, bool accumulate,
              std::byte* sum, Scratch& scratch) const override {
    product_.RunSum(count, operands[0].items, operands[1].items, accumulate, sum, scratch);
  }
  int64_t ShareCount() const override { return product_.ShareCount(); }
  void RunShare(int64_t share, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    product_.RunShare(share, operands[0], operands[1], results[0], scratch);
  }
  int64_t Flops() const override { return product_.Flops(); }

 private:
  // Neighbours that share their lhs are one product.
  void RunShared(int64_t count, std::span<const BatchOperand> operands, const BatchResult& result,
                 Scratch& scratch) const {
    const std::byte* const* lhs = operands[0].items;
    for (int64_t first = 0; first < count;) {
      int64_t last = first + 1;
      while (last < count && lhs[last] == lhs[first]) ++last;
      std::byte* to = result.data + first * result.stride;
      if (last - first > 1) {
        product_.RunWidened(last - first, lhs[first], operands[1].items + first, to, result.stride,
                            scratch);
      } else {
        product_.Run(lhs[first], operands[1].items[first], to, scratch);
      }
      first = last;
    }
  }

  DotProduct product_;
};

DotProduct::Operand OperandOf(const Shape* shape, Dims batch, Dims contracting) {
  return {shape->dtype(), shape->dims(), batch, contracting};
}

// Operands times their scales, which repeat over blocks of the operand; then a plain dot.
class ScaledDotKernel : public Kernel {
 public:
  ScaledDotKernel(const Instruction& instruction, DType accumulate, DotProduct product)
      : product_(std::move(product)), bytes_(StorageBytes(accumulate)) {
    for (int64_t i = 0; i < 2; ++i) {
      const Shape* x = instruction.operand(i)->shape();
      const Shape* scale = instruction.operand(i + 2)->shape();
      std::vector<int64_t> dims, strides;
      const std::vector<int64_t> scale_strides = RowMajorStrides(scale->dims());
      for (int64_t d = 0; d < x->rank(); ++d) {
        const int64_t blocks = scale->rank() == 0 || scale->dim(d) == 0 ? 1 : scale->dim(d);
        dims.push_back(blocks);
        strides.push_back(scale->rank() == 0 ? 0 : scale_strides[static_cast<size_t>(d)]);
        dims.push_back(x->dim(d) / blocks);
        strides.push_back(0);
      }
      ElementwiseProgram& program = programs_[static_cast<size_t>(i)];
      const auto value = program.AddConvert(program.AddArrayInput(x->dtype()), accumulate);
      const auto factor = program.AddConvert(
          program.AddViewInput(scale->dtype(),
                               StridedView(dims, strides, 0, StorageBytes(scale->dtype()))),
          accumulate);
      program.AddOutput(program.AddOperation(Opcode::kMultiply, accumulate, {{value, factor}}));
      program.Build();
      counts_[static_cast<size_t>(i)] = x->element_count();
    }
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    const std::byte* scaled[2];
    for (size_t i = 0; i < 2; ++i) {
      std::byte* out = scratch.Allocate(static_cast<size_t>(counts_[i] * bytes_));
      const std::byte* inputs[2] = {operands[i], operands[i + 2]};
      programs_[i].Run(0, counts_[i], inputs, {&out, 1}, scratch);
      scaled[i] = out;
    }
    product_.Run(scaled[0], scaled[1], results[0], scratch);
  }
  int64_t Flops() const override { return product_.Flops(); }

 private:
  DotProduct product_;
  int64_t bytes_;
  std::array<ElementwiseProgram, 2> programs_;
  std::array<int64_t, 2> counts_{};
};

KernelOrError MakeScaledDot(const Instruction& instruction) {
  const DotAttributes& dot = instruction.attributes<DotAttributes>();
  const Shape* lhs = instruction.operand(0)->shape();
  const Shape* rhs = instruction.operand(1)->shape();
  const DType result = instruction.shape()->dtype();
  const DType accumulate = AccumulationType(lhs->dtype(), rhs->dtype(), result);
  return std::make_unique<ScaledDotKernel>(
      instruction, accumulate,
      DotProduct({accumulate, lhs->dims(), dot.lhs_batch, dot.lhs_contracting},
                 {accumulate, rhs->dims(), dot.rhs_batch, dot.rhs_contracting}, result));
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
    case Opcode::kScaledDot:
      return MakeScaledDot(instruction);
    case Opcode::kRaggedDot: {
      // A ragged batch dim changes nothing.
      const DotAttributes& dot = instruction.attributes<DotAttributes>();
      const bool is_batch = std::find(dot.lhs_batch.begin(), dot.lhs_batch.end(),
                                      dot.lhs_ragged[0]) != dot.lhs_batch.end();
      if (is_batch) return MakeDenseDot(instruction);
      return MakeRaggedDotKernel(instruction);
    }
    default:
      throw InternalError("not an operation of the dot family");
  }
}

}  // namespace gshard::cpu
