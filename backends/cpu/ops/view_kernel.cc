// Rearrangements: read row by row where rows are contiguous, copied in blocks where they are not.
#include "backends/cpu/ops/view_kernel.h"

#include <cstring>
#include <vector>

#include "backends/cpu/arrays/strided.h"

namespace gshard::cpu {
namespace {

class ViewKernel : public Kernel {
 public:
  ViewKernel(const Shape* result, std::span<const int64_t> strides, int64_t offset)
      : view_(result->dims(), strides, offset, StorageBytes(result->dtype())),
        offset_bytes_(offset * StorageBytes(result->dtype())) {
    const std::vector<int64_t> targets = RowMajorStrides(result->dims());
    std::vector<StridedDim> dims;
    for (size_t i = 0; i < strides.size(); ++i) {
      dims.push_back({result->dims()[i], strides[i], targets[i]});
    }
    copy_ = StridedCopy(std::move(dims), StorageBytes(result->dtype()));
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    (void)scratch;
    copy_.Run(operands[0] + offset_bytes_, results[0]);
  }

  int64_t RangeGranule() const override {
    return view_.HasContiguousRows() ? 1 : copy_.RowElements();
  }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    (void)scratch;
    if (view_.HasContiguousRows()) {
      view_.Read(operands[0], first, count, results[0]);
      return;
    }
    const int64_t row = copy_.RowElements();
    copy_.RunRows(first / row, count / row, operands[0] + offset_bytes_, results[0]);
  }

 private:
  StridedView view_;
  StridedCopy copy_;
  int64_t offset_bytes_;
};

class CopyKernel : public Kernel {
 public:
  explicit CopyKernel(const Shape* shape)
      : element_bytes_(StorageBytes(shape->dtype())), count_(shape->element_count()) {}
  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, count_, operands, results, scratch);
  }
  bool InPlace(int64_t operand) const override { return operand == 0; }
  int64_t RangeGranule() const override { return 1; }
  bool IsElementwiseIn(int64_t operand) const override { return operand == 0; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    (void)first;
    (void)scratch;
    if (operands[0] != results[0]) {
      std::memcpy(results[0], operands[0], static_cast<size_t>(count * element_bytes_));
    }
  }

 private:
  int64_t element_bytes_, count_;
};

}  // namespace

std::unique_ptr<Kernel> MakeCopyKernel(const Shape* shape) {
  return std::make_unique<CopyKernel>(shape);
}

std::unique_ptr<Kernel> MakeViewKernel(const Shape* result, std::span<const int64_t> strides,
                                       int64_t offset) {
  return std::make_unique<ViewKernel>(result, strides, offset);
}

}  // namespace gshard::cpu
