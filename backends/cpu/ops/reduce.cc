// reduce: fast loops for one operation on one operand, the general program otherwise.
//
// Results are folds in row-major order of the reduced elements up to associativity: the fast loops
// keep several partial results, and long reductions by general programs are cut into chunks that
// start from their first element (the init value is folded in once). Small floats are summed in f32
// and rounded once. Every result element depends on its own operands only, so any range can be run.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/arrays/reduction.h"
#include "backends/cpu/elementwise/scalar_program.h"
#include "backends/cpu/kernels/reduce_rows.h"
#include "backends/cpu/ops/factories.h"
#include "backends/cpu/ops/reduce_kernels.h"
#include "core/analysis/combiner.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kTile = 1024;     // elements of a tile of results
constexpr int64_t kRowBlock = 256;  // rows summed by themselves, against rounding errors
constexpr int64_t kShortRow = 16;   // shorter rows are reduced side by side

class FastReduceKernel : public Kernel {
 public:
  FastReduceKernel(const Shape* operand, Dims dimensions, Opcode opcode)
      : geometry_(operand->dims(), dimensions),
        dtype_(operand->dtype()),
        type_(ComputeType(dtype_)),
        stored_bytes_(StorageBytes(dtype_)),
        bytes_(StorageBytes(type_)),
        combine_(ArithmeticFunction(opcode, type_)),
        rows_(FindReduceRows(opcode, type_)),
        load_(IsSmallFloat(dtype_) ? LoadFunction(dtype_) : nullptr),
        finish_(IsSmallFloat(dtype_)       ? StoreFunction(dtype_)
                : IsSubByteInteger(dtype_) ? WrapFunction(dtype_)
                                           : nullptr) {
    std::vector<int64_t> sizes, strides;
    for (const ReductionGeometry::Dim& dim : geometry_.kept) {
      sizes.push_back(dim.size);
      strides.push_back(dim.stride);
    }
    kept_ = StridedView(sizes, strides, 0, stored_bytes_);
    if (!geometry_.columns && !geometry_.reduced.empty()) {
      row_length_ = geometry_.reduced.back().size;
      outer_reduced_.assign(geometry_.reduced.begin(), geometry_.reduced.end() - 1);
      rows_per_result_ = geometry_.reduced_count / std::max<int64_t>(row_length_, 1);
    }
    // Narrow columns whose rows are adjacent: several rows are taken as one wide row.
    if (geometry_.columns && geometry_.kept.size() == 1 && geometry_.reduced.size() == 1) {
      const int64_t width = geometry_.kept[0].size;
      fold_ = std::min<int64_t>(kTile / std::max<int64_t>(width, 1), 64);
      if (width >= 64 || geometry_.reduced[0].stride != width ||
          geometry_.reduced[0].size < 4 * fold_) {
        fold_ = 1;
      }
    }
  }

  static bool Supports(Opcode opcode, DType dtype) {
    const DType type = ComputeType(dtype);
    return FindReduceRows(opcode, type) != nullptr && ArithmeticFunction(opcode, type) != nullptr;
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, geometry_.kept_count, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return fold_ > 1 ? geometry_.kept_count : 1; }

  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    Workspace work{operands[0], {}, nullptr, nullptr, nullptr};
    LoadElement(operands[1], work.init);
    work.sums = scratch.Allocate(static_cast<size_t>(kTile * bytes_));
    work.block = scratch.Allocate(static_cast<size_t>(kTile * bytes_));
    work.loaded = scratch.Allocate(static_cast<size_t>(2 * kTile * bytes_));
    for (int64_t done = 0; done < count; done += kTile) {
      const int64_t n = std::min(kTile, count - done);
      std::byte* out = results[0] + done * stored_bytes_;
      std::byte* sums = finish_ != nullptr ? work.sums : out;
      FillElements(sums, work.init, bytes_, n);
      if (geometry_.reduced_count > 0) {
        if (fold_ > 1) {
          FoldedColumns(n, sums, work);
        } else if (geometry_.columns || row_length_ < kShortRow) {
          SideBySide(first + done, n, sums, work);
        } else {
          Rows(first + done, n, sums, work);
        }
      }
      if (finish_ != nullptr) finish_(Tile{{sums, nullptr, nullptr}, out, n, 0});
    }
  }
  int64_t Flops() const override { return geometry_.kept_count * geometry_.reduced_count; }

 private:
  struct Workspace {
    const std::byte* operand;
    alignas(16) std::byte init[16];
    std::byte* sums;
    std::byte* block;
    std::byte* loaded;  // two tiles: elements as stored, and as computed with
  };

  void LoadElement(const std::byte* stored, std::byte* computed) const {
    if (load_ != nullptr) {
      load_(Tile{{stored, nullptr, nullptr}, computed, 1, 0});
    } else {
      std::memcpy(computed, stored, static_cast<size_t>(bytes_));
    }
  }
  // n adjacent elements in their compute type.
  const std::byte* Loaded(const std::byte* stored, int64_t n, std::byte* room) const {
    if (load_ == nullptr) return stored;
    load_(Tile{{stored, nullptr, nullptr}, room, n, 0});
    return room;
  }
  void Combine(std::byte* sums, const std::byte* elements, int64_t n) const {
    combine_(Tile{{sums, elements, nullptr}, sums, n, DTypeBits(dtype_)});
  }

  // Each reduced index adds one tile of elements to the tile of results.
  void SideBySide(int64_t first, int64_t n, std::byte* sums, Workspace& work) const {
    OffsetIterator reduced(geometry_.reduced);
    // Where the tile lies in one piece, elements are read in place.
    const ReductionGeometry::Dim inner =
        geometry_.kept.empty() ? ReductionGeometry::Dim{1, 1} : geometry_.kept.back();
    const bool in_place = inner.stride == 1 && first % inner.size + n <= inner.size;
    int64_t base = 0;
    if (in_place) base = OffsetIterator(geometry_.kept, first).offset();
    std::byte* stored = work.loaded;
    std::byte* computed = work.loaded + kTile * bytes_;
    for (int64_t done = 0; done < geometry_.reduced_count; done += kRowBlock) {
      const int64_t rows = std::min(kRowBlock, geometry_.reduced_count - done);
      for (int64_t r = 0; r < rows; ++r, reduced.Next()) {
        const std::byte* elements = work.operand + reduced.offset() * stored_bytes_;
        if (in_place) {
          elements += base * stored_bytes_;
        } else {
          kept_.Read(elements, first, n, stored);
          elements = stored;
        }
        elements = Loaded(elements, n, computed);
        if (r == 0) {
          std::memcpy(work.block, elements, static_cast<size_t>(n * bytes_));
        } else {
          Combine(work.block, elements, n);
        }
      }
      Combine(sums, work.block, n);
    }
  }

  // All results at once; `fold_` rows side by side, folded together at the end of each block.
  void FoldedColumns(int64_t n, std::byte* sums, Workspace& work) const {
    const int64_t width = n * fold_;
    const int64_t total = geometry_.reduced_count;
    std::byte* computed = work.loaded + kTile * bytes_;
    int64_t row = 0;
    while (row + fold_ <= total) {
      const int64_t block_end = std::min(total, row + kRowBlock * fold_);
      bool started = false;
      for (; row + fold_ <= block_end; row += fold_) {
        const std::byte* elements = Loaded(work.operand + row * n * stored_bytes_, width, computed);
        if (!started) {
          std::memcpy(work.block, elements, static_cast<size_t>(width * bytes_));
          started = true;
        } else {
          Combine(work.block, elements, width);
        }
      }
      for (int64_t k = 1; k < fold_; ++k) Combine(work.block, work.block + k * n * bytes_, n);
      Combine(sums, work.block, n);
    }
    for (; row < total; ++row) {
      Combine(sums, Loaded(work.operand + row * n * stored_bytes_, n, computed), n);
    }
  }

  // Contiguous rows, one result after the other.
  void Rows(int64_t first, int64_t n, std::byte* sums, Workspace& work) const {
    if (load_ == nullptr && rows_per_result_ == 1 && geometry_.kept.size() == 1) {
      const int64_t stride = geometry_.kept[0].stride;
      rows_(work.operand + first * stride * stored_bytes_, row_length_, n, stride, sums);
      return;
    }
    OffsetIterator kept(geometry_.kept, first);
    for (int64_t i = 0; i < n; ++i, kept.Next()) {
      OffsetIterator outer(outer_reduced_);
      std::byte* sum = sums + i * bytes_;
      for (int64_t r = 0; r < rows_per_result_; ++r, outer.Next()) {
        const std::byte* row = work.operand + (kept.offset() + outer.offset()) * stored_bytes_;
        if (load_ == nullptr) {
          rows_(row, row_length_, 1, 0, sum);
          continue;
        }
        for (int64_t done = 0; done < row_length_; done += kTile) {
          const int64_t length = std::min(kTile, row_length_ - done);
          rows_(Loaded(row + done * stored_bytes_, length, work.loaded), length, 1, 0, sum);
        }
      }
    }
  }

  ReductionGeometry geometry_;
  DType dtype_, type_;
  int64_t stored_bytes_, bytes_;
  TileFunction combine_;
  ReduceRowsFunction rows_;
  TileFunction load_, finish_;
  StridedView kept_;
  int64_t row_length_ = 1;
  int64_t rows_per_result_ = 1;
  std::vector<ReductionGeometry::Dim> outer_reduced_;
  int64_t fold_ = 1;
};

// Any body, any number of operands.
class ProgramReduceKernel : public Kernel {
 public:
  ProgramReduceKernel(const Instruction& instruction, std::unique_ptr<ScalarProgram> program)
      : geometry_(instruction.operand(0)->shape()->dims(),
                  instruction.attributes<DimensionsAttributes>().dimensions),
        program_(std::move(program)),
        inputs_(static_cast<size_t>(instruction.operand_count() / 2)) {
    std::vector<int64_t> sizes, strides;
    for (const ReductionGeometry::Dim& dim : geometry_.kept) {
      sizes.push_back(dim.size);
      strides.push_back(dim.stride);
    }
    for (size_t k = 0; k < inputs_; ++k) {
      bytes_.push_back(
          StorageBytes(instruction.operand(static_cast<int64_t>(k))->shape()->dtype()));
      kept_.emplace_back(sizes, strides, 0, bytes_.back());
    }
    // Elements that lie next to each other, or many for few results: chunks of a result's elements
    // are folded side by side.
    constexpr int64_t kMinReduced = 4096;
    constexpr int64_t kMinChunk = 16;
    const bool few = geometry_.kept_count <= kGroup && geometry_.reduced_count >= kMinReduced;
    if (geometry_.reduced.size() == 1 && (!geometry_.columns || few)) {
      chunks_ = std::clamp<int64_t>(geometry_.reduced_count / kMinChunk, 1, kMaxChunks);
    }
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, geometry_.kept_count, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return 1; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    Workspace work = MakeWorkspace(scratch);
    if (chunks_ > 1) {
      for (size_t k = 0; k < inputs_; ++k) {
        work.partial[k] = scratch.Allocate(static_cast<size_t>(kGroup * chunks_ * bytes_[k]));
      }
      for (int64_t done = 0; done < count; done += kGroup) {
        GroupByChunks(first + done, std::min(kGroup, count - done), done, operands, results, work);
      }
      return;
    }
    for (int64_t done = 0; done < count; done += kLanes) {
      const int64_t n = std::min(kLanes, count - done);
      for (size_t k = 0; k < inputs_; ++k) {
        work.results[k] = results[k] + done * bytes_[k];
        FillElements(work.results[k], operands[inputs_ + k], bytes_[k], n);
      }
      OffsetIterator reduced(geometry_.reduced);
      for (int64_t r = 0; r < geometry_.reduced_count; ++r, reduced.Next()) {
        for (size_t k = 0; k < inputs_; ++k) {
          kept_[k].Read(operands[k] + reduced.offset() * bytes_[k], first + done, n,
                        work.elements[k]);
        }
        Fold(n, work.results, work);
      }
    }
  }
  int64_t Flops() const override {
    return geometry_.kept_count * geometry_.reduced_count *
           std::max<int64_t>(program_->FlopsPerElement(), 1);
  }

 private:
  static constexpr int64_t kLanes = 1024;
  static constexpr int64_t kGroup = 64;      // results whose chunks are put together at once
  static constexpr int64_t kMaxChunks = 64;  // of one result

  struct Workspace {
    std::byte** elements;         // one tile an input
    std::byte** sums;             // pointers only
    std::byte** partial;          // of a group's chunks, chunk after chunk
    std::byte** results;          // pointers only
    const std::byte** arguments;  // of the program: accumulators, elements
    Scratch* scratch;
  };

  Workspace MakeWorkspace(Scratch& scratch) const {
    const auto pointers = [&](size_t n) {
      return reinterpret_cast<std::byte**>(scratch.Allocate(n * sizeof(std::byte*)));
    };
    Workspace work{pointers(inputs_),
                   pointers(inputs_),
                   pointers(inputs_),
                   pointers(inputs_),
                   const_cast<const std::byte**>(pointers(2 * inputs_)),
                   &scratch};
    for (size_t k = 0; k < inputs_; ++k) {
      work.elements[k] = scratch.Allocate(static_cast<size_t>(kLanes * bytes_[k]));
    }
    return work;
  }

  // sums = f(sums, elements), n side by side.
  void Fold(int64_t n, std::byte* const* sums, Workspace& work) const {
    for (size_t k = 0; k < inputs_; ++k) {
      work.arguments[k] = sums[k];
      work.arguments[inputs_ + k] = work.elements[k];
    }
    program_->Run(n, {work.arguments, 2 * inputs_}, {sums, inputs_}, *work.scratch);
  }

  // Results [first, first + count), the first of them at `position`: every chunk is folded from its
  // first element on, then the chunks of a result in order, then what is left over.
  void GroupByChunks(int64_t first, int64_t count, int64_t position, ConstBuffers operands,
                     Buffers results, Workspace& work) const {
    const int64_t chunk = geometry_.reduced_count / chunks_;
    const int64_t stride = geometry_.reduced[0].stride;
    std::array<int64_t, kGroup> bases;
    OffsetIterator kept(geometry_.kept, first);
    for (int64_t i = 0; i < count; ++i, kept.Next()) bases[static_cast<size_t>(i)] = kept.offset();
    // As many results at a time as there are lanes for.
    const int64_t most = kLanes / chunks_;
    for (int64_t i = 0; i < count; i += most) {
      const int64_t n = std::min(most, count - i);
      for (size_t k = 0; k < inputs_; ++k) {
        work.sums[k] = work.partial[k] + i * chunks_ * bytes_[k];
      }
      for (int64_t step = 0; step < chunk; ++step) {
        std::byte* const* target = step == 0 ? work.sums : work.elements;
        for (size_t k = 0; k < inputs_; ++k) {
          for (int64_t r = 0; r < n; ++r) {
            const int64_t from = bases[static_cast<size_t>(i + r)] + step * stride;
            GatherStrided(target[k] + r * chunks_ * bytes_[k], operands[k] + from * bytes_[k],
                          chunk * stride, bytes_[k], chunks_);
          }
        }
        if (step > 0) Fold(n * chunks_, work.sums, work);
      }
    }
    for (size_t k = 0; k < inputs_; ++k) {
      work.results[k] = results[k] + position * bytes_[k];
      FillElements(work.results[k], operands[inputs_ + k], bytes_[k], count);
    }
    for (int64_t c = 0; c < chunks_; ++c) {
      for (size_t k = 0; k < inputs_; ++k) {
        GatherStrided(work.elements[k], work.partial[k] + c * bytes_[k], chunks_, bytes_[k], count);
      }
      Fold(count, work.results, work);
    }
    for (int64_t r = chunk * chunks_; r < geometry_.reduced_count; ++r) {
      for (size_t k = 0; k < inputs_; ++k) {
        kept_[k].Read(operands[k] + r * stride * bytes_[k], first, count, work.elements[k]);
      }
      Fold(count, work.results, work);
    }
  }

  ReductionGeometry geometry_;
  std::unique_ptr<ScalarProgram> program_;
  size_t inputs_;
  std::vector<int64_t> bytes_;
  std::vector<StridedView> kept_;
  int64_t chunks_ = 0;  // of a result's elements; at most 1: not cut
};

}  // namespace

KernelOrError MakeReduce(const Instruction& instruction) {
  const Dims dimensions = instruction.attributes<DimensionsAttributes>().dimensions;
  const Shape* operand = instruction.operand(0)->shape();
  if (instruction.operand_count() == 2 && instruction.shape()->IsArray()) {
    const auto opcode = SingleBinaryOperation(*instruction.called(0));
    if (opcode && FastReduceKernel::Supports(*opcode, operand->dtype())) {
      return std::make_unique<FastReduceKernel>(operand, dimensions, *opcode);
    }
  }
  if (std::unique_ptr<Kernel> kernel = MakeArgReduceKernel(instruction)) return kernel;
  auto program = GSHARD_TRY(ScalarProgram::Compile(*instruction.called(0)));
  return std::make_unique<ProgramReduceKernel>(instruction, std::move(program));
}

}  // namespace gshard::cpu
