#include "ir/convolution_gradients.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "ir/dim_labels.h"

namespace gshard {
namespace {

void SetWindow(Arena& arena, ConvolutionAttributes& of, const std::vector<WindowDim>& window) {
  of.window = arena.Copy(std::span<const WindowDim>(window));
  of.dim_labels = arena.Copy(std::string_view(DimLabelsOf(of)));
  of.convolution_kind = {};
  of.sparsity_config = {};
}

}  // namespace

WindowDim TowardsBase(const WindowDim& window, int64_t input, int64_t output) {
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

ConvolutionAttributes InputGradient(Arena& arena, const ConvolutionAttributes& forward,
                                    const Shape* input, const Shape* output) {
  std::vector<WindowDim> window;
  for (size_t i = 0; i < forward.window.size(); ++i) {
    window.push_back(TowardsBase(forward.window[i], input->dim(forward.input_spatial[i]),
                                 output->dim(forward.output_spatial[i])));
  }
  ConvolutionAttributes back = forward;
  back.input_batch = forward.output_batch;
  back.input_feature = forward.output_feature;
  back.input_spatial = forward.output_spatial;
  back.output_batch = forward.input_batch;
  back.output_feature = forward.input_feature;
  back.output_spatial = forward.input_spatial;
  back.kernel_input_feature = forward.kernel_output_feature;
  back.kernel_output_feature = forward.kernel_input_feature;
  back.feature_group_count = std::max(forward.feature_group_count, forward.batch_group_count);
  back.batch_group_count = 1;
  SetWindow(arena, back, window);
  return back;
}

ConvolutionAttributes KernelGradient(Arena& arena, const ConvolutionAttributes& forward,
                                     const Shape* input, const Shape* kernel, const Shape* output) {
  std::vector<WindowDim> window;
  for (size_t i = 0; i < forward.window.size(); ++i) {
    const WindowDim& w = forward.window[i];
    WindowDim back;
    back.size = output->dim(forward.output_spatial[i]);
    back.stride = w.window_dilation;
    back.base_dilation = w.base_dilation;
    back.window_dilation = w.stride;
    back.pad_low = w.pad_low;
    // As many places as the kernel has, and no more.
    back.pad_high = DilatedSize(kernel->dim(forward.kernel_spatial[i]), w.window_dilation) - 1 +
                    DilatedSize(back.size, w.stride) -
                    DilatedSize(input->dim(forward.input_spatial[i]), w.base_dilation) - w.pad_low;
    window.push_back(back);
  }
  ConvolutionAttributes back = forward;
  back.input_batch = forward.input_feature;
  back.input_feature = forward.input_batch;
  back.kernel_input_feature = forward.output_batch;
  back.kernel_output_feature = forward.output_feature;
  back.kernel_spatial = forward.output_spatial;
  back.output_batch = forward.kernel_input_feature;
  back.output_feature = forward.kernel_output_feature;
  back.output_spatial = forward.kernel_spatial;
  back.feature_group_count = forward.batch_group_count;
  back.batch_group_count = forward.feature_group_count;
  SetWindow(arena, back, window);
  return back;
}

std::vector<int64_t> ReversedKernelDims(const ConvolutionAttributes& forward) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < forward.window.size(); ++i) {
    if (forward.window[i].reversal) dims.push_back(forward.kernel_spatial[i]);
  }
  return dims;
}

}  // namespace gshard
