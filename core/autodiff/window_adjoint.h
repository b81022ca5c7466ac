// Windows seen from the other side: what convolution and reduce-window have in common.
#ifndef GSHARD_CORE_AUTODIFF_WINDOW_ADJOINT_H_
#define GSHARD_CORE_AUTODIFF_WINDOW_ADJOINT_H_

#include "ir/attributes.h"

namespace gshard {

// Elements from the first to the last of `size` spread by `dilation`.
inline int64_t DilatedSize(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

// The window that takes adjoints of the result (`output` elements) back to the base (`input`):
// input position i meets output o at window position k iff i = o * stride + k * dilation - low.
inline WindowDim TowardsBase(const WindowDim& window, int64_t input, int64_t output) {
  const int64_t reach = DilatedSize(window.size, window.window_dilation) - 1;
  WindowDim back;
  back.size = window.size;
  back.stride = window.base_dilation;
  back.base_dilation = window.stride;
  back.window_dilation = window.window_dilation;
  back.pad_low = reach - window.pad_low;
  back.pad_high = DilatedSize(input, window.base_dilation) - DilatedSize(output, window.stride) -
                  back.pad_low + reach;
  back.reversal = !window.reversal;
  return back;
}

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_WINDOW_ADJOINT_H_
