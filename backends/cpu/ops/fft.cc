// fft: transforms over the last one to three dims, dim by dim, in f64 whatever the type.
//
// Real transforms are complex ones of half the length; of odd lengths, complex ones of which one
// half is not kept (RFFT) or filled in (IRFFT).
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "backends/cpu/kernels/fft_line.h"
#include "backends/cpu/kernels/real_fft_line.h"
#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {
namespace {

// Lines that are transformed side by side, as long as they stay in L2.
constexpr int64_t kTogether = RealFftLine::kMaxLines;
constexpr int64_t kLongest = 8192;
// Batches that are too few to be divided between threads.
constexpr int64_t kFew = 8;

// T: the real type of the elements.
template <typename T>
class FftKernel : public Kernel {
 public:
  explicit FftKernel(const Instruction& instruction)
      : type_(instruction.attributes<FftAttributes>().type) {
    const Dims length = instruction.attributes<FftAttributes>().length;
    const bool inverse = type_ == FftType::kIfft || type_ == FftType::kIrfft;
    for (const int64_t n : length) {
      lines_.emplace_back(n, inverse);
      const int64_t together = Together(n);
      room_ =
          std::max(room_, 2 * PartDistance(n * together) + lines_.back().RoomElements(together));
      size_ *= n;
    }
    if (inverse && size_ > 0) scale_ = 1 / static_cast<double>(size_);
    last_ = length.back();
    const bool is_real = type_ == FftType::kRfft || type_ == FftType::kIrfft;
    if (is_real && last_ > 0 && last_ % 2 == 0) {
      real_line_.emplace(last_, inverse);
      room_ = std::max(room_, real_line_->RoomElements(Together(last_)));
    }
    half_ = last_ == 0 ? 0 : last_ / 2 + 1;
    pitch_ = last_ + (lines_.size() > 1 ? kTogether : 0);
    const int64_t rows = last_ == 0 ? 0 : size_ / last_;
    in_size_ = type_ == FftType::kIrfft ? rows * half_ : size_;
    out_size_ = type_ == FftType::kRfft ? rows * half_ : size_;
    batch_ = out_size_ == 0 ? 0 : instruction.shape()->element_count() / out_size_;
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, batch_ * out_size_, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return out_size_; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    if (count == 0) return;
    // Of single lines several batches are taken at once.
    const int64_t most = lines_.size() == 1 ? Together(last_) : 1;
    const SplitComplex box = AllocateBox(most, scratch);
    double* room = Allocate(room_, scratch);
    const int64_t batches = count / out_size_;
    for (int64_t b = 0; b < batches; b += most) {
      const Range rows = {0, std::min(most, batches - b) * size_ / last_};
      Load(rows, operands, first / out_size_ + b, box);
      if (!IsLastAtTheEnd()) TransformLast(rows, box, room);
      for (size_t d = lines_.size() - 1; d-- > 0;) TransformDim(d, {0, GroupsOf(d)}, box, room);
      if (IsLastAtTheEnd()) TransformLast(rows, box, room);
      Store(rows, box, results, b);
    }
  }

  // Boxes of several dims are transformed dim by dim, lines at once.
  bool RunsInSteps() const override { return lines_.size() > 1 && batch_ > 0 && batch_ <= kFew; }
  void RunSteps(const PieceRunner& run, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    const SplitComplex box = AllocateBox(1, scratch);
    const int64_t rows = size_ / last_;
    for (int64_t b = 0; b < batch_; ++b) {
      run(rows, Together(last_), [&](Range part, Scratch& own) {
        Load(part, operands, b, box);
        if (!IsLastAtTheEnd()) TransformLast(part, box, Allocate(room_, own));
      });
      for (size_t d = lines_.size() - 1; d-- > 0;) {
        run(GroupsOf(d), 1,
            [&](Range part, Scratch& own) { TransformDim(d, part, box, Allocate(room_, own)); });
      }
      run(rows, Together(last_), [&](Range part, Scratch& own) {
        if (IsLastAtTheEnd()) TransformLast(part, box, Allocate(room_, own));
        Store(part, box, results, b);
      });
    }
  }
  int64_t Flops() const override {
    int64_t bits = 0;
    while ((int64_t{1} << bits) < size_) ++bits;
    return 5 * batch_ * size_ * bits;
  }

 private:
  static int64_t Together(int64_t n) { return n <= kLongest ? kTogether : 1; }
  static double* Allocate(int64_t count, Scratch& scratch) {
    return reinterpret_cast<double*>(scratch.Allocate(static_cast<size_t>(count) * sizeof(double)));
  }
  SplitComplex AllocateBox(int64_t batches, Scratch& scratch) const {
    const int64_t elements = batches * size_ / last_ * pitch_;
    return {Allocate(elements, scratch), Allocate(elements, scratch)};
  }

  // Rows of boxes, at a distance of `pitch_`, from those of batch `batch` on. They have the true
  // length of the last dim.
  void Load(Range rows, ConstBuffers operands, int64_t batch, SplitComplex box) const {
    if (type_ == FftType::kRfft) {
      const T* in = reinterpret_cast<const T*>(operands[0]) + batch * in_size_;
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        std::copy_n(in + row * last_, last_, box.real + row * pitch_);
        std::fill_n(box.imag + row * pitch_, last_, 0.0);
      }
      return;
    }
    const int64_t width = type_ == FftType::kIrfft ? half_ : last_;
    const auto* in = reinterpret_cast<const std::complex<T>*>(operands[0]) + batch * in_size_;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        box.real[row * pitch_ + i] = in[row * width + i].real();
        box.imag[row * pitch_ + i] = in[row * width + i].imag();
      }
    }
  }
  // One NaN for all: which of two operands' NaNs a sum takes is the compiler's choice, another one
  // for lines side by side than for one.
  T Result(double value) const {
    return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(value * scale_);
  }
  void Store(Range rows, SplitComplex box, Buffers results, int64_t batch) const {
    if (type_ == FftType::kIrfft) {
      T* out = reinterpret_cast<T*>(results[0]) + batch * out_size_;
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        for (int64_t i = 0; i < last_; ++i)
          out[row * last_ + i] = Result(box.real[row * pitch_ + i]);
      }
      return;
    }
    const int64_t width = type_ == FftType::kRfft ? half_ : last_;
    auto* out = reinterpret_cast<std::complex<T>*>(results[0]) + batch * out_size_;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        const int64_t at = row * pitch_ + i;
        out[row * width + i] = {Result(box.real[at]), Result(box.imag[at])};
      }
    }
  }

  // The lines of the last dim, which are rows.
  void TransformLast(Range rows, SplitComplex box, double* room) const {
    const int64_t together = Together(last_);
    const auto line = [&](int64_t row) {
      return SplitComplex{box.real + row * pitch_, box.imag + row * pitch_};
    };
    if (type_ == FftType::kIrfft && !real_line_) {
      for (int64_t row = rows.begin; row < rows.end; ++row) FillMirrored(line(row));
    }
    for (int64_t row = rows.begin; row < rows.end; row += together) {
      const int64_t count = std::min(together, rows.end - row);
      if (real_line_) {
        real_line_->Run(count, pitch_, line(row), room);
      } else {
        RunRows(count, line(row), room);
      }
    }
    if (type_ != FftType::kRfft) return;
    for (int64_t row = rows.begin; row < rows.end; ++row) ClearImaginary(line(row).imag);
  }

  // Of a real signal bin 0 and, for even n, bin n/2 are real.
  void ClearImaginary(double* imag) const {
    imag[0] = 0;
    if (last_ % 2 == 0) imag[last_ / 2] = 0;
  }

  // Bin n-i is the conjugate of bin i.
  void FillMirrored(SplitComplex line) const {
    ClearImaginary(line.imag);
    for (int64_t i = half_; i < last_; ++i) {
      line.real[i] = line.real[last_ - i];
      line.imag[i] = -line.imag[last_ - i];
    }
  }

  // `count` lines that begin at distance `pitch_`, their elements side by side, to or from
  // interleaved ones. With kCount it is known to the compiler.
  template <bool kBack, int64_t kCount>
  void Interleave(int64_t n, int64_t count, double* box, double* lines) const {
    if constexpr (kCount > 0) count = kCount;
    for (int64_t k = 0; k < n; ++k, ++box, lines += count) {
      for (int64_t l = 0; l < count; ++l) {
        if constexpr (kBack) {
          box[l * pitch_] = lines[l];
        } else {
          lines[l] = box[l * pitch_];
        }
      }
    }
  }
  template <bool kBack>
  void Interleave(int64_t n, int64_t count, double* box, double* lines) const {
    if (count == kTogether) return Interleave<kBack, kTogether>(n, count, box, lines);
    Interleave<kBack, 0>(n, count, box, lines);
  }

  // `count` rows.
  void RunRows(int64_t count, SplitComplex rows, double* room) const {
    const FftLine& line = lines_.back();
    const int64_t n = line.length(), distance = PartDistance(n * count);
    const SplitComplex lines{room, room + distance};
    Interleave<false>(n, count, rows.real, lines.real);
    Interleave<false>(n, count, rows.imag, lines.imag);
    line.Run(count, count, lines, room + 2 * distance);
    Interleave<true>(n, count, rows.real, lines.real);
    Interleave<true>(n, count, rows.imag, lines.imag);
  }

  // IRFFT transforms the last dim when the kept half is complete.
  bool IsLastAtTheEnd() const { return type_ == FftType::kIrfft; }
  // Of the last dim, IRFFT has only the first half before it is transformed, and RFFT keeps no
  // more.
  int64_t WidthBeside() const {
    return type_ == FftType::kRfft || type_ == FftType::kIrfft ? half_ : last_;
  }
  // Of a dim before the last one: its lines side by side, as many as are transformed together.
  int64_t GroupsOf(size_t d) const {
    const int64_t together = Together(lines_[d].length());
    return size_ / lines_[d].length() / last_ * ((WidthBeside() + together - 1) / together);
  }
  void TransformDim(size_t d, Range groups, SplitComplex box, double* room) const {
    const FftLine& line = lines_[d];
    const int64_t n = line.length(), together = Together(n), width = WidthBeside();
    const int64_t groups_of_row = (width + together - 1) / together;
    int64_t inner_rows = 1;
    for (size_t i = d + 1; i + 1 < lines_.size(); ++i) inner_rows *= lines_[i].length();
    const int64_t inner = inner_rows * pitch_;
    for (int64_t group = groups.begin; group < groups.end; ++group) {
      const int64_t row = group / groups_of_row, k = group % groups_of_row * together;
      const int64_t at = row / inner_rows * n * inner + row % inner_rows * pitch_ + k;
      line.Run(std::min(together, width - k), inner, {box.real + at, box.imag + at}, room);
    }
  }

  FftType type_;
  std::vector<FftLine> lines_;            // one a transformed dim
  std::optional<RealFftLine> real_line_;  // the last dim of real transforms, if its length is even
  int64_t size_ = 1;                      // elements of the box of one batch
  int64_t last_ = 1, half_ = 1;
  // From one row of a box to the next: more than a row, since the columns of rows whose length is a
  // power of two would share few sets of the cache.
  int64_t pitch_ = 1;
  int64_t in_size_ = 1, out_size_ = 1, batch_ = 1;
  int64_t room_ = 0;
  double scale_ = 1;
};

}  // namespace

KernelOrError MakeFft(const Instruction& instruction) {
  const DType type = instruction.operand(0)->shape()->dtype();
  if (type == DType::kC64 || type == DType::kF32) {
    return std::make_unique<FftKernel<float>>(instruction);
  }
  return std::make_unique<FftKernel<double>>(instruction);
}

}  // namespace gshard::cpu
