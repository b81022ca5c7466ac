// Windows that slide over a dense array: which operand element each window position meets.
//
// Along one dim, output o and window position k meet padded position o * stride + k *
// window_dilation - pad_low; it is an operand element if it is not negative, a multiple of the base
// dilation, and within the operand. Other positions (padding, holes) are skipped.
#ifndef GSHARD_BACKENDS_CPU_ARRAYS_WINDOW_GEOMETRY_H_
#define GSHARD_BACKENDS_CPU_ARRAYS_WINDOW_GEOMETRY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ir/attributes.h"

namespace gshard::cpu {

struct SlidingDim {
  int64_t operand = 1, output = 1;  // sizes
  int64_t window = 1, stride = 1, pad_low = 0, base_dilation = 1, window_dilation = 1;

  bool IsTrivial() const {
    return window == 1 && stride == 1 && pad_low == 0 && base_dilation == 1 && operand == output;
  }
  // Operand index that output o meets at window position k; -1: none.
  int64_t Index(int64_t o, int64_t k) const {
    const int64_t p = o * stride + k * window_dilation - pad_low;
    if (p < 0 || p % base_dilation != 0) return -1;
    const int64_t index = p / base_dilation;
    return index < operand ? index : -1;
  }
  // The outputs within [begin, end) that meet an operand element at window position k: first,
  // first + step, .. (count of them); their operand indices start at `index` and grow by
  // `index_step`.
  struct Hits {
    int64_t first = 0, step = 1, count = 0, index = 0, index_step = 1;
  };
  Hits HitsOf(int64_t k, int64_t begin, int64_t end) const;
};

// One entry per operand dim; `window` empty means all trivial.
std::vector<SlidingDim> SlidingDims(std::span<const int64_t> operand,
                                    std::span<const int64_t> output,
                                    std::span<const WindowDim> window);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ARRAYS_WINDOW_GEOMETRY_H_
