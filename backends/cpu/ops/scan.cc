// scan: a body applied to the slices of its inputs along one dim, in order, with values carried
// from one to the next.
#include <cstring>
#include <vector>

#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/ops/call_kernel.h"
#include "backends/cpu/ops/factories.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

class ScanKernel : public Kernel {
 public:
  ScanKernel(const Instruction& instruction, CallKernel body)
      : body_(std::move(body)), reverse_(instruction.attributes<ScanAttributes>().is_reverse) {
    const ScanAttributes& scan = instruction.attributes<ScanAttributes>();
    const size_t dim = static_cast<size_t>(scan.dimension);
    const size_t carries = static_cast<size_t>(scan.num_carries);
    length_ = instruction.operand(0)->shape()->dim(scan.dimension);
    const size_t operands = instruction.operands().size();
    for (size_t i = 0; i < operands - carries; ++i) {
      inputs_.push_back(SliceOf(instruction.operand(static_cast<int64_t>(i))->shape(), dim, true));
    }
    const Shape* shape = instruction.shape();
    const size_t results = shape->IsTuple() ? shape->elements().size() : 1;
    for (size_t i = 0; i < results; ++i) {
      const Shape* leaf = shape->IsTuple() ? shape->elements()[i] : shape;
      if (i + carries < results) {
        outputs_.push_back(SliceOf(leaf, dim, false));
      } else {
        carry_bytes_.push_back(leaf->element_count() * StorageBytes(leaf->dtype()));
      }
    }
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    const size_t carries = carry_bytes_.size();
    const auto pointers = [&](size_t count) {
      return reinterpret_cast<std::byte**>(scratch.Allocate((count + 1) * sizeof(std::byte*)));
    };
    std::byte** arguments = pointers(inputs_.size() + carries);
    std::byte** values = pointers(outputs_.size() + carries);
    for (size_t i = 0; i < inputs_.size(); ++i) arguments[i] = scratch.Allocate(inputs_[i].bytes);
    for (size_t i = 0; i < outputs_.size(); ++i) values[i] = scratch.Allocate(outputs_[i].bytes);
    for (size_t i = 0; i < carries; ++i) {
      const size_t bytes = static_cast<size_t>(carry_bytes_[i]);
      arguments[inputs_.size() + i] = scratch.Allocate(bytes);
      std::memcpy(arguments[inputs_.size() + i], operands[inputs_.size() + i], bytes);
      values[outputs_.size() + i] = scratch.Allocate(bytes);
    }
    for (int64_t step = 0; step < length_; ++step) {
      const Scratch::Mark mark = scratch.Position();
      const int64_t at = reverse_ ? length_ - 1 - step : step;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        inputs_[i].copy.Run(operands[i] + at * inputs_[i].step, arguments[i]);
      }
      body_.Run({const_cast<const std::byte**>(arguments), inputs_.size() + carries},
                {values, outputs_.size() + carries}, scratch);
      for (size_t i = 0; i < outputs_.size(); ++i) {
        outputs_[i].copy.Run(values[i], results[i] + at * outputs_[i].step);
      }
      for (size_t i = 0; i < carries; ++i) {
        std::swap(arguments[inputs_.size() + i], values[outputs_.size() + i]);
      }
      scratch.Rewind(mark);
    }
    for (size_t i = 0; i < carries; ++i) {
      std::memcpy(results[outputs_.size() + i], arguments[inputs_.size() + i],
                  static_cast<size_t>(carry_bytes_[i]));
    }
  }

 private:
  // One index of the scanned dim of an array, to or from a dense element.
  struct Slice {
    StridedCopy copy;
    int64_t step = 0;  // bytes from one index to the next
    size_t bytes = 0;  // of an element
  };
  static Slice SliceOf(const Shape* shape, size_t dim, bool read) {
    const auto dims = shape->dims();
    const std::vector<int64_t> strides = RowMajorStrides(dims);
    std::vector<StridedDim> box(dims.size());
    int64_t dense = 1;
    for (size_t i = dims.size(); i-- > 0;) {
      if (i == dim) continue;
      box[i] =
          read ? StridedDim{dims[i], strides[i], dense} : StridedDim{dims[i], dense, strides[i]};
      dense *= dims[i];
    }
    const int64_t bytes = StorageBytes(shape->dtype());
    return {StridedCopy(std::move(box), bytes), strides[dim] * bytes,
            static_cast<size_t>(dense * bytes)};
  }

  CallKernel body_;
  bool reverse_;
  int64_t length_ = 0;
  std::vector<Slice> inputs_, outputs_;
  std::vector<int64_t> carry_bytes_;
};

}  // namespace

KernelOrError MakeScan(const Instruction& instruction) {
  auto body = GSHARD_TRY(CallKernel::Make(*instruction.called(0)));
  return std::make_unique<ScanKernel>(instruction, std::move(body));
}

}  // namespace gshard::cpu
