// convolution: two convolutions of the adjoint.
//
//   y = conv(x, w), window {size=3 stride=2 pad=1_1}
//   x += conv(c, w reversed, in and out features exchanged), window {size=3 pad=1_2 lhs_dilate=2}
//   w += conv(x, c, batch as feature), window {size=m pad=1_1 rhs_dilate=2}

#include <algorithm>

#include "core/autodiff/emit.h"
#include "core/autodiff/reverse_scope.h"
#include "core/autodiff/window_adjoint.h"
#include "ir/dim_labels.h"

namespace gshard {
namespace {

Instruction* MakeConvolution(Builder& b, Instruction* lhs, Instruction* rhs,
                             ConvolutionAttributes attributes, std::span<const WindowDim> window,
                             const Shape* like) {
  Arena& arena = b.module().arena();
  attributes.window = arena.Copy(window);
  attributes.dim_labels = arena.Copy(std::string_view(DimLabelsOf(attributes)));
  attributes.convolution_kind = {};
  attributes.sparsity_config = {};
  const DType a = lhs->shape()->dtype(), c = rhs->shape()->dtype();
  const DType wide = DTypeBits(a) > DTypeBits(c) ? a : c;
  Instruction* operands[] = {b.Convert(lhs, wide), b.Convert(rhs, wide)};
  Instruction* result =
      b.Add(Opcode::kConvolution, operands, attributes, b.context().Array(wide, like->dims()));
  return result;
}

void TowardsInput(Instruction* x, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const auto& conv = x->attributes<ConvolutionAttributes>();
  const Shape* input = x->operand(0)->shape();
  std::vector<WindowDim> window;
  for (size_t i = 0; i < conv.window.size(); ++i) {
    window.push_back(TowardsBase(conv.window[i], input->dim(conv.input_spatial[i]),
                                 x->shape()->dim(conv.output_spatial[i])));
  }
  const int64_t groups = std::max(conv.feature_group_count, conv.batch_group_count);
  // Kernel [ig, G*og] -> [og, G*ig], named by what the dims are now.
  Instruction* kernel = b.MoveGroups(scope.Value(x->operand(1)), conv.kernel_output_feature,
                                     conv.kernel_input_feature, groups);
  ConvolutionAttributes back = conv;
  back.input_batch = conv.output_batch;
  back.input_feature = conv.output_feature;
  back.input_spatial = conv.output_spatial;
  back.output_batch = conv.input_batch;
  back.output_feature = conv.input_feature;
  back.output_spatial = conv.input_spatial;
  back.kernel_input_feature = conv.kernel_output_feature;
  back.kernel_output_feature = conv.kernel_input_feature;
  back.feature_group_count = groups;
  back.batch_group_count = 1;
  std::vector<int64_t> dims(input->dims().begin(), input->dims().end());
  dims[At(conv.input_batch)] /= conv.batch_group_count;
  dims[At(conv.input_feature)] *= conv.batch_group_count;
  Instruction* result =
      MakeConvolution(b, c, kernel, back, window, b.context().Array(input->dtype(), dims));
  result = b.MoveGroups(result, conv.input_feature, conv.input_batch, conv.batch_group_count);
  scope.Add(x->operand(0), b.Convert(result, input->dtype()));
}

void TowardsKernel(Instruction* x, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const auto& conv = x->attributes<ConvolutionAttributes>();
  const Shape* input = x->operand(0)->shape();
  const Shape* kernel = x->operand(1)->shape();
  std::vector<WindowDim> window;
  std::vector<int64_t> reversed;
  for (size_t i = 0; i < conv.window.size(); ++i) {
    const WindowDim& w = conv.window[i];
    WindowDim back;
    back.size = x->shape()->dim(conv.output_spatial[i]);
    back.stride = w.window_dilation;
    back.base_dilation = w.base_dilation;
    back.window_dilation = w.stride;
    back.pad_low = w.pad_low;
    back.pad_high = DilatedSize(w.size, w.window_dilation) - 1 + DilatedSize(back.size, w.stride) -
                    DilatedSize(input->dim(conv.input_spatial[i]), w.base_dilation) - w.pad_low;
    window.push_back(back);
    if (w.reversal) reversed.push_back(conv.kernel_spatial[i]);
  }
  ConvolutionAttributes back = conv;
  back.input_batch = conv.input_feature;
  back.input_feature = conv.input_batch;
  back.kernel_input_feature = conv.output_batch;
  back.kernel_output_feature = conv.output_feature;
  back.kernel_spatial = conv.output_spatial;
  back.output_batch = conv.kernel_input_feature;
  back.output_feature = conv.kernel_output_feature;
  back.output_spatial = conv.kernel_spatial;
  back.feature_group_count = conv.batch_group_count;
  back.batch_group_count = conv.feature_group_count;
  Instruction* result =
      MakeConvolution(b, scope.Value(x->operand(0)), c, back, window, kernel->bare());
  if (!reversed.empty()) {
    Instruction* operands[] = {result};
    result = b.Add(Opcode::kReverse, operands, DimensionsAttributes{b.Copy(reversed)});
  }
  scope.Add(x->operand(1), b.Convert(result, kernel->dtype()));
}

}  // namespace

Expected<void> GradConvolution(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  if (scope.Wants(x->operand(0))) TowardsInput(x, adjoints[0], scope);
  if (scope.Wants(x->operand(1))) TowardsKernel(x, adjoints[0], scope);
  return {};
}

}  // namespace gshard
