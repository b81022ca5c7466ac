// The gradients of a convolution as convolutions, and windows seen from the other side.
//
//   y = conv(x, w), window {size=3 stride=2 pad=1_1}
//   of x: conv(dy, w reversed, in and out features exchanged), window {size=3 pad=1_2 lhs_dilate=2}
//   of w: conv(x, dy, batch as feature), window {size=m pad=1_1 rhs_dilate=2}
#ifndef GSHARD_IR_CONVOLUTION_GRADIENTS_H_
#define GSHARD_IR_CONVOLUTION_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "ir/arena.h"
#include "ir/attributes.h"
#include "ir/shape.h"

namespace gshard {

// Elements from the first to the last of `size` that lie `dilation` apart.
inline int64_t DilatedSize(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

// The window that takes gradients of the result (`output` elements) back to the base (`input`):
// input position i meets output o at window position k iff i = o * stride + k * dilation - low.
WindowDim TowardsBase(const WindowDim& window, int64_t input, int64_t output);

// Of the gradient of `input`: a convolution of the result's gradient and the kernel, whose features
// have changed places by groups (Builder::MoveGroups from the output features to the input
// features). Groups of the batch are groups of features in it. Lists are the arena's.
ConvolutionAttributes InputGradient(Arena& arena, const ConvolutionAttributes& forward,
                                    const Shape* input, const Shape* output);

// Of the gradient of `kernel`: a convolution of the input and the result's gradient. What it makes
// has the dims that ReversedKernelDims names the wrong way around.
ConvolutionAttributes KernelGradient(Arena& arena, const ConvolutionAttributes& forward,
                                     const Shape* input, const Shape* kernel, const Shape* output);

// Dims of the kernel that the convolution reads from the end.
std::vector<int64_t> ReversedKernelDims(const ConvolutionAttributes& forward);

}  // namespace gshard

#endif  // GSHARD_IR_CONVOLUTION_GRADIENTS_H_
