// Convolutions: two operations a multiply-add that meets an input element (padding and dilation
// holes are not counted).

#include <algorithm>

#include "core/cost/rules.h"

namespace gshard {
namespace {

// Pairs (output position, window position) of one spatial dim that meet an input element.
double ValidPairs(const WindowDim& window, int64_t input, int64_t output) {
  double pairs = 0;
  for (int64_t k = 0; k < window.size; ++k) {
    // position = y * stride + k * window_dilation - pad_low must be a multiple of base_dilation
    // within [0, (input - 1) * base_dilation].
    int64_t offset = k * window.window_dilation - window.pad_low;
    if (window.base_dilation == 1) {
      int64_t first = offset >= 0 ? 0 : (-offset + window.stride - 1) / window.stride;
      int64_t last = input - 1 - offset;
      int64_t end = last < 0 ? 0 : last / window.stride + 1;
      pairs += static_cast<double>(std::max<int64_t>(0, std::min(end, output) - first));
      continue;
    }
    for (int64_t y = 0; y < output; ++y) {
      int64_t position = y * window.stride + offset;
      if (position >= 0 && position % window.base_dilation == 0 &&
          position / window.base_dilation < input) {
        ++pairs;
      }
    }
  }
  return pairs;
}

}  // namespace

OpCost ConvolutionCost(const Instruction& instruction) {
  const auto& conv = instruction.attributes<ConvolutionAttributes>();
  const Shape* input = instruction.operand(0)->shape();
  const Shape* kernel = instruction.operand(1)->shape();
  const Shape* output = instruction.shape();
  double pairs = 1;
  for (size_t i = 0; i < conv.window.size(); ++i) {
    pairs *= ValidPairs(conv.window[i], input->dim(conv.input_spatial[i]),
                        output->dim(conv.output_spatial[i]));
  }
  double batch = static_cast<double>(output->dim(conv.output_batch));
  double features = static_cast<double>(output->dim(conv.output_feature));
  double depth = static_cast<double>(kernel->dim(conv.kernel_input_feature));
  double per_term = IsComplex(output->dtype()) ? 8 : 2;
  return {.flops = per_term * batch * features * depth * pairs};
}

}  // namespace gshard
