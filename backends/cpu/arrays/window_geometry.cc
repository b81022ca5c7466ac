// Arithmetic progressions of outputs that meet operand elements.
#include "backends/cpu/arrays/window_geometry.h"

#include <algorithm>
#include <numeric>

namespace gshard::cpu {

SlidingDim::Hits SlidingDim::HitsOf(int64_t k, int64_t begin, int64_t end) const {
  Hits hits;
  const int64_t shift = k * window_dilation - pad_low;  // position of output 0
  // Outputs with o * stride + shift divisible by the base dilation recur every `step`.
  hits.step = base_dilation / std::gcd(stride, base_dilation);
  hits.index_step = stride * hits.step / base_dilation;
  const int64_t last_position = (operand - 1) * base_dilation;
  // o * stride + shift >= 0 and <= last_position.
  int64_t low = begin, high = end;
  if (shift < 0) low = std::max(low, (-shift + stride - 1) / stride);
  if (last_position - shift < 0) return hits;
  high = std::min(high, (last_position - shift) / stride + 1);
  int64_t first = low;
  const int64_t stop = std::min(high, low + hits.step);
  while (first < stop && (first * stride + shift) % base_dilation != 0) ++first;
  if (first >= stop) return hits;
  hits.first = first;
  hits.count = (high - first + hits.step - 1) / hits.step;
  hits.index = (first * stride + shift) / base_dilation;
  return hits;
}

std::vector<SlidingDim> SlidingDims(std::span<const int64_t> operand,
                                    std::span<const int64_t> output,
                                    std::span<const WindowDim> window) {
  std::vector<SlidingDim> dims;
  for (size_t i = 0; i < operand.size(); ++i) {
    SlidingDim dim;
    dim.operand = operand[i];
    dim.output = output[i];
    if (!window.empty()) {
      dim.window = window[i].size;
      dim.stride = window[i].stride;
      dim.pad_low = window[i].pad_low;
      dim.base_dilation = window[i].base_dilation;
      dim.window_dilation = window[i].window_dilation;
    }
    dims.push_back(dim);
  }
  return dims;
}

}  // namespace gshard::cpu
