// fft: the transform's matrix is symmetric.
//
//   FFT, IFFT   x += the same transform of c
//   RFFT        x += real(FFT(c, zeros appended))
//   IRFFT       x += conj(RFFT(c)) / n, twice for what stands for two bins

#include "core/autodiff/emit.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {

Expected<void> GradFft(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  const auto& fft = x->attributes<FftAttributes>();
  Instruction* c = adjoints[0];
  const int64_t last = c->shape()->rank() - 1;
  if (x->shape()->element_count() == 0) return {};
  auto transform = [&](Instruction* of, FftType type) {
    Instruction* operands[] = {of};
    return b.Add(Opcode::kFft, operands, FftAttributes{type, fft.length});
  };
  switch (fft.type) {
    case FftType::kFft:
    case FftType::kIfft:
      scope.Add(x->operand(0), transform(c, fft.type));
      break;
    case FftType::kRfft: {
      const int64_t missing = x->operand(0)->shape()->dim(last) - x->shape()->dim(last);
      c = b.PadDimension(c, b.Scalar(c->shape()->dtype(), 0), last, 0, missing);
      scope.Add(x->operand(0), e.Real(transform(c, FftType::kFft)));
      break;
    }
    case FftType::kIrfft: {
      Instruction* bins = e.Conj(transform(c, FftType::kRfft));
      double count = 1;
      for (int64_t length : fft.length) count *= static_cast<double>(length);
      const int64_t n = fft.length.back();
      const Shape* index = b.context().Array(DType::kS32, bins->shape()->dims());
      Instruction* bin = b.Iota(index, last);
      // Bin 0, and n/2 of an even n, stand for themselves only.
      Instruction* once = e.Equal(bin, e.Like(bin, 0));
      if (n % 2 == 0) {
        once = b.Binary(Opcode::kOr, once, e.Equal(bin, e.Like(bin, static_cast<double>(n / 2))));
      }
      scope.Add(x->operand(0),
                e.Mul(bins, b.Select(once, e.Like(bins, 1 / count), e.Like(bins, 2 / count))));
      break;
    }
  }
  return {};
}

}  // namespace gshard
