#include "ir/ops/shape_rules.h"

namespace gshard {

ShapeResult InferFft(Context& ctx, const OpView& op) {
  const Shape* x = op.operands[0];
  const auto& fft = op.as<FftAttributes>();
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  const int64_t count = static_cast<int64_t>(fft.length.size());
  if (count < 1 || count > 3 || count > x->rank()) {
    return Wrong("fft_length must have 1 to 3 entries, no more than the dims of {}, found {}",
                 Text(x), DimsText(fft.length));
  }
  const bool real_input = fft.type == FftType::kRfft;
  if (real_input ? (x->dtype() != DType::kF32 && x->dtype() != DType::kF64)
                 : !IsComplex(x->dtype())) {
    return Wrong("this fft_type takes {}, found {}", real_input ? "f32 or f64" : "complex numbers",
                 Text(x));
  }
  const int64_t first = x->rank() - count;
  ResultDims dims(x);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = fft.length[static_cast<size_t>(i)];
    const int64_t dim = first + i;
    const bool last = i + 1 == count;
    if (length < 0) return Wrong("fft_length must not be negative, found {}", DimsText(fft.length));
    const int64_t half = length == 0 ? 0 : length / 2 + 1;
    const int64_t wanted = last && fft.type == FftType::kIrfft ? half : length;
    if (!SizesAgree(x->dim(dim), wanted)) {
      return Wrong("fft_length={} needs size {} in dim {}, found {}", DimsText(fft.length), wanted,
                   dim, Text(x));
    }
    if (last && fft.type == FftType::kRfft) dims.Set(dim, half, x->IsDynamic(dim));
    if (last && fft.type == FftType::kIrfft) dims.Set(dim, length, x->IsDynamic(dim));
  }
  DType type = x->dtype();
  if (fft.type == FftType::kRfft) type = type == DType::kF32 ? DType::kC64 : DType::kC128;
  if (fft.type == FftType::kIrfft) type = type == DType::kC64 ? DType::kF32 : DType::kF64;
  return dims.Make(ctx, type);
}

}  // namespace gshard
