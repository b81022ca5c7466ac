#include "backends/cpu/plan/index_observer.h"

#include <utility>
#include <vector>

namespace gshard::cpu {
namespace {

// Tells of each instance once, by its first range, share or step.
class Observed final : public Kernel {
 public:
  Observed(std::unique_ptr<Kernel> kernel, const Instruction& x, IndexObserver& observer)
      : kernel_(std::move(kernel)), x_(x), observer_(observer) {}

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    observer_.Indexed(x_, operands);
    kernel_->Run(operands, results, scratch);
  }
  bool InPlace(int64_t operand) const override { return kernel_->InPlace(operand); }
  int64_t RangeGranule() const override { return kernel_->RangeGranule(); }
  bool IsElementwiseIn(int64_t operand) const override { return kernel_->IsElementwiseIn(operand); }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    if (first == 0) observer_.Indexed(x_, operands);
    kernel_->RunRange(first, count, operands, results, scratch);
  }
  int64_t ShareCount() const override { return kernel_->ShareCount(); }
  void RunShare(int64_t share, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    if (share == 0) observer_.Indexed(x_, operands);
    kernel_->RunShare(share, operands, results, scratch);
  }
  bool RunsInSteps() const override { return kernel_->RunsInSteps(); }
  void RunSteps(const PieceRunner& run, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    observer_.Indexed(x_, operands);
    kernel_->RunSteps(run, operands, results, scratch);
  }
  void RunBatch(int64_t count, std::span<const BatchOperand> operands,
                std::span<const BatchResult> results, Scratch& scratch) const override {
    std::vector<const std::byte*> buffers(operands.size());
    for (int64_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < operands.size(); ++k) buffers[k] = operands[k].items[i];
      observer_.Indexed(x_, buffers);
    }
    kernel_->RunBatch(count, operands, results, scratch);
  }
  int64_t Flops() const override { return kernel_->Flops(); }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const Instruction& x_;
  IndexObserver& observer_;
};

}  // namespace

std::unique_ptr<Kernel> ObservedKernel(std::unique_ptr<Kernel> kernel, const Instruction& x,
                                       IndexObserver& observer) {
  return std::make_unique<Observed>(std::move(kernel), x, observer);
}

}  // namespace gshard::cpu
