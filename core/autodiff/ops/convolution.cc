// convolution: two convolutions of the adjoint (ir/convolution_gradients.h).
#include <algorithm>

#include "core/autodiff/emit.h"
#include "core/autodiff/reverse_scope.h"
#include "ir/convolution_gradients.h"

namespace gshard {
namespace {

// Of two types perhaps: in the wider one.
Instruction* MakeConvolution(Builder& b, Instruction* lhs, Instruction* rhs,
                             const ConvolutionAttributes& attributes, const Shape* like) {
  const DType a = lhs->shape()->dtype(), c = rhs->shape()->dtype();
  const DType wide = DTypeBits(a) > DTypeBits(c) ? a : c;
  Instruction* operands[] = {b.Convert(lhs, wide), b.Convert(rhs, wide)};
  return b.Add(Opcode::kConvolution, operands, attributes, b.context().Array(wide, like->dims()));
}

void TowardsInput(Instruction* x, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const auto& conv = x->attributes<ConvolutionAttributes>();
  const Shape* input = x->operand(0)->shape();
  const ConvolutionAttributes back = InputGradient(b.module().arena(), conv, input, x->shape());
  // Kernel [ig, G*og] -> [og, G*ig], named by what the dims are now.
  Instruction* kernel = b.MoveGroups(scope.Value(x->operand(1)), conv.kernel_output_feature,
                                     conv.kernel_input_feature, back.feature_group_count);
  std::vector<int64_t> dims(input->dims().begin(), input->dims().end());
  dims[At(conv.input_batch)] /= conv.batch_group_count;
  dims[At(conv.input_feature)] *= conv.batch_group_count;
  Instruction* result =
      MakeConvolution(b, c, kernel, back, b.context().Array(input->dtype(), dims));
  result = b.MoveGroups(result, conv.input_feature, conv.input_batch, conv.batch_group_count);
  scope.Add(x->operand(0), b.Convert(result, input->dtype()));
}

void TowardsKernel(Instruction* x, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const auto& conv = x->attributes<ConvolutionAttributes>();
  const Shape* kernel = x->operand(1)->shape();
  const ConvolutionAttributes back =
      KernelGradient(b.module().arena(), conv, x->operand(0)->shape(), kernel, x->shape());
  Instruction* result = MakeConvolution(b, scope.Value(x->operand(0)), c, back, kernel->bare());
  const std::vector<int64_t> reversed = ReversedKernelDims(conv);
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
