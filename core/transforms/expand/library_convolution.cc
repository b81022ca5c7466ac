// Convolutions of cuDNN and their gradients. The window is always the forward convolution's.
#include <algorithm>
#include <map>
#include <string>

#include "core/transforms/expand/library_calls.h"
#include "ir/call_config.h"
#include "ir/convolution_gradients.h"
#include "ir/dim_labels.h"

namespace gshard {
namespace {

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
    Instruction* value = target_ == "__cudnn$convBackwardInput"    ? InputGradientOf(shape)
                         : target_ == "__cudnn$convBackwardFilter" ? KernelGradientOf(shape)
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
    Arena& arena = builder_.module().arena();
    if (call.dim_labels.empty() || PlaceDimLabels(arena, forward_)) return false;
    forward_.dim_labels = arena.Copy(std::string_view(DimLabelsOf(forward_)));
    const size_t spatial = forward_.window.size();
    const auto has_rank = [&](const Shape* shape) {
      return shape->IsArray() && shape->rank() == static_cast<int64_t>(spatial) + 2;
    };
    return forward_.input_spatial.size() == spatial && forward_.kernel_spatial.size() == spatial &&
           forward_.output_spatial.size() == spatial && forward_.feature_group_count > 0 &&
           has_rank(result) && has_rank(call_.operand(0)->shape()) &&
           has_rank(call_.operand(1)->shape());
  }

  Instruction* Convolve(Instruction* x, Instruction* y,
                        const ConvolutionAttributes& attributes) const {
    return AddIfFits(builder_, Opcode::kConvolution, {x, y}, attributes, type_, call_.name());
  }

  Instruction* InputGradientOf(const Shape* input) const {
    Instruction* gradient = call_.operand(0);
    Instruction* kernel = call_.operand(1);
    const int64_t out = forward_.kernel_output_feature, groups = forward_.feature_group_count;
    if (IsSpread() || kernel->shape()->dim(out) % groups != 0) return nullptr;
    // The kernel with its features' roles swapped: [groups * out, in] becomes [out, groups * in].
    kernel = builder_.MoveGroups(kernel, out, forward_.kernel_input_feature, groups);
    return Convolve(gradient, kernel,
                    InputGradient(builder_.module().arena(), forward_, input, gradient->shape()));
  }

  Instruction* KernelGradientOf(const Shape* kernel) const {
    if (IsSpread()) return nullptr;
    Instruction* input = call_.operand(0);
    Instruction* gradient = call_.operand(1);
    Instruction* value = Convolve(input, gradient,
                                  KernelGradient(builder_.module().arena(), forward_,
                                                 input->shape(), kernel, gradient->shape()));
    const std::vector<int64_t> reversed = ReversedKernelDims(forward_);
    if (value == nullptr || reversed.empty()) return value;
    return builder_.Add(Opcode::kReverse, std::vector{value},
                        DimensionsAttributes{builder_.Copy(reversed)});
  }

  // Has the input gaps, which cuDNN's convolutions have not?
  bool IsSpread() const {
    return forward_.batch_group_count != 1 ||
           std::ranges::any_of(forward_.window,
                               [](const WindowDim& w) { return w.base_dilation != 1; });
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
