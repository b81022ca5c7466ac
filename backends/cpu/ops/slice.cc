// slice, reverse, pad, concatenate, dynamic-slice, dynamic-update-slice, get-/set-dimension-size.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/arrays/index_value.h"
#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/ops/factories.h"
#include "backends/cpu/ops/view_kernel.h"

namespace gshard::cpu {
namespace {

KernelOrError MakeStaticSlice(const Instruction& instruction) {
  const SliceAttributes& slice = instruction.attributes<SliceAttributes>();
  std::vector<int64_t> strides = RowMajorStrides(instruction.operand(0)->shape()->dims());
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += slice.starts[i] * strides[i];
    strides[i] *= slice.strides[i];
  }
  return MakeViewKernel(instruction.shape(), strides, offset);
}

KernelOrError MakeReverse(const Instruction& instruction) {
  std::vector<int64_t> strides = RowMajorStrides(instruction.shape()->dims());
  int64_t offset = 0;
  for (int64_t dim : instruction.attributes<DimensionsAttributes>().dimensions) {
    int64_t& stride = strides[static_cast<size_t>(dim)];
    offset += std::max<int64_t>(instruction.shape()->dim(dim) - 1, 0) * stride;
    stride = -stride;
  }
  return MakeViewKernel(instruction.shape(), strides, offset);
}

// --- pad

class PadKernel : public Kernel {
 public:
  PadKernel(const Shape* operand, const Shape* result, std::span<const PadDim> padding)
      : bytes_(StorageBytes(result->dtype())), count_(result->element_count()) {
    const std::vector<int64_t> source_strides = RowMajorStrides(operand->dims());
    const std::vector<int64_t> target_strides = RowMajorStrides(result->dims());
    std::vector<StridedDim> box;
    for (size_t i = 0; i < padding.size(); ++i) {
      const int64_t step = padding[i].interior + 1;
      // Operand indices whose position low + index * step lies in the result.
      const int64_t limit = result->dims()[i] - padding[i].low;
      const int64_t begin = padding[i].low < 0 ? (-padding[i].low + step - 1) / step : 0;
      const int64_t end = std::clamp<int64_t>(limit > 0 ? (limit + step - 1) / step : 0, begin,
                                              std::max(begin, operand->dims()[i]));
      const int64_t size = std::max<int64_t>(std::min(end, operand->dims()[i]) - begin, 0);
      box.push_back({size, source_strides[i], target_strides[i] * step});
      source_ += begin * source_strides[i];
      target_ += (padding[i].low + begin * step) * target_strides[i];
      interior_ = interior_ || (padding[i].interior > 0 && size > 1);
      sizes_.push_back(result->dims()[i]);
      low_.push_back(padding[i].low + begin * step);
      inside_.push_back(size);
      strides_.push_back(target_strides[i]);
    }
    copy_ = StridedCopy(std::move(box), bytes_);
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    (void)scratch;
    if (copy_.count() == 0) {
      FillElements(results[0], operands[1], bytes_, count_);
      return;
    }
    if (interior_) {
      FillElements(results[0], operands[1], bytes_, count_);
    } else {
      FillBorder(0, results[0], operands[1]);
    }
    copy_.Run(operands[0] + source_ * bytes_, results[0] + target_ * bytes_);
  }

 private:
  // Everything outside the box, without touching the inside.
  void FillBorder(size_t dim, std::byte* target, const std::byte* value) const {
    if (dim == sizes_.size()) return;
    const int64_t stride = strides_[dim];
    const int64_t high = low_[dim] + inside_[dim];
    FillElements(target, value, bytes_, low_[dim] * stride);
    const bool last =
        std::equal(inside_.begin() + static_cast<std::ptrdiff_t>(dim) + 1, inside_.end(),
                   sizes_.begin() + static_cast<std::ptrdiff_t>(dim) + 1);
    if (!last) {
      for (int64_t i = low_[dim]; i < high; ++i) {
        FillBorder(dim + 1, target + i * stride * bytes_, value);
      }
    }
    FillElements(target + high * stride * bytes_, value, bytes_, (sizes_[dim] - high) * stride);
  }

  int64_t bytes_, count_;
  int64_t source_ = 0, target_ = 0;  // first element of the box in operand and result
  bool interior_ = false;
  std::vector<int64_t> sizes_, low_, inside_, strides_;
  StridedCopy copy_;
};

// --- concatenate

class ConcatenateKernel : public Kernel {
 public:
  ConcatenateKernel(const Instruction& instruction, size_t dim)
      : bytes_(StorageBytes(instruction.shape()->dtype())) {
    const std::vector<int64_t> target = RowMajorStrides(instruction.shape()->dims());
    int64_t position = 0;
    for (const Instruction* operand : instruction.operands()) {
      const auto dims = operand->shape()->dims();
      const std::vector<int64_t> source = RowMajorStrides(dims);
      std::vector<StridedDim> box;
      for (size_t i = 0; i < dims.size(); ++i) box.push_back({dims[i], source[i], target[i]});
      parts_.push_back({StridedCopy(std::move(box), bytes_), position * target[dim]});
      position += dims[dim];
    }
  }
  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    (void)scratch;
    for (size_t k = 0; k < parts_.size(); ++k) {
      parts_[k].copy.Run(operands[k], results[0] + parts_[k].offset * bytes_);
    }
  }

 private:
  struct Part {
    StridedCopy copy;
    int64_t offset;
  };
  int64_t bytes_;
  std::vector<Part> parts_;
};

// --- dynamic slices

// Start indices: one scalar operand a dim, or a single vector operand.
class StartIndices {
 public:
  // Operands [begin, ..) of the instruction hold them. `room[i]` is the largest legal start.
  StartIndices(const Instruction& instruction, int64_t begin, std::vector<int64_t> room,
               std::vector<int64_t> strides)
      : begin_(static_cast<size_t>(begin)), room_(std::move(room)), strides_(std::move(strides)) {
    if (instruction.operand_count() > begin) {
      const Shape* shape = instruction.operand(begin)->shape();
      dtype_ = shape->dtype();
      is_vector_ = shape->rank() == 1;
    }
  }
  // Offset in elements of the clamped start.
  int64_t Offset(ConstBuffers operands) const {
    int64_t offset = 0;
    for (size_t i = 0; i < room_.size(); ++i) {
      const int64_t start = is_vector_
                                ? IndexValue(dtype_, operands[begin_], static_cast<int64_t>(i))
                                : IndexValue(dtype_, operands[begin_ + i], 0);
      offset += std::clamp<int64_t>(start, 0, room_[i]) * strides_[i];
    }
    return offset;
  }

 private:
  size_t begin_;
  std::vector<int64_t> room_, strides_;
  DType dtype_ = DType::kS32;
  bool is_vector_ = false;
};

std::vector<int64_t> Room(Dims whole, Dims part) {
  std::vector<int64_t> room;
  for (size_t i = 0; i < whole.size(); ++i) room.push_back(whole[i] - part[i]);
  return room;
}

class DynamicSliceKernel : public Kernel {
 public:
  explicit DynamicSliceKernel(const Instruction& instruction)
      : bytes_(StorageBytes(instruction.shape()->dtype())),
        starts_(instruction, 1,
                Room(instruction.operand(0)->shape()->dims(), instruction.shape()->dims()),
                RowMajorStrides(instruction.operand(0)->shape()->dims())),
        view_(instruction.shape()->dims(), RowMajorStrides(instruction.operand(0)->shape()->dims()),
              0, bytes_),
        count_(instruction.shape()->element_count()) {}
  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, count_, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return 1; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    (void)scratch;
    view_.Read(operands[0] + starts_.Offset(operands) * bytes_, first, count, results[0]);
  }

 private:
  int64_t bytes_;
  StartIndices starts_;
  StridedView view_;
  int64_t count_;
};

class DynamicUpdateSliceKernel : public Kernel {
 public:
  explicit DynamicUpdateSliceKernel(const Instruction& instruction)
      : bytes_(StorageBytes(instruction.shape()->dtype())),
        count_(instruction.shape()->element_count()),
        starts_(instruction, 2,
                Room(instruction.shape()->dims(), instruction.operand(1)->shape()->dims()),
                RowMajorStrides(instruction.shape()->dims())),
        in_place_(FirstOperandIsUnique(instruction)) {
    const auto dims = instruction.operand(1)->shape()->dims();
    const std::vector<int64_t> source = RowMajorStrides(dims);
    const std::vector<int64_t> target = RowMajorStrides(instruction.shape()->dims());
    std::vector<StridedDim> box;
    for (size_t i = 0; i < dims.size(); ++i) box.push_back({dims[i], source[i], target[i]});
    copy_ = StridedCopy(std::move(box), bytes_);
  }
  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    (void)scratch;
    const int64_t offset = starts_.Offset(operands);
    if (results[0] != operands[0]) {
      std::memcpy(results[0], operands[0], static_cast<size_t>(count_ * bytes_));
    }
    copy_.Run(operands[1], results[0] + offset * bytes_);
  }
  bool InPlace(int64_t operand) const override { return operand == 0 && in_place_; }

 private:
  int64_t bytes_, count_;
  StartIndices starts_;
  bool in_place_;
  StridedCopy copy_;
};

// --- dimension sizes: arrays have their bound as size

class DimensionSizeKernel : public Kernel {
 public:
  explicit DimensionSizeKernel(int64_t size) : size_(static_cast<int32_t>(size)) {}
  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    (void)operands;
    (void)scratch;
    std::memcpy(results[0], &size_, sizeof(size_));
  }

 private:
  int32_t size_;
};

KernelOrError MakeSetDimensionSize(const Instruction& instruction) {
  const int64_t dim = instruction.attributes<DimensionsAttributes>().dimensions[0];
  const Instruction* size = instruction.operand(1);
  const bool is_bound = size->opcode() == Opcode::kConstant &&
                        !size->attributes<ConstantAttributes>().literal->elided &&
                        ElementAsInt64(*size->attributes<ConstantAttributes>().literal, 0) >=
                            instruction.shape()->dim(dim);
  if (!is_bound) {
    Diagnostic error = instruction.parent()->module().ErrorAt(
        &instruction, "E-RUN-004", "set-dimension-size makes a size known only at run time");
    error.hint = "pad to the bound and mask the rest instead; arrays here have fixed sizes";
    return Fail(std::move(error));
  }
  return MakeCopyKernel(instruction.shape());
}

}  // namespace

std::unique_ptr<Kernel> MakeConcatenation(const Instruction& instruction, int64_t dim) {
  return std::make_unique<ConcatenateKernel>(instruction, static_cast<size_t>(dim));
}

KernelOrError MakeSlice(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::kSlice:
      return MakeStaticSlice(instruction);
    case Opcode::kReverse:
      return MakeReverse(instruction);
    case Opcode::kPad:
      return std::make_unique<PadKernel>(instruction.operand(0)->shape(), instruction.shape(),
                                         instruction.attributes<PadAttributes>().padding);
    case Opcode::kConcatenate:
      return MakeConcatenation(instruction,
                               instruction.attributes<DimensionsAttributes>().dimensions[0]);
    case Opcode::kDynamicSlice:
      return std::make_unique<DynamicSliceKernel>(instruction);
    case Opcode::kDynamicUpdateSlice:
      return std::make_unique<DynamicUpdateSliceKernel>(instruction);
    case Opcode::kGetDimensionSize:
      return std::make_unique<DimensionSizeKernel>(instruction.operand(0)->shape()->dim(
          instruction.attributes<DimensionsAttributes>().dimensions[0]));
    case Opcode::kSetDimensionSize:
      return MakeSetDimensionSize(instruction);
    default:
      throw InternalError("not an operation of the slice family");
  }
}

}  // namespace gshard::cpu
