// Geometry of windows and the result dims of convolutions (docs/semantics.md, "Convolution").
#include <algorithm>

#include "ir/ops/shape_rules.h"

namespace gshard {

Problem CheckWindow(std::span<const WindowDim> window) {
  for (size_t i = 0; i < window.size(); ++i) {
    const WindowDim& dim = window[i];
    const std::pair<std::string_view, int64_t> fields[] = {{"size", dim.size},
                                                           {"stride", dim.stride},
                                                           {"lhs_dilate", dim.base_dilation},
                                                           {"rhs_dilate", dim.window_dilation}};
    for (const auto& [name, value] : fields) {
      if (value < 1) {
        return ProblemOf("window {} of dim {} must be positive, found {}", name, i, value);
      }
    }
  }
  return std::nullopt;
}

int64_t WindowOutputSize(int64_t size, const WindowDim& window) {
  if (size == Shape::kUnbounded) return size;
  auto dilated = [](int64_t n, int64_t dilation, int64_t* result) {
    *result = 0;
    if (n == 0) return true;
    return !__builtin_mul_overflow(n - 1, dilation, result) &&
           !__builtin_add_overflow(*result, 1, result);
  };
  int64_t base = 0, extent = 0;
  if (!dilated(size, window.base_dilation, &base) ||
      !dilated(window.size, window.window_dilation, &extent) ||
      __builtin_add_overflow(base, window.pad_low, &base) ||
      __builtin_add_overflow(base, window.pad_high, &base) || base < INT64_MIN + extent) {
    return -1;
  }
  return base < extent ? 0 : (base - extent) / window.stride + 1;
}

namespace {

// The dims of an operand or the result by role; all must differ and none be left over.
Problem CheckRoles(std::string_view what, const Shape* shape, int64_t first, int64_t second,
                   Dims spatial) {
  if (shape != nullptr && (!shape->IsArray() || shape->dims().size() != spatial.size() + 2)) {
    return ProblemOf("dim_labels name {} dims of the {}, found {}", spatial.size() + 2, what,
                     Text(shape));
  }
  std::vector<int64_t> all(spatial.begin(), spatial.end());
  all.push_back(first);
  all.push_back(second);
  if (Problem problem = CheckDimList("dim_labels", all, static_cast<int64_t>(all.size()))) {
    return ProblemOf("dim_labels must give each dim of the {} one role", what);
  }
  return std::nullopt;
}

}  // namespace

ShapeResult InferConvolution(Context& ctx, const OpView& op) {
  const auto& conv = op.as<ConvolutionAttributes>();
  const Shape* lhs = op.operands[0];
  const Shape* rhs = op.operands[1];
  if (conv.kernel_spatial.size() != conv.input_spatial.size() ||
      conv.output_spatial.size() != conv.input_spatial.size() ||
      conv.window.size() != conv.input_spatial.size()) {
    return Wrong("convolution: the window has {} dims, dim_labels have {}, {} and {} spatial dims",
                 conv.window.size(), conv.input_spatial.size(), conv.kernel_spatial.size(),
                 conv.output_spatial.size());
  }
  if (Problem problem =
          CheckRoles("lhs", lhs, conv.input_batch, conv.input_feature, conv.input_spatial)) {
    return Wrong(std::move(problem));
  }
  if (Problem problem = CheckRoles("rhs", rhs, conv.kernel_input_feature,
                                   conv.kernel_output_feature, conv.kernel_spatial)) {
    return Wrong(std::move(problem));
  }
  if (Problem problem = CheckRoles("result", nullptr, conv.output_batch, conv.output_feature,
                                   conv.output_spatial)) {
    return Wrong(std::move(problem));
  }
  if (Problem problem = CheckWindow(conv.window)) return Wrong(std::move(problem));
  const int64_t feature_groups = conv.feature_group_count;
  const int64_t batch_groups = conv.batch_group_count;
  if (feature_groups < 1 || batch_groups < 1 || (feature_groups > 1 && batch_groups > 1)) {
    return Wrong(
        "feature_group_count and batch_group_count must be positive and not both above 1, "
        "found {} and {}",
        feature_groups, batch_groups);
  }
  const int64_t features = lhs->dim(conv.input_feature);
  const int64_t kernel_in = rhs->dim(conv.kernel_input_feature);
  const int64_t kernel_out = rhs->dim(conv.kernel_output_feature);
  const int64_t batch = lhs->dim(conv.input_batch);
  if (features != Shape::kUnbounded && kernel_in != Shape::kUnbounded &&
      (features % feature_groups != 0 || features / feature_groups != kernel_in)) {
    return Wrong("the lhs of convolution has {} features, the rhs takes {} in {} group{}", features,
                 kernel_in, feature_groups, feature_groups == 1 ? "" : "s");
  }
  if (kernel_out != Shape::kUnbounded &&
      (kernel_out % feature_groups != 0 || kernel_out % batch_groups != 0)) {
    return Wrong("{} output features of convolution do not divide into {} groups", kernel_out,
                 std::max(feature_groups, batch_groups));
  }
  if (batch != Shape::kUnbounded && batch % batch_groups != 0) {
    return Wrong("batch {} of convolution does not divide into {} groups", batch, batch_groups);
  }
  tl::expected<DType, std::string> type = ProductType(op, lhs->dtype(), rhs->dtype());
  if (!type) return tl::unexpected(std::move(type).error());

  ResultDims dims;
  for (size_t i = 0; i < conv.output_spatial.size() + 2; ++i) dims.Append(0);
  dims.Set(conv.output_batch, batch == Shape::kUnbounded ? batch : batch / batch_groups,
           lhs->IsDynamic(conv.input_batch));
  dims.Set(conv.output_feature, kernel_out, rhs->IsDynamic(conv.kernel_output_feature));
  for (size_t i = 0; i < conv.window.size(); ++i) {
    const int64_t kernel = rhs->dim(conv.kernel_spatial[i]);
    if (!SizesAgree(kernel, conv.window[i].size)) {
      return Wrong("window size {} does not match spatial dim {} of the rhs {}",
                   conv.window[i].size, conv.kernel_spatial[i], Text(rhs));
    }
    const int64_t in = conv.input_spatial[i];
    const int64_t size = WindowOutputSize(lhs->dim(in), conv.window[i]);
    if (size == -1) return Wrong("the window of convolution is too large along dim {}", in);
    dims.Set(conv.output_spatial[i], size, lhs->IsDynamic(in));
  }
  return dims.Make(ctx, *type);
}

}  // namespace gshard
