// reduce-window and select-and-scatter (docs/semantics.md, "Reductions").
//
// Results are computed a row at a time: the lanes of a row are its trailing dims without a window,
// or else its last dim; every window position folds one element into each lane that has one there.
// One associative operation folds the last windowed dim after all others, on whole rows of the
// operand. Windows that grow with their position (cumulative sums) are running folds.
#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cpu/arrays/index_space.h"
#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/arrays/window_geometry.h"
#include "backends/cpu/kernels/reduce_rows.h"
#include "backends/cpu/ops/factories.h"
#include "backends/cpu/ops/tile_folder.h"
#include "core/analysis/combiner.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kResultsAtOnce = 1024;

// The rows of an output and the operand elements their windows meet.
class WindowRows {
 public:
  WindowRows(std::span<const int64_t> operand, std::span<const int64_t> output,
             std::span<const WindowDim> window)
      : dims_(SlidingDims(operand, output, window)), strides_(RowMajorStrides(operand)) {
    while (!dims_.empty() && dims_.back().IsTrivial()) {
      lanes_ *= dims_.back().output;
      dims_.pop_back();
      strides_.pop_back();
      lanes_have_window_ = false;
    }
    if (lanes_have_window_ && !dims_.empty()) {
      lane_dim_ = dims_.back();
      lanes_ = lane_dim_.output;
      dims_.pop_back();
      strides_.pop_back();
    }
    for (const SlidingDim& dim : dims_) {
      rows_ *= dim.output;
      positions_ *= dim.window;
    }
  }

  int64_t lanes() const { return lanes_; }
  int64_t rows() const { return rows_; }
  int64_t WindowSize() const { return positions_ * lane_dim_.window; }

  // Calls f(first lane, lane step, count, operand offset, operand step) for every window position
  // in row-major order that meets elements in lanes [begin, end) of the row.
  template <typename F>
  void ForEach(int64_t row, int64_t begin, int64_t end, F&& f) const {
    int64_t output[kMaxRank];
    for (size_t i = dims_.size(); i-- > 0;) {
      output[i] = row % dims_[i].output;
      row /= dims_[i].output;
    }
    int64_t position[kMaxRank] = {};
    for (int64_t p = 0; p < positions_; ++p) {
      int64_t base = 0;
      bool inside = true;
      for (size_t i = 0; i < dims_.size() && inside; ++i) {
        const int64_t index = dims_[i].Index(output[i], position[i]);
        inside = index >= 0;
        base += index * strides_[i];
      }
      if (inside) Lanes(base, begin, end, f);
      for (size_t i = dims_.size(); i-- > 0;) {
        if (++position[i] < dims_[i].window) break;
        position[i] = 0;
      }
    }
  }

 private:
  static constexpr size_t kMaxRank = 64;

  template <typename F>
  void Lanes(int64_t base, int64_t begin, int64_t end, F&& f) const {
    if (!lanes_have_window_) {
      f(begin, 1, end - begin, base + begin, 1);
      return;
    }
    for (int64_t k = 0; k < lane_dim_.window; ++k) {
      const SlidingDim::Hits hits = lane_dim_.HitsOf(k, begin, end);
      if (hits.count > 0) f(hits.first, hits.step, hits.count, base + hits.index, hits.index_step);
    }
  }

  std::vector<SlidingDim> dims_;  // the row dims
  std::vector<int64_t> strides_;
  SlidingDim lane_dim_;
  bool lanes_have_window_ = true;
  int64_t lanes_ = 1, rows_ = 1, positions_ = 1;
};

class ReduceWindowKernel : public Kernel {
 public:
  ReduceWindowKernel(WindowRows rows, std::unique_ptr<TileFolder> folder)
      : rows_(std::move(rows)), folder_(std::move(folder)) {}

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, rows_.rows() * rows_.lanes(), operands, results, scratch);
  }
  int64_t RangeGranule() const override { return rows_.lanes(); }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    const int64_t lanes = rows_.lanes();
    if (count == 0) return;
    const int64_t tile = std::min(kResultsAtOnce, lanes);
    TileFolder::Workspace work = folder_->MakeWorkspace(tile, scratch);
    const size_t inputs = folder_->inputs();
    std::byte** rooms =
        reinterpret_cast<std::byte**>(scratch.Allocate(inputs * sizeof(std::byte*)));
    std::copy_n(work.elements, inputs, rooms);
    for (int64_t r = 0; r < count / lanes; ++r) {
      for (int64_t begin = 0; begin < lanes; begin += tile) {
        const int64_t end = std::min(begin + tile, lanes);
        folder_->Start(operands.data() + inputs, 0, end - begin, work);
        rows_.ForEach(
            first / lanes + r, begin, end,
            [&](int64_t lane, int64_t lane_step, int64_t n, int64_t offset, int64_t offset_step) {
              Meet({lane - begin, lane_step, n, offset, offset_step}, operands, rooms, work);
            });
        for (size_t k = 0; k < inputs; ++k) {
          folder_->Store(k, 0, end - begin,
                         results[k] + (r * lanes + begin) * folder_->stored_bytes(k), work);
        }
      }
    }
  }
  int64_t Flops() const override {
    return rows_.rows() * rows_.lanes() * rows_.WindowSize() * folder_->FlopsPerElement();
  }

 private:
  // `n` operand elements offset, offset + offset_step, .. for lanes lane, lane + lane_step, ..
  struct LaneRun {
    int64_t lane, lane_step, n, offset, offset_step;
  };
  // Folds them into their lanes.
  void Meet(const LaneRun& run, ConstBuffers operands, std::byte* const* rooms,
            TileFolder::Workspace& work) const {
    const auto [lane, lane_step, n, offset, offset_step] = run;
    const int64_t pieces = lane_step == 1 ? 1 : n;
    const int64_t each = lane_step == 1 ? n : 1;
    for (int64_t i = 0; i < pieces; ++i) {
      for (size_t k = 0; k < folder_->inputs(); ++k) {
        const int64_t bytes = folder_->stored_bytes(k);
        const std::byte* source = operands[k] + (offset + i * offset_step) * bytes;
        if (offset_step == 1 || each == 1) {
          work.elements[k] = const_cast<std::byte*>(source);
        } else {
          work.elements[k] = rooms[k];
          GatherStrided(rooms[k], source, offset_step, bytes, each);
        }
      }
      folder_->Fold(lane + i * lane_step, each, work);
    }
  }

  WindowRows rows_;
  std::unique_ptr<TileFolder> folder_;
};

// One commutative and associative operation on [outer.., width, inner] whose last window is along
// `width`: the operand's rows under an output row are folded element by element into one line, then
// the line along its width.
class LineWindowKernel : public Kernel {
 public:
  LineWindowKernel(std::vector<SlidingDim> dims, Opcode operation, DType dtype)
      : dtype_(dtype),
        stored_bytes_(StorageBytes(dtype)),
        bytes_(StorageBytes(ComputeType(dtype))),
        combine_(ArithmeticFunction(operation, ComputeType(dtype))),
        load_(IsSmallFloat(dtype) ? LoadFunction(dtype) : nullptr),
        finish_(IsSmallFloat(dtype)       ? StoreFunction(dtype)
                : IsSubByteInteger(dtype) ? WrapFunction(dtype)
                                          : nullptr) {
    while (dims.back().IsTrivial()) {
      inner_ *= dims.back().output;
      dims.pop_back();
    }
    line_ = dims.back();
    dims.pop_back();
    outer_ = std::move(dims);
    for (const SlidingDim& dim : outer_) {
      rows_ *= dim.output;
      window_rows_ *= dim.window;
    }
    tile_ = std::clamp<int64_t>(kResultsAtOnce / std::max<int64_t>(inner_, 1), 1,
                                std::max<int64_t>(line_.output, 1));
    meets_ = std::min((tile_ - 1) * line_.stride + (line_.window - 1) * line_.window_dilation + 1,
                      line_.operand);
  }

  static bool Supports(std::span<const SlidingDim> dims, const TileFolder& folder) {
    return folder.inputs() == 1 && folder.operation().has_value() &&
           std::any_of(dims.begin(), dims.end(),
                       [](const SlidingDim& dim) { return !dim.IsTrivial(); });
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, rows_ * line_.output * inner_, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return line_.output * inner_; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    const int64_t lanes = line_.output * inner_;
    if (count == 0) return;
    const auto room = [&](int64_t elements) {
      return scratch.Allocate(static_cast<size_t>(elements * bytes_));
    };
    Workspace work{
        {}, room(meets_ * inner_), room(std::max(meets_, tile_) * inner_), room(tile_ * inner_)};
    if (load_ != nullptr) {
      load_(Tile{{operands[1], nullptr, nullptr}, work.init, 1, 0});
    } else {
      std::memcpy(work.init, operands[1], static_cast<size_t>(bytes_));
    }
    for (int64_t r = 0; r < count / lanes; ++r) {
      for (int64_t begin = 0; begin < line_.output; begin += tile_) {
        const int64_t end = std::min(begin + tile_, line_.output);
        RunTile(first / lanes + r, begin, end, operands[0],
                results[0] + (r * lanes + begin * inner_) * stored_bytes_, work);
      }
    }
  }
  int64_t Flops() const override {
    return rows_ * line_.output * inner_ * window_rows_ * line_.window;
  }

 private:
  static constexpr size_t kMaxRank = 64;
  struct Workspace {
    alignas(16) std::byte init[16];
    std::byte* line;    // of the operand's width
    std::byte* loaded;  // elements in their compute type, or gathered
    std::byte* sums;
  };

  void Combine(std::byte* sums, const std::byte* elements, int64_t n) const {
    combine_(Tile{{sums, elements, nullptr}, sums, n, DTypeBits(dtype_)});
  }

  // Outputs [begin, end) of a row.
  void RunTile(int64_t row, int64_t begin, int64_t end, const std::byte* operand, std::byte* result,
               Workspace& work) const {
    const int64_t n = (end - begin) * inner_;
    std::byte* sums = finish_ != nullptr ? work.sums : result;
    FillElements(sums, work.init, bytes_, n);
    const int64_t last = (end - 1) * line_.stride + (line_.window - 1) * line_.window_dilation;
    const int64_t low =
        std::max<int64_t>((begin * line_.stride - line_.pad_low) / line_.base_dilation, 0);
    const int64_t high = std::min(
        last < line_.pad_low ? 0 : (last - line_.pad_low) / line_.base_dilation + 1, line_.operand);
    if (low < high) {
      const std::byte* line = FoldRows(row, low, high, operand, work);
      if (line != nullptr) FoldLine(begin, end, line - low * inner_ * bytes_, sums, work);
    }
    if (finish_ != nullptr) finish_(Tile{{sums, nullptr, nullptr}, result, n, 0});
  }

  // Positions [low, high) of all operand rows under an output row, folded into one; null: there are
  // none.
  const std::byte* FoldRows(int64_t row, int64_t low, int64_t high, const std::byte* operand,
                            Workspace& work) const {
    int64_t output[kMaxRank], window[kMaxRank] = {};
    for (size_t i = outer_.size(); i-- > 0;) {
      output[i] = row % outer_[i].output;
      row /= outer_[i].output;
    }
    const int64_t n = (high - low) * inner_;
    const std::byte* folded = nullptr;
    for (int64_t w = 0; w < window_rows_; ++w) {
      int64_t at = 0;
      for (size_t i = 0; i < outer_.size() && at >= 0; ++i) {
        const int64_t index = outer_[i].Index(output[i], window[i]);
        at = index < 0 ? -1 : at * outer_[i].operand + index;
      }
      for (size_t i = outer_.size(); i-- > 0;) {
        if (++window[i] < outer_[i].window) break;
        window[i] = 0;
      }
      if (at < 0) continue;
      const std::byte* elements = operand + (at * line_.operand + low) * inner_ * stored_bytes_;
      if (load_ != nullptr) {
        std::byte* loaded = folded == nullptr ? work.line : work.loaded;
        load_(Tile{{elements, nullptr, nullptr}, loaded, n, 0});
        elements = loaded;
      }
      if (folded == nullptr) {
        folded = elements;  // in place until there is a second one
        continue;
      }
      combine_(Tile{{folded, elements, nullptr}, work.line, n, DTypeBits(dtype_)});
      folded = work.line;
    }
    return folded;
  }

  // `line` points at the operand's position 0.
  void FoldLine(int64_t begin, int64_t end, const std::byte* line, std::byte* sums,
                Workspace& work) const {
    const int64_t item = inner_ * bytes_;
    for (int64_t k = 0; k < line_.window; ++k) {
      const SlidingDim::Hits hits = line_.HitsOf(k, begin, end);
      if (hits.count <= 0) continue;
      const std::byte* from = line + hits.index * item;
      std::byte* to = sums + (hits.first - begin) * item;
      if (hits.step > 1) {
        for (int64_t i = 0; i < hits.count; ++i) {
          Combine(to + i * hits.step * item, from + i * hits.index_step * item, inner_);
        }
        continue;
      }
      if (hits.index_step > 1) {
        Gather(work.loaded, from, hits.index_step, hits.count);
        from = work.loaded;
      }
      Combine(to, from, hits.count * inner_);
    }
  }

  // Every stride-th position of a line.
  void Gather(std::byte* to, const std::byte* from, int64_t stride, int64_t count) const {
    const int64_t item = inner_ * bytes_;
    if (inner_ == 1) {
      GatherStrided(to, from, stride, bytes_, count);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * item, from + i * stride * item, static_cast<size_t>(item));
    }
  }

  DType dtype_;
  int64_t stored_bytes_, bytes_;
  TileFunction combine_, load_, finish_;
  std::vector<SlidingDim> outer_;
  SlidingDim line_;
  int64_t inner_ = 1;                   // elements of a position of the line
  int64_t rows_ = 1, window_rows_ = 1;  // of outputs; of the operand under one of them
  int64_t tile_ = 1;                    // outputs at a time
  int64_t meets_ = 1;                   // positions of the operand under a tile, at most
};

// out[i] = fold of x[0 .. i] (or x[i ..] when reversed) along one dim of [outer, length, inner].
class RunningFoldKernel : public Kernel {
 public:
  RunningFoldKernel(int64_t outer, int64_t length, int64_t inner, bool reverse,
                    std::unique_ptr<TileFolder> folder)
      : outer_(outer),
        length_(length),
        inner_(inner),
        reverse_(reverse),
        folder_(std::move(folder)) {}

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, outer_ * length_ * inner_, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return length_ * inner_; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    const int64_t row = length_ * inner_;
    if (row > 0) RunOuter(first / row, count / row, operands, results, scratch);
  }
  int64_t Flops() const override { return outer_ * length_ * inner_; }

 private:
  // Outer rows from `first` on; results point at the first of them.
  void RunOuter(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const {
    const Scratch::Mark mark = scratch.Position();
    const size_t inputs = folder_->inputs();
    auto** from = reinterpret_cast<const std::byte**>(
        scratch.Allocate(2 * inputs * sizeof(const std::byte*)));
    std::copy(operands.begin(), operands.end(), from);
    for (size_t k = 0; k < inputs; ++k) {
      from[k] += first * length_ * inner_ * folder_->stored_bytes(k);
    }
    const ConstBuffers moved{from, operands.size()};
    // Lanes: the inner dim, or (if there is none) several outer rows side by side.
    if (inner_ > 1) {
      for (int64_t o = 0; o < count; ++o) {
        for (int64_t i = 0; i < inner_; i += kResultsAtOnce) {
          Fold(o * length_ * inner_ + i, 1, std::min(kResultsAtOnce, inner_ - i), moved, results,
               scratch);
        }
      }
    } else {
      constexpr int64_t kRowsAtOnce = 128;
      for (int64_t o = 0; o < count; o += kRowsAtOnce) {
        Fold(o * length_, length_, std::min(kRowsAtOnce, count - o), moved, results, scratch);
      }
    }
    scratch.Rewind(mark);
  }

  // `n` lanes, `lane_step` elements apart, the first at `start`.
  void Fold(int64_t start, int64_t lane_step, int64_t n, ConstBuffers operands, Buffers results,
            Scratch& scratch) const {
    const Scratch::Mark mark = scratch.Position();
    TileFolder::Workspace work = folder_->MakeWorkspace(n, scratch);
    const size_t inputs = folder_->inputs();
    std::byte** rooms =
        reinterpret_cast<std::byte**>(scratch.Allocate(2 * inputs * sizeof(std::byte*)));
    for (size_t k = 0; k < inputs; ++k) {
      rooms[k] = work.elements[k];
      rooms[inputs + k] = scratch.Allocate(static_cast<size_t>(n * folder_->stored_bytes(k)));
    }
    const bool dense = lane_step == 1 || n == 1;
    folder_->Start(operands.data() + inputs, 0, n, work);
    for (int64_t step = 0; step < length_; ++step) {
      const int64_t at = start + (reverse_ ? length_ - 1 - step : step) * inner_;
      for (size_t k = 0; k < inputs; ++k) {
        const int64_t bytes = folder_->stored_bytes(k);
        const std::byte* source = operands[k] + at * bytes;
        work.elements[k] = dense ? const_cast<std::byte*>(source) : rooms[k];
        if (!dense) GatherStrided(rooms[k], source, lane_step, bytes, n);
      }
      folder_->Fold(0, n, work);
      for (size_t k = 0; k < inputs; ++k) {
        const int64_t bytes = folder_->stored_bytes(k);
        std::byte* target = results[k] + at * bytes;
        if (dense) {
          folder_->Store(k, 0, n, target, work);
          continue;
        }
        std::byte* stored = rooms[inputs + k];
        folder_->Store(k, 0, n, stored, work);
        for (int64_t i = 0; i < n; ++i) {
          std::memcpy(target + i * lane_step * bytes, stored + i * bytes,
                      static_cast<size_t>(bytes));
        }
      }
    }
    scratch.Rewind(mark);
  }

  int64_t outer_, length_, inner_;
  bool reverse_;
  std::unique_ptr<TileFolder> folder_;
};

// A window as long as the dim that ends (or, reversed, begins) at each output.
struct CumulativeDim {
  size_t dim;
  bool reverse;
};
std::optional<CumulativeDim> FindCumulativeDim(std::span<const SlidingDim> dims,
                                               const TileFolder& folder) {
  std::optional<CumulativeDim> found;
  for (size_t i = 0; i < dims.size(); ++i) {
    const SlidingDim& dim = dims[i];
    if (dim.IsTrivial()) continue;
    const bool grows = dim.window == dim.operand && dim.output == dim.operand && dim.stride == 1 &&
                       dim.base_dilation == 1 && dim.window_dilation == 1;
    if (found || !grows || (dim.pad_low != 0 && dim.pad_low != dim.window - 1)) {
      return std::nullopt;
    }
    found = CumulativeDim{i, dim.pad_low == 0};
  }
  // From the far end elements come in the opposite order: only where that is the same.
  if (found && found->reverse &&
      (!folder.operation() || FindReduceRows(*folder.operation(), DType::kS32) == nullptr)) {
    return std::nullopt;
  }
  return found;
}

KernelOrError MakeSlidingReduce(const Instruction& instruction) {
  const int64_t inputs = instruction.operand_count() / 2;
  std::vector<DType> dtypes;
  for (int64_t k = 0; k < inputs; ++k) dtypes.push_back(instruction.operand(k)->shape()->dtype());
  auto folder = GSHARD_TRY(TileFolder::Make(*instruction.called(0), std::move(dtypes)));
  const auto operand = instruction.operand(0)->shape()->dims();
  const Shape* result = instruction.shape();
  const auto output = (result->IsTuple() ? result->element(0) : result)->dims();
  const auto window = instruction.attributes<WindowAttributes>().window;
  const std::vector<SlidingDim> dims = SlidingDims(operand, output, window);
  if (const auto cumulative = FindCumulativeDim(dims, *folder)) {
    return std::make_unique<RunningFoldKernel>(
        Product(operand.first(cumulative->dim)), operand[cumulative->dim],
        Product(operand.subspan(cumulative->dim + 1)), cumulative->reverse, std::move(folder));
  }
  if (LineWindowKernel::Supports(dims, *folder)) {
    return std::make_unique<LineWindowKernel>(dims, *folder->operation(),
                                              instruction.operand(0)->shape()->dtype());
  }
  return std::make_unique<ReduceWindowKernel>(WindowRows(operand, output, window),
                                              std::move(folder));
}

// --- select-and-scatter

class SelectAndScatterKernel : public Kernel {
 public:
  SelectAndScatterKernel(const Instruction& instruction, std::unique_ptr<ScalarProgram> select,
                         std::unique_ptr<ScalarProgram> scatter, TileFunction combine)
      : rows_(instruction.operand(0)->shape()->dims(), instruction.operand(1)->shape()->dims(),
              instruction.attributes<WindowAttributes>().window),
        select_(std::move(select)),
        scatter_(std::move(scatter)),
        combine_(combine),
        bytes_(StorageBytes(instruction.shape()->dtype())),
        bits_(DTypeBits(instruction.shape()->dtype())),
        count_(instruction.shape()->element_count()) {}

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    FillElements(results[0], operands[2], bytes_, count_);
    const int64_t tile = std::min(kResultsAtOnce, rows_.lanes());
    if (tile == 0) return;
    Workspace work{scratch.Allocate(static_cast<size_t>(tile * bytes_)),
                   scratch.Allocate(static_cast<size_t>(tile * bytes_)),
                   reinterpret_cast<int64_t*>(scratch.Allocate(static_cast<size_t>(tile) * 8)),
                   reinterpret_cast<int64_t*>(scratch.Allocate(static_cast<size_t>(tile) * 8)),
                   reinterpret_cast<uint8_t*>(scratch.Allocate(static_cast<size_t>(tile))),
                   reinterpret_cast<uint8_t*>(scratch.Allocate(static_cast<size_t>(tile))),
                   &scratch};
    for (int64_t row = 0; row < rows_.rows(); ++row) {
      for (int64_t begin = 0; begin < rows_.lanes(); begin += tile) {
        const int64_t end = std::min(begin + tile, rows_.lanes());
        std::memset(work.have, 0, static_cast<size_t>(end - begin));
        rows_.ForEach(
            row, begin, end,
            [&](int64_t lane, int64_t lane_step, int64_t n, int64_t offset, int64_t offset_step) {
              Meet(lane - begin, lane_step, n, offset, offset_step, operands[0], work);
            });
        for (int64_t i = 0; i < end - begin; ++i) {
          if (work.have[i] == 0) continue;  // a window that holds padding only
          Scatter(results[0] + work.index[i] * bytes_,
                  operands[1] + (row * rows_.lanes() + begin + i) * bytes_, work);
        }
      }
    }
  }
  int64_t Flops() const override { return rows_.rows() * rows_.lanes() * rows_.WindowSize(); }

 private:
  struct Workspace {
    std::byte* selected;  // per lane
    std::byte* elements;
    int64_t* index;  // of the selected element
    int64_t* candidates;
    uint8_t* have;
    uint8_t* keep;
    Scratch* scratch;
  };

  void Meet(int64_t lane, int64_t lane_step, int64_t n, int64_t offset, int64_t offset_step,
            const std::byte* operand, Workspace& work) const {
    const int64_t pieces = lane_step == 1 ? 1 : n;
    const int64_t each = lane_step == 1 ? n : 1;
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t at = lane + i * lane_step;
      const int64_t from = offset + i * offset_step;
      GatherStrided(work.elements, operand + from * bytes_, offset_step, bytes_, each);
      for (int64_t l = 0; l < each; ++l) work.candidates[l] = from + l * offset_step;
      std::byte* selected = work.selected + at * bytes_;
      int64_t* index = work.index + at;
      uint8_t* have = work.have + at;
      const std::byte* arguments[2] = {selected, work.elements};
      std::byte* verdict = reinterpret_cast<std::byte*>(work.keep);
      // Lanes without a selected element compare garbage and take the newcomer.
      select_->Run(each, arguments, {&verdict, 1}, *work.scratch);
      for (int64_t l = 0; l < each; ++l)
        work.keep[l] = static_cast<uint8_t>(work.keep[l] & have[l]);
      SelectFunction(bytes_)(Tile{{work.keep, selected, work.elements}, selected, each, 0});
      SelectFunction(8)(Tile{{work.keep, index, work.candidates}, index, each, 0});
      std::memset(have, 1, static_cast<size_t>(each));
    }
  }

  void Scatter(std::byte* target, const std::byte* source, Workspace& work) const {
    if (combine_ != nullptr) {
      combine_(Tile{{target, source, nullptr}, target, 1, bits_});
      return;
    }
    const std::byte* arguments[2] = {target, source};
    scatter_->Run(1, arguments, {&target, 1}, *work.scratch);
  }

  WindowRows rows_;
  std::unique_ptr<ScalarProgram> select_, scatter_;
  TileFunction combine_;
  int64_t bytes_, bits_, count_;
};

KernelOrError MakeSelectAndScatter(const Instruction& instruction) {
  auto select = GSHARD_TRY(ScalarProgram::Compile(*instruction.called(0)));
  const DType dtype = instruction.shape()->dtype();
  const auto operation = SingleBinaryOperation(*instruction.called(1));
  if (operation && ComputeType(dtype) == dtype &&
      ArithmeticFunction(*operation, dtype) != nullptr) {
    return std::make_unique<SelectAndScatterKernel>(instruction, std::move(select), nullptr,
                                                    ArithmeticFunction(*operation, dtype));
  }
  auto scatter = GSHARD_TRY(ScalarProgram::Compile(*instruction.called(1)));
  return std::make_unique<SelectAndScatterKernel>(instruction, std::move(select),
                                                  std::move(scatter), nullptr);
}

}  // namespace

KernelOrError MakeReduceWindow(const Instruction& instruction) {
  return instruction.opcode() == Opcode::kReduceWindow ? MakeSlidingReduce(instruction)
                                                       : MakeSelectAndScatter(instruction);
}

}  // namespace gshard::cpu
