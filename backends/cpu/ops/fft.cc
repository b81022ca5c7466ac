// fft: transforms over the last one to three dims, dim by dim, in f64 whatever the type.
//
// Real transforms are complex ones of which one half is not kept (RFFT) or filled in (IRFFT).
#include <algorithm>
#include <complex>
#include <vector>

#include "backends/cpu/kernels/fft_line.h"
#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {
namespace {

using Complex = FftLine::Complex;

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
      room_ = std::max(room_, n + lines_.back().RoomElements());
      size_ *= n;
    }
    if (inverse && size_ > 0) scale_ = 1 / static_cast<double>(size_);
    last_ = length.back();
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
    Complex* box = Allocate(size_, scratch);
    Complex* room = Allocate(room_, scratch);
    for (int64_t b = 0; b < count / out_size_; ++b) {
      const int64_t index = first / out_size_ + b;
      if (type_ == FftType::kRfft) {
        Load(reinterpret_cast<const T*>(operands[0]) + index * in_size_, box);
      } else {
        Load(reinterpret_cast<const std::complex<T>*>(operands[0]) + index * in_size_, box);
      }
      Transform(box, room);
      if (type_ == FftType::kIrfft) {
        T* out = reinterpret_cast<T*>(results[0]) + b * out_size_;
        for (int64_t i = 0; i < size_; ++i) out[i] = static_cast<T>(box[i].real() * scale_);
      } else {
        Store(box, reinterpret_cast<std::complex<T>*>(results[0]) + b * out_size_);
      }
    }
  }
  int64_t Flops() const override {
    int64_t bits = 0;
    while ((int64_t{1} << bits) < size_) ++bits;
    return 5 * batch_ * size_ * bits;
  }

 private:
  static Complex* Allocate(int64_t count, Scratch& scratch) {
    return reinterpret_cast<Complex*>(
        scratch.Allocate(static_cast<size_t>(count) * sizeof(Complex)));
  }

  // The box of one batch, as wide as the true length of the last dim.
  template <typename Element>
  void Load(const Element* in, Complex* box) const {
    const int64_t width = type_ == FftType::kIrfft ? half_ : last_;
    for (int64_t row = 0; row < size_ / last_; ++row) {
      for (int64_t i = 0; i < width; ++i) box[row * last_ + i] = Complex(in[row * width + i]);
    }
  }
  void Store(const Complex* box, std::complex<T>* out) const {
    const int64_t width = type_ == FftType::kRfft ? half_ : last_;
    for (int64_t row = 0; row < size_ / last_; ++row) {
      for (int64_t i = 0; i < width; ++i) {
        out[row * width + i] = std::complex<T>(box[row * last_ + i] * scale_);
      }
    }
  }

  // IRFFT transforms the last dim at the end, when the kept half is complete.
  void Transform(Complex* box, Complex* room) const {
    const size_t rank = lines_.size();
    if (type_ != FftType::kIrfft) TransformDim(rank - 1, box, room);
    for (size_t d = rank - 1; d-- > 0;) TransformDim(d, box, room);
    if (type_ == FftType::kIrfft) {
      for (int64_t row = 0; row < size_ / last_; ++row) FillMirrored(box + row * last_);
      TransformDim(rank - 1, box, room);
    }
  }

  // Bin n-i is the conjugate of bin i; bin 0 and, for even n, bin n/2 are real.
  void FillMirrored(Complex* line) const {
    line[0] = line[0].real();
    if (last_ % 2 == 0) line[last_ / 2] = line[last_ / 2].real();
    for (int64_t i = half_; i < last_; ++i) line[i] = std::conj(line[last_ - i]);
  }

  void TransformDim(size_t d, Complex* box, Complex* room) const {
    const FftLine& line = lines_[d];
    const int64_t n = line.length();
    int64_t inner = 1;
    for (size_t i = d + 1; i < lines_.size(); ++i) inner *= lines_[i].length();
    if (inner == 1) {
      for (int64_t row = 0; row < size_ / n; ++row) line.Run(box + row * n, room);
      return;
    }
    // Of the last dim, IRFFT has only the first half so far, and RFFT keeps no more.
    const bool partial = type_ == FftType::kRfft || type_ == FftType::kIrfft;
    for (int64_t outer = 0; outer < size_ / (n * inner); ++outer) {
      for (int64_t k = 0; k < inner; ++k) {
        if (partial && k % last_ >= half_) continue;
        Complex* start = box + outer * n * inner + k;
        for (int64_t i = 0; i < n; ++i) room[i] = start[i * inner];
        line.Run(room, room + n);
        for (int64_t i = 0; i < n; ++i) start[i * inner] = room[i];
      }
    }
  }

  FftType type_;
  std::vector<FftLine> lines_;  // one a transformed dim
  int64_t size_ = 1;            // elements of the box of one batch
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
