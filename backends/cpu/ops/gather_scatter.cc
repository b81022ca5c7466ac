// gather and scatter with all attributes (docs/semantics.md, "Data movement").
//
// Both walk over the index vectors; each names a window of the operand. Windows are moved as
// contiguous runs where they are contiguous on both sides.
#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cpu/arrays/index_space.h"
#include "backends/cpu/arrays/index_value.h"
#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/elementwise/scalar_program.h"
#include "backends/cpu/ops/factories.h"
#include "core/analysis/combiner.h"
#include "ir/dims.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

// The index tensor as a list of vectors, row-major over its batch dims, with where each one's
// batch coordinates lead in the operand (batching dims) and in the result or update.
struct IndexVectors {
  enum : size_t { kVector, kOperand, kBatch };
  IndexSpace<3> space;
  DType dtype = DType::kS32;
  int64_t entry_stride = 1;          // between the entries of a vector
  std::vector<int64_t> operand_dim;  // of each entry

  // `batch_strides`: of the dims of result or update that are batch dims, in order.
  IndexVectors(const Shape* indices, int64_t index_vector_dim, Dims map, Dims operand_batching,
               Dims indices_batching, std::span<const int64_t> operand_strides,
               std::span<const int64_t> batch_strides)
      : dtype(indices->dtype()), operand_dim(map.begin(), map.end()) {
    const std::vector<int64_t> strides = RowMajorStrides(indices->dims());
    size_t batch = 0;
    for (int64_t dim = 0; dim < indices->rank(); ++dim) {
      if (dim == index_vector_dim) {
        entry_stride = strides[static_cast<size_t>(dim)];
        continue;
      }
      int64_t operand = 0;
      for (size_t k = 0; k < indices_batching.size(); ++k) {
        if (indices_batching[k] == dim) {
          operand = operand_strides[static_cast<size_t>(operand_batching[k])];
        }
      }
      space.Add(indices->dim(dim),
                {strides[static_cast<size_t>(dim)], operand, batch_strides[batch++]});
    }
  }

  int64_t Entry(const std::byte* indices, int64_t vector, size_t entry) const {
    return IndexValue(dtype, indices, vector + static_cast<int64_t>(entry) * entry_stride);
  }
};

class GatherKernel : public Kernel {
 public:
  explicit GatherKernel(const Instruction& instruction)
      : bytes_(StorageBytes(instruction.shape()->dtype())) {
    const GatherAttributes& gather = instruction.attributes<GatherAttributes>();
    const Shape* operand = instruction.operand(0)->shape();
    const Shape* result = instruction.shape();
    strides_ = RowMajorStrides(operand->dims());
    const std::vector<int64_t> result_strides = RowMajorStrides(result->dims());
    std::vector<StridedDim> window;
    std::vector<int64_t> batch_strides;
    for (int64_t dim = 0; dim < result->rank(); ++dim) {
      if (!Contains(gather.offset_dims, dim)) {
        batch_strides.push_back(result_strides[static_cast<size_t>(dim)]);
      }
    }
    size_t offset = 0;
    int64_t window_elements = 1;
    for (int64_t dim = 0; dim < operand->rank(); ++dim) {
      if (Contains(gather.collapsed_slice_dims, dim) ||
          Contains(gather.operand_batching_dims, dim)) {
        continue;
      }
      const int64_t size = gather.slice_sizes[static_cast<size_t>(dim)];
      window.push_back({size, strides_[static_cast<size_t>(dim)],
                        result_strides[static_cast<size_t>(gather.offset_dims[offset++])]});
      window_elements *= size;
    }
    vectors_.emplace(instruction.operand(1)->shape(), gather.index_vector_dim,
                     gather.start_index_map, gather.operand_batching_dims,
                     gather.start_indices_batching_dims, strides_, batch_strides);
    for (int64_t dim : vectors_->operand_dim) {
      room_.push_back(
          std::max<int64_t>(operand->dim(dim) - gather.slice_sizes[static_cast<size_t>(dim)], 0));
    }
    window_ = StridedCopy(std::move(window), bytes_);
    contiguous_ = window_.IsContiguous();
    // The windows follow one another in the result: ranges are ranges of index vectors.
    const bool in_order = gather.offset_dims.empty() ||
                          gather.offset_dims[0] == static_cast<int64_t>(batch_strides.size());
    granule_ = in_order && vectors_->space.count() > 1 ? window_elements : 0;
    if (result->element_count() == 0) vectors_.reset();
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    (void)scratch;
    if (vectors_) Gather(0, vectors_->space.count(), operands, results[0]);
  }
  int64_t RangeGranule() const override { return granule_; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    if (granule_ == 0) return Run(operands, results, scratch);
    if (!vectors_) return;
    Gather(first / granule_, count / granule_, operands, results[0] - first * bytes_);
  }

 private:
  void Gather(int64_t begin, int64_t count, ConstBuffers operands, std::byte* result) const {
    IndexSpace<3>::Iterator vector(vectors_->space, begin);
    const size_t entries = room_.size();
    const size_t run_bytes = static_cast<size_t>(window_.count() * bytes_);
    for (int64_t i = 0; i < count; ++i, vector.Next()) {
      int64_t start = vector.offset(IndexVectors::kOperand);
      for (size_t k = 0; k < entries; ++k) {
        const int64_t index = vectors_->Entry(operands[1], vector.offset(IndexVectors::kVector), k);
        start += std::clamp<int64_t>(index, 0, room_[k]) *
                 strides_[static_cast<size_t>(vectors_->operand_dim[k])];
      }
      const std::byte* source = operands[0] + start * bytes_;
      std::byte* target = result + vector.offset(IndexVectors::kBatch) * bytes_;
      if (contiguous_) {
        std::memcpy(target, source, run_bytes);
      } else {
        window_.Run(source, target);
      }
    }
  }

  int64_t bytes_;
  std::vector<int64_t> strides_, room_;
  std::optional<IndexVectors> vectors_;
  StridedCopy window_;
  bool contiguous_ = false;
  int64_t granule_ = 0;
};

class ScatterKernel : public Kernel {
 public:
  // `program` is null if updates overwrite or `combine` does the work.
  ScatterKernel(const Instruction& instruction, std::unique_ptr<ScalarProgram> program,
                TileFunction combine, bool commutes)
      : inputs_(static_cast<size_t>(instruction.operand_count() / 2)),
        program_(std::move(program)),
        combine_(combine),
        in_place_(FirstOperandIsUnique(instruction)) {
    const ScatterAttributes& scatter = instruction.attributes<ScatterAttributes>();
    const Shape* operand = instruction.operand(0)->shape();
    const Shape* update = instruction.operand(static_cast<int64_t>(inputs_) + 1)->shape();
    dims_.assign(operand->dims().begin(), operand->dims().end());
    count_ = operand->element_count();
    strides_ = RowMajorStrides(dims_);
    extent_.assign(dims_.size(), 1);
    for (size_t k = 0; k < inputs_; ++k) {
      const DType dtype = instruction.operand(static_cast<int64_t>(k))->shape()->dtype();
      bytes_.push_back(StorageBytes(dtype));
      bits_ = DTypeBits(dtype);
    }
    const std::vector<int64_t> update_strides = RowMajorStrides(update->dims());
    std::vector<int64_t> batch_strides;
    for (int64_t dim = 0; dim < update->rank(); ++dim) {
      if (!Contains(scatter.update_window_dims, dim)) {
        batch_strides.push_back(update_strides[static_cast<size_t>(dim)]);
      }
    }
    size_t next = 0;
    std::vector<StridedDim> copied;
    for (int64_t dim = 0; dim < operand->rank(); ++dim) {
      if (Contains(scatter.inserted_window_dims, dim) ||
          Contains(scatter.input_batching_dims, dim)) {
        continue;
      }
      const size_t at = static_cast<size_t>(scatter.update_window_dims[next++]);
      extent_[static_cast<size_t>(dim)] = update->dims()[at];
      const int64_t stride = strides_[static_cast<size_t>(dim)];
      window_.Add(update->dims()[at], {stride, update_strides[at]});
      copied.push_back({update->dims()[at], update_strides[at], stride});
    }
    vectors_.emplace(instruction.operand(static_cast<int64_t>(inputs_))->shape(),
                     scatter.index_vector_dim, scatter.scatter_dims_to_operand_dims,
                     scatter.input_batching_dims, scatter.scatter_indices_batching_dims, strides_,
                     batch_strides);
    // Windows in the outer dims of the update: elements of several windows interleave in row-major
    // order, which matters where they meet.
    const bool windows_inside =
        scatter.update_window_dims.empty() ||
        scatter.update_window_dims[0] == static_cast<int64_t>(batch_strides.size());
    by_element_ = !windows_inside && !commutes && window_.count() > 1;
    copies_ = !by_element_ && combine_ == nullptr && program_ == nullptr;
    if (copies_) window_copy_ = StridedCopy(std::move(copied), bytes_[0]);
    // The innermost run of a window.
    if (!by_element_ && !window_.dims().empty()) {
      const auto& inner = window_.dims().back();
      if (inner.strides[0] == 1 && inner.strides[1] == 1) {
        run_ = inner.size;
        window_.RemoveInnermost();
      }
    }
    if (update->element_count() == 0) vectors_.reset();
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    for (size_t k = 0; k < inputs_; ++k) {
      if (results[k] != operands[k]) {
        std::memcpy(results[k], operands[k], static_cast<size_t>(count_ * bytes_[k]));
      }
    }
    if (!vectors_) return;
    Workspace work{operands, results, nullptr, nullptr, &scratch};
    work.arguments =
        reinterpret_cast<const std::byte**>(scratch.Allocate(2 * inputs_ * sizeof(std::byte*)));
    work.targets = reinterpret_cast<std::byte**>(scratch.Allocate(inputs_ * sizeof(std::byte*)));
    if (by_element_) {
      for (int64_t w = 0; w < window_.count(); ++w) Scatter(w, w + 1, work);
    } else {
      Scatter(0, window_.count(), work);
    }
  }
  bool InPlace(int64_t operand) const override { return operand == 0 && in_place_; }
  int64_t Flops() const override {
    return vectors_ ? vectors_->space.count() * window_.count() * run_ : 0;
  }

 private:
  struct Workspace {
    ConstBuffers operands;
    Buffers results;
    const std::byte** arguments;
    std::byte** targets;
    Scratch* scratch;
  };

  // Runs [begin, end) of the window of every index vector whose whole window is in bounds.
  void Scatter(int64_t begin, int64_t end, Workspace& work) const {
    IndexSpace<3>::Iterator vector(vectors_->space, 0);
    const std::byte* indices = work.operands[inputs_];
    for (int64_t i = 0; i < vectors_->space.count(); ++i, vector.Next()) {
      int64_t start = vector.offset(IndexVectors::kOperand);
      bool inside = true;
      for (size_t k = 0; k < vectors_->operand_dim.size(); ++k) {
        const size_t dim = static_cast<size_t>(vectors_->operand_dim[k]);
        const int64_t index = vectors_->Entry(indices, vector.offset(IndexVectors::kVector), k);
        inside = inside && index >= 0 && index <= dims_[dim] - extent_[dim];
        if (!inside) break;
        start += index * strides_[dim];
      }
      if (!inside) continue;
      if (copies_) {
        const int64_t source = vector.offset(IndexVectors::kBatch);
        window_copy_.Run(work.operands[inputs_ + 1] + source * bytes_[0],
                         work.results[0] + start * bytes_[0]);
        continue;
      }
      IndexSpace<2>::Iterator window(window_, begin);
      for (int64_t w = begin; w < end; ++w, window.Next()) {
        Apply(start + window.offset(0), vector.offset(IndexVectors::kBatch) + window.offset(1),
              work);
      }
    }
  }

  // One run: result[target ..) = f(result[target ..), update[source ..)).
  void Apply(int64_t target, int64_t source, Workspace& work) const {
    if (combine_ != nullptr) {
      std::byte* out = work.results[0] + target * bytes_[0];
      combine_(
          Tile{{out, work.operands[inputs_ + 1] + source * bytes_[0], nullptr}, out, run_, bits_});
      return;
    }
    if (program_ == nullptr) {
      std::memcpy(work.results[0] + target * bytes_[0],
                  work.operands[inputs_ + 1] + source * bytes_[0],
                  static_cast<size_t>(run_ * bytes_[0]));
      return;
    }
    for (size_t k = 0; k < inputs_; ++k) {
      work.targets[k] = work.results[k] + target * bytes_[k];
      work.arguments[k] = work.targets[k];
      work.arguments[inputs_ + k] = work.operands[inputs_ + 1 + k] + source * bytes_[k];
    }
    program_->Run(run_, {work.arguments, 2 * inputs_}, {work.targets, inputs_}, *work.scratch);
  }

  size_t inputs_;
  std::unique_ptr<ScalarProgram> program_;
  TileFunction combine_;
  bool in_place_;
  std::vector<int64_t> bytes_;
  int64_t bits_ = 0;
  std::vector<int64_t> dims_, strides_, extent_;  // extent: of the window in each operand dim
  int64_t count_ = 0;
  std::optional<IndexVectors> vectors_;
  IndexSpace<2> window_;  // offsets in operand and update, without the innermost run
  int64_t run_ = 1;
  bool by_element_ = false;
  bool copies_ = false;  // whole windows at once
  StridedCopy window_copy_;
};

KernelOrError MakeScatter(const Instruction& instruction) {
  const Computation& combiner = *instruction.called(0);
  const DType dtype = instruction.operand(0)->shape()->dtype();
  const auto opcode = SingleBinaryOperation(combiner);
  const bool commutes = opcode && HasFlag(*opcode, kCommutative);
  if (instruction.operand_count() == 3) {
    if (ForwardedParameter(combiner) == 1) {
      return std::make_unique<ScatterKernel>(instruction, nullptr, nullptr, false);
    }
    if (opcode && ComputeType(dtype) == dtype && ArithmeticFunction(*opcode, dtype) != nullptr) {
      return std::make_unique<ScatterKernel>(instruction, nullptr,
                                             ArithmeticFunction(*opcode, dtype), commutes);
    }
  }
  auto program = GSHARD_TRY(ScalarProgram::Compile(combiner));
  return std::make_unique<ScatterKernel>(instruction, std::move(program), nullptr, commutes);
}

}  // namespace

KernelOrError MakeGatherScatter(const Instruction& instruction) {
  if (instruction.opcode() == Opcode::kGather) return std::make_unique<GatherKernel>(instruction);
  return MakeScatter(instruction);
}

}  // namespace gshard::cpu
