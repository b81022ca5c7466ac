// Convolutions of cuDNN and their gradients. The window is always the forward convolution's.
#include <algorithm>
#include <map>
#include <string>

#include "core/transforms/expand/library_calls.h"
#include "ir/call_config.h"
#include "ir/dim_labels.h"

namespace gshard {
namespace {

// Elements that a window spans, gaps included.
int64_t Span(const WindowDim& w) { return (w.size - 1) * w.window_dilation + 1; }

// A convolution and what is done with its elements, node by node.
constexpr std::string_view kGraphTarget = "__cudnn$convForwardGraph";

class ConvolutionExpansion {
 public:
  ConvolutionExpansion(const Instruction& call, Builder& builder)
      : call_(call),
        builder_(builder),
        config_(call.backend_config()),
        target_(call.attributes<CustomCallAttributes>().target) {}

  LibraryResults Run() {
    const Shape* shape = FirstResult(call_);
    if (!shape->IsArray() || call_.operand_count() < 2 || !ReadDims(shape)) return std::nullopt;
    type_ = WorkingType(shape->dtype());
    Instruction* value = target_ == "__cudnn$convBackwardInput"    ? InputGradient(shape)
                         : target_ == "__cudnn$convBackwardFilter" ? KernelGradient(shape)
                         : target_ == "__cudnn$convForward" || target_ == kGraphTarget ||
                                 target_ == "__cudnn$convBiasActivationForward"
                             ? Convolve(call_.operand(0), call_.operand(1), forward_)
                             : nullptr;
    if (value == nullptr) return std::nullopt;
    value = Scaled(builder_, value, ConfigNumber(config_, "conv_result_scale").value_or(1));
    if (target_ == kGraphTarget) return Graph(value, shape->dtype());
    if (target_ == "__cudnn$convBiasActivationForward") value = Finished(value);
    if (value == nullptr) return std::nullopt;
    return std::vector{value};
  }

 private:
  bool ReadDims(const Shape* result) {
    const auto& call = call_.attributes<CustomCallAttributes>();
    forward_.window = call.window;
    forward_.dim_labels = call.dim_labels;
    forward_.feature_group_count = call.feature_group_count;
    forward_.batch_group_count = call.batch_group_count;
    if (call.dim_labels.empty() || PlaceDimLabels(builder_.module().arena(), forward_))
      return false;
    const size_t spatial = forward_.window.size();
    const auto has_rank = [&](const Shape* shape) {
      return shape->IsArray() && shape->rank() == static_cast<int64_t>(spatial) + 2;
    };
    return forward_.input_spatial.size() == spatial && forward_.kernel_spatial.size() == spatial &&
           forward_.output_spatial.size() == spatial && forward_.feature_group_count > 0 &&
           has_rank(result) && has_rank(call_.operand(0)->shape()) &&
           has_rank(call_.operand(1)->shape());
  }

  Instruction* Convolve(Instruction* x, Instruction* y, ConvolutionAttributes attributes) const {
    attributes.dim_labels =
        builder_.module().arena().Copy(std::string_view(DimLabelsOf(attributes)));
    return AddIfFits(builder_, Opcode::kConvolution, {x, y}, attributes, type_, call_.name());
  }

  // The output's gradient, its elements apart by the stride, under the kernel turned around.
  Instruction* InputGradient(const Shape* input) const {
    Instruction* gradient = call_.operand(0);
    ConvolutionAttributes a = forward_;
    a.input_batch = forward_.output_batch;
    a.input_feature = forward_.output_feature;
    a.input_spatial = forward_.output_spatial;
    a.output_batch = forward_.input_batch;
    a.output_feature = forward_.input_feature;
    a.output_spatial = forward_.input_spatial;
    Instruction* kernel = GroupsSwapped(call_.operand(1), a);
    if (kernel == nullptr) return nullptr;
    std::vector<WindowDim> window;
    for (size_t i = 0; i < forward_.window.size(); ++i) {
      const WindowDim& w = forward_.window[i];
      if (w.base_dilation != 1) return nullptr;
      WindowDim turned = {.size = w.size, .base_dilation = w.stride};
      turned.window_dilation = w.window_dilation;
      turned.reversal = !w.reversal;
      turned.pad_low = Span(w) - 1 - w.pad_low;
      const int64_t apart = (gradient->shape()->dim(a.input_spatial[i]) - 1) * w.stride + 1;
      turned.pad_high = input->dim(a.output_spatial[i]) - apart - turned.pad_low + Span(w) - 1;
      window.push_back(turned);
    }
    a.window = builder_.module().arena().Copy(std::span<const WindowDim>(window));
    return Convolve(gradient, kernel, a);
  }

  // The kernel with its features' roles swapped: [groups * out, in] becomes [out, groups * in].
  Instruction* GroupsSwapped(Instruction* kernel, ConvolutionAttributes& a) const {
    const int64_t out = forward_.kernel_output_feature, in = forward_.kernel_input_feature;
    const int64_t groups = forward_.feature_group_count;
    a.kernel_input_feature = out;
    a.kernel_output_feature = in;
    if (kernel->shape()->dim(out) % groups != 0) return nullptr;
    return builder_.MoveGroups(kernel, out, in, groups);
  }

  // The input, features for a batch, under a window of the output's gradient.
  Instruction* KernelGradient(const Shape* kernel) const {
    Instruction* gradient = call_.operand(1);
    ConvolutionAttributes a = forward_;
    a.input_batch = forward_.input_feature;
    a.input_feature = forward_.input_batch;
    a.kernel_input_feature = forward_.output_batch;
    a.kernel_output_feature = forward_.output_feature;
    a.kernel_spatial = forward_.output_spatial;
    a.output_batch = forward_.kernel_input_feature;
    a.output_feature = forward_.kernel_output_feature;
    a.output_spatial = forward_.kernel_spatial;
    a.batch_group_count = forward_.feature_group_count;
    a.feature_group_count = 1;
    std::vector<WindowDim> window;
    std::vector<int64_t> reversed;
    for (size_t i = 0; i < forward_.window.size(); ++i) {
      const WindowDim& w = forward_.window[i];
      if (w.base_dilation != 1) return nullptr;
      WindowDim slid = {.size = gradient->shape()->dim(a.kernel_spatial[i])};
      slid.stride = w.window_dilation;
      slid.window_dilation = w.stride;
      slid.pad_low = w.pad_low;
      // As many places as the kernel has, and no more.
      slid.pad_high = (kernel->dim(a.output_spatial[i]) - 1) * slid.stride + Span(slid) -
                      call_.operand(0)->shape()->dim(a.input_spatial[i]) - slid.pad_low;
      if (w.reversal) reversed.push_back(a.output_spatial[i]);
      window.push_back(slid);
    }
    a.window = builder_.module().arena().Copy(std::span<const WindowDim>(window));
    Instruction* value = Convolve(call_.operand(0), gradient, a);
    if (value == nullptr || reversed.empty()) return value;
    return builder_.Add(Opcode::kReverse, std::vector{value},
                        DimensionsAttributes{builder_.Copy(reversed)});
  }

  // activation(x + side_input_scale * side + bias); null if the operands do not fit.
  Instruction* Finished(Instruction* x) const {
    const Dims dims = x->shape()->dims();
    const double side_scale = ConfigNumber(config_, "side_input_scale").value_or(0);
    if (call_.operand_count() < 3 || call_.operand_count() > 4) return nullptr;
    Instruction* bias = call_.operand(2);
    if (!bias->shape()->IsArray() || bias->shape()->rank() != 1 ||
        bias->shape()->dim(0) != x->shape()->dim(forward_.output_feature)) {
      return nullptr;
    }
    if (call_.operand_count() == 4) {
      Instruction* side = call_.operand(3);
      if (!side->shape()->IsArray() || !std::ranges::equal(side->shape()->dims(), dims)) {
        return nullptr;
      }
      x = builder_.Add(x, Scaled(builder_, builder_.Convert(side, type_), side_scale));
    }
    const int64_t feature[] = {forward_.output_feature};
    x = builder_.Add(x, builder_.Broadcast(builder_.Convert(bias, type_), dims, feature));
    return Activated(x, ConfigWord(config_, "activation_mode"));
  }

  Instruction* Activated(Instruction* x, std::string_view mode) const {
    const Dims dims = x->shape()->dims();
    if (mode == "kNone") return x;
    if (mode == "kRelu") return Relu(builder_, x);
    if (mode == "kRelu6") {
      return builder_.Minimum(Relu(builder_, x),
                              builder_.BroadcastScalar(builder_.Scalar(type_, 6), dims));
    }
    Instruction* below = nullptr;
    if (mode == "kElu") {
      below = builder_.Add(Opcode::kExponentialMinusOne, std::vector{x}, MathAttributes{});
    } else if (mode == "kLeakyRelu") {
      below = Scaled(builder_, x, ConfigNumber(config_, "leakyrelu_alpha").value_or(0));
    } else {
      return nullptr;
    }
    Instruction* above =
        builder_.Compare(ComparisonDirection::kGt, x, builder_.Zero(x->shape()->bare()));
    return builder_.Select(above, x, below);
  }

  // "7:[f32]conv();9:[f32]scale(7);12:[f8e4m3fn]relu(9);15:[f32]amax(9);": each node has the value
  // of another and, if it is binary, the call's next operand. The last one that keeps the elements
  // is the first result, largest magnitudes are the others.
  LibraryResults Graph(Instruction* value, DType type) const {
    std::map<std::string_view, Instruction*> nodes;
    std::vector<Instruction*> results = {value};
    std::string_view rest = ConfigValue(config_, "serialized_graph");
    rest = rest.substr(0, rest.find('"'));
    int64_t next = 2;
    for (size_t end = rest.find(';'); end != rest.npos; end = rest.find(';')) {
      const std::string_view node = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      const size_t colon = node.find(":["), type_end = node.find(']'), open = node.find('(');
      if (colon == node.npos || type_end == node.npos || open == node.npos || open < type_end ||
          !node.ends_with(')')) {
        return std::nullopt;
      }
      const std::string_view name = node.substr(type_end + 1, open - type_end - 1);
      const auto source = nodes.find(node.substr(open + 1, node.size() - open - 2));
      if (name != "conv" && source == nodes.end()) return std::nullopt;
      Instruction* made = name == "conv" ? value : Node(name, source->second, next);
      if (made == nullptr) return std::nullopt;
      nodes[node.substr(0, colon)] = made;
      if (name == "amax") {
        results.push_back(made);
      } else {
        results[0] = made;
      }
    }
    if (next != call_.operand_count()) return std::nullopt;
    if (IsFloat(type) && DTypeBits(type) == 8) {
      results[0] = Saturated(builder_, results[0], type);
    }
    return results;
  }

  // Null: no such node is known, or its operand does not fit.
  Instruction* Node(std::string_view name, Instruction* x, int64_t& next) const {
    if (name == "relu") return Relu(builder_, x);
    if (name == "amax") return LargestMagnitude(builder_, x);
    if ((name != "scale" && name != "invscale" && name != "add") || next >= call_.operand_count()) {
      return nullptr;
    }
    Instruction* other = call_.operand(next++);
    const Dims dims = x->shape()->dims();
    if (!other->shape()->IsArray()) return nullptr;
    other = builder_.Convert(other, type_);
    if (other->shape()->IsScalar()) other = builder_.BroadcastScalar(other, dims);
    if (!std::ranges::equal(other->shape()->dims(), dims)) return nullptr;
    return builder_.Binary(name == "scale"      ? Opcode::kMultiply
                           : name == "invscale" ? Opcode::kDivide
                                                : Opcode::kAdd,
                           x, other);
  }

  const Instruction& call_;
  Builder& builder_;
  const std::string_view config_, target_;
  ConvolutionAttributes forward_;
  DType type_ = DType::kF32;
};

}  // namespace

LibraryResults ExpandConvolution(const Instruction& call, Builder& builder) {
  return ConvolutionExpansion(call, builder).Run();
}

}  // namespace gshard
