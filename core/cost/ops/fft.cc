// fft: 5 n log2 n operations a complex transform, half of it for real ones.

#include <algorithm>
#include <cmath>

#include "core/cost/rules.h"

namespace gshard {

OpCost FftCost(const Instruction& instruction) {
  const auto& fft = instruction.attributes<FftAttributes>();
  double points = 1;
  for (int64_t length : fft.length) points *= static_cast<double>(length);
  double elements = static_cast<double>(std::max(instruction.shape()->element_count(),
                                                 instruction.operand(0)->shape()->element_count()));
  double per_element = 5 * std::log2(std::max(2.0, points));
  bool real = fft.type == FftType::kRfft || fft.type == FftType::kIrfft;
  return {.flops = elements * per_element * (real ? 0.5 : 1)};
}

}  // namespace gshard
