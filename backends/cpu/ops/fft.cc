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
      room_ = std::max(room_, 2 * n * together + lines_.back().RoomElements(together));
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
    const SplitComplex box{Allocate(most * size_, scratch), Allocate(most * size_, scratch)};
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
    const SplitComplex box{Allocate(size_, scratch), Allocate(size_, scratch)};
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

  // Rows of boxes, which are as wide as the true length of the last dim, from those of batch
  // `batch` on.
  void Load(Range rows, ConstBuffers operands, int64_t batch, SplitComplex box) const {
    if (type_ == FftType::kRfft) {
      const T* in = reinterpret_cast<const T*>(operands[0]) + batch * in_size_;
      const int64_t begin = rows.begin * last_, count = (rows.end - rows.begin) * last_;
      std::copy_n(in + begin, count, box.real + begin);
      std::fill_n(box.imag + begin, count, 0.0);
      return;
    }
    const int64_t width = type_ == FftType::kIrfft ? half_ : last_;
    const auto* in = reinterpret_cast<const std::complex<T>*>(operands[0]) + batch * in_size_;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        box.real[row * last_ + i] = in[row * width + i].real();
        box.imag[row * last_ + i] = in[row * width + i].imag();
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
      for (int64_t i = rows.begin * last_; i < rows.end * last_; ++i) {
        out[i] = Result(box.real[i]);
      }
      return;
    }
    const int64_t width = type_ == FftType::kRfft ? half_ : last_;
    auto* out = reinterpret_cast<std::complex<T>*>(results[0]) + batch * out_size_;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        const int64_t at = row * last_ + i;
        out[row * width + i] = {Result(box.real[at]), Result(box.imag[at])};
      }
    }
  }

  // The lines of the last dim, which are rows.
  void TransformLast(Range rows, SplitComplex box, double* room) const {
    const int64_t together = Together(last_);
    const auto line = [&](int64_t row) {
      return SplitComplex{box.real + row * last_, box.imag + row * last_};
    };
    if (type_ == FftType::kIrfft && !real_line_) {
      for (int64_t row = rows.begin; row < rows.end; ++row) FillMirrored(line(row));
    }
    for (int64_t row = rows.begin; row < rows.end; row += together) {
      const int64_t count = std::min(together, rows.end - row);
      if (real_line_) {
        real_line_->Run(count, last_, line(row), room);
      } else {
        RunLines(lines_.back(), count, last_, 1, line(row), room);
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

  // `count` lines that begin at distance `step`, their elements at distance `inner`, to or from
  // interleaved ones. With kCount it is known to the compiler.
  template <bool kBack, int64_t kCount, int64_t kStep>
  static void Interleave(int64_t n, int64_t count, int64_t step, int64_t inner, double* box,
                         double* lines) {
    if constexpr (kCount > 0) count = kCount;
    if constexpr (kStep > 0) step = kStep;
    for (int64_t k = 0; k < n; ++k, box += inner, lines += count) {
      for (int64_t l = 0; l < count; ++l) {
        if constexpr (kBack) {
          box[l * step] = lines[l];
        } else {
          lines[l] = box[l * step];
        }
      }
    }
  }
  template <bool kBack>
  static void Interleave(int64_t n, int64_t count, int64_t step, int64_t inner, double* box,
                         double* lines) {
    if (count != kTogether) return Interleave<kBack, 0, 0>(n, count, step, inner, box, lines);
    if (step == 1) return Interleave<kBack, kTogether, 1>(n, count, step, inner, box, lines);
    Interleave<kBack, kTogether, 0>(n, count, step, inner, box, lines);
  }

  static void RunLines(const FftLine& line, int64_t count, int64_t step, int64_t inner,
                       SplitComplex box, double* room) {
    const int64_t n = line.length();
    const SplitComplex lines{room, room + n * count};
    Interleave<false>(n, count, step, inner, box.real, lines.real);
    Interleave<false>(n, count, step, inner, box.imag, lines.imag);
    line.Run(count, lines, room + 2 * n * count);
    Interleave<true>(n, count, step, inner, box.real, lines.real);
    Interleave<true>(n, count, step, inner, box.imag, lines.imag);
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
    int64_t inner = 1;
    for (size_t i = d + 1; i < lines_.size(); ++i) inner *= lines_[i].length();
    const int64_t inner_rows = inner / last_;
    for (int64_t group = groups.begin; group < groups.end; ++group) {
      const int64_t row = group / groups_of_row, k = group % groups_of_row * together;
      const int64_t at = row / inner_rows * n * inner + row % inner_rows * last_ + k;
      RunLines(line, std::min(together, width - k), 1, inner, {box.real + at, box.imag + at}, room);
    }
  }

  FftType type_;
  std::vector<FftLine> lines_;            // one a transformed dim
  std::optional<RealFftLine> real_line_;  // the last dim of real transforms, if its length is even
  int64_t size_ = 1;                      // elements of the box of one batch
  int64_t last_ = 1, half_ = 1;
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
