// Dots and convolutions.
#include <fmt/format.h>

#include "ir/stablehlo/import/converters.h"
#include "ir/stablehlo/import/importer.h"
#include "ir/stablehlo/syntax/lexer.h"

namespace gshard::stablehlo {
namespace {

// `[2] x [1]`
bool ReadPair(std::string_view text, std::vector<int64_t>& left, std::vector<int64_t>& right) {
  const size_t x = text.find('x');
  return x != text.npos && ReadIntegers(text.substr(0, x), left) &&
         ReadIntegers(text.substr(text.find('[', x) == text.npos ? text.size() : text.find('[', x)),
                      right);
}

bool ReadPrecision(Importer& in, const Operation& op, std::span<const Precision>& precision) {
  const auto text = in.Find(op, {"precision_config", "precision"});
  if (!text.has_value()) return true;
  std::vector<std::string_view> words;
  if (!SplitList(*text, words)) return in.BadValue(op, "precision", *text);
  std::vector<Precision> values;
  for (const std::string_view element : words) {
    const std::string_view word = WordOf(element);
    if (word != "DEFAULT" && word != "HIGH" && word != "HIGHEST") {
      return in.BadValue(op, "precision", element);
    }
    values.push_back(word == "HIGHEST" ? Precision::kHighest
                     : word == "HIGH"  ? Precision::kHigh
                                       : Precision::kDefault);
  }
  // All default is the same as none.
  if (std::ranges::all_of(values, [](Precision p) { return p == Precision::kDefault; }))
    return true;
  precision = in.arena().Copy(values);
  return true;
}

struct DotAlgorithm {
  std::string_view lhs, rhs, accumulation;
  int64_t primitive_operations;
  bool imprecise;
  std::string_view name;
};
constexpr DotAlgorithm kAlgorithms[] = {
    {"f8", "f8", "f32", 1, false, "dot_any_f8_any_f8_f32"},
    {"f8", "f8", "f32", 1, true, "dot_any_f8_any_f8_f32_fast_accum"},
    {"f16", "f16", "f16", 1, false, "dot_f16_f16_f16"},
    {"f16", "f16", "f32", 1, false, "dot_f16_f16_f32"},
    {"bf16", "bf16", "bf16", 1, false, "dot_bf16_bf16_bf16"},
    {"bf16", "bf16", "f32", 1, false, "dot_bf16_bf16_f32"},
    {"bf16", "bf16", "f32", 3, false, "dot_bf16_bf16_f32_x3"},
    {"bf16", "bf16", "f32", 6, false, "dot_bf16_bf16_f32_x6"},
    {"bf16", "bf16", "f32", 9, false, "dot_bf16_bf16_f32_x9"},
    {"tf32", "tf32", "f32", 1, false, "dot_tf32_tf32_f32"},
    {"tf32", "tf32", "f32", 3, false, "dot_tf32_tf32_f32_x3"},
    {"f32", "f32", "f32", 1, false, "dot_f32_f32_f32"},
    {"f64", "f64", "f64", 1, false, "dot_f64_f64_f64"},
};

bool ReadAlgorithm(Importer& in, const Operation& op, std::string_view& algorithm) {
  const auto text = in.Find(op, {"algorithm"});
  if (!text.has_value() || text->empty()) return true;
  std::vector<NamedAttribute> fields;
  int64_t operations = 1;
  bool imprecise = false;
  if (!SplitFields(*text, fields) ||
      !ReadInteger(FieldOf(fields, "num_primitive_operations"), operations) ||
      !ReadBoolean(FieldOf(fields, "allow_imprecise_accumulation"), imprecise)) {
    return in.BadValue(op, "algorithm", *text);
  }
  const auto type_of = [&fields](std::string_view key) {
    const std::string_view type = FieldOf(fields, key);
    return type.starts_with("f8") ? std::string_view("f8") : type;
  };
  for (const DotAlgorithm& row : kAlgorithms) {
    if (row.lhs == type_of("lhs_precision_type") && row.rhs == type_of("rhs_precision_type") &&
        row.accumulation == type_of("accumulation_type") && row.imprecise == imprecise &&
        row.primitive_operations == operations) {
      algorithm = row.name;
      return true;
    }
  }
  return in.BadValue(op, "algorithm", *text);
}

// dimension_numbers = #stablehlo.dot<..>, #chlo.ragged_dot<..>: the fields by `prefix`.
bool ReadDotFields(Importer& in, const Operation& op, std::string_view key,
                   DotAttributes& attributes) {
  const auto text = in.Find(op, {key});
  std::vector<NamedAttribute> fields;
  if (!text.has_value() || !SplitFields(*text, fields)) {
    return in.BadValue(op, key, text.value_or(""));
  }
  struct Row {
    std::string_view key;
    Dims* dims;
  };
  const Row rows[] = {
      {"lhs_batching_dimensions", &attributes.lhs_batch},
      {"rhs_batching_dimensions", &attributes.rhs_batch},
      {"lhs_contracting_dimensions", &attributes.lhs_contracting},
      {"rhs_contracting_dimensions", &attributes.rhs_contracting},
      {"lhs_ragged_dimensions", &attributes.lhs_ragged},
      {"rhs_group_dimensions", &attributes.rhs_group},
  };
  for (const Row& row : rows) {
    const std::string_view value = FieldOf(fields, row.key);
    std::vector<int64_t> dims;
    if (value.empty()) continue;
    if (!ReadIntegers(value, dims)) return in.BadValue(op, row.key, value);
    *row.dims = in.arena().Copy(dims);
  }
  return true;
}

// `[b, 0, 1, f]` or `[b, f, ?, 0]` as HLO writes it: b01f.
bool ReadLabels(std::string_view text, std::string& labels) {
  std::vector<std::string_view> words;
  if (!SplitList(text, words)) return false;
  for (const std::string_view word : words) labels += word;
  return true;
}

struct ConvolutionText {
  Dims strides, lhs_dilation, rhs_dilation;
  std::vector<int64_t> padding, reversal;
};

bool ReadConvolutionWindow(Importer& in, const Operation& op, ConvolutionText& text) {
  if (const auto window = in.Find(op, {"window"})) {
    std::vector<NamedAttribute> fields;
    if (!SplitFields(*window, fields)) return in.BadValue(op, "window", *window);
    for (const NamedAttribute& field : fields) {
      std::vector<int64_t> values;
      if (!ReadIntegers(field.value, values)) return in.BadValue(op, field.key, field.value);
      if (field.key == "stride") text.strides = in.arena().Copy(values);
      if (field.key == "lhs_dilate") text.lhs_dilation = in.arena().Copy(values);
      if (field.key == "rhs_dilate") text.rhs_dilation = in.arena().Copy(values);
      if (field.key == "pad") text.padding = values;
      if (field.key == "reverse") text.reversal = values;
    }
    return true;
  }
  Dims padding;
  if (!in.Integers(op, {"window_strides"}, text.strides, false) ||
      !in.Integers(op, {"padding"}, padding, false) ||
      !in.Integers(op, {"lhs_dilation"}, text.lhs_dilation, false) ||
      !in.Integers(op, {"rhs_dilation"}, text.rhs_dilation, false)) {
    return false;
  }
  text.padding.assign(padding.begin(), padding.end());
  if (const auto value = in.Find(op, {"window_reversal"})) {
    if (!ReadIntegers(*value, text.reversal)) return in.BadValue(op, "window_reversal", *value);
  }
  return true;
}

// Positions of batch, features and spatial dims in one of the three lists of labels.
bool PlaceLabels(std::string_view labels, char batch, char feature, int64_t& batch_at,
                 int64_t& feature_at, std::vector<int64_t>& spatial) {
  spatial.assign(labels.size() < 2 ? 0 : labels.size() - 2, -1);
  batch_at = feature_at = -1;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (labels[i] == batch) {
      batch_at = at;
    } else if (labels[i] == feature) {
      feature_at = at;
    } else {
      const auto digit = static_cast<size_t>(labels[i] - '0');
      if (digit >= spatial.size()) return false;
      spatial[digit] = at;
    }
  }
  return batch_at >= 0 && feature_at >= 0 && std::ranges::find(spatial, -1) == spatial.end();
}

}  // namespace

bool ConvertDotGeneral(Importer& in, const Operation& op) {
  DotAttributes attributes;
  if (!in.WantOperands(op, 2) || !in.WantResults(op, 1)) return false;
  if (in.Find(op, {"dot_dimension_numbers"}).has_value()) {
    if (!ReadDotFields(in, op, "dot_dimension_numbers", attributes)) return false;
  } else {
    std::vector<int64_t> left, right;
    if (const auto batching = in.Find(op, {"batching_dims"})) {
      if (!ReadPair(*batching, left, right)) return in.BadValue(op, "batching_dims", *batching);
      attributes.lhs_batch = in.arena().Copy(left);
      attributes.rhs_batch = in.arena().Copy(right);
    }
    left.clear();
    right.clear();
    if (const auto contracting = in.Find(op, {"contracting_dims"})) {
      if (!ReadPair(*contracting, left, right)) {
        return in.BadValue(op, "contracting_dims", *contracting);
      }
    }
    attributes.lhs_contracting = in.arena().Copy(left);
    attributes.rhs_contracting = in.arena().Copy(right);
  }
  return ReadPrecision(in, op, attributes.precision) &&
         ReadAlgorithm(in, op, attributes.algorithm) &&
         in.EmitResults(op, Opcode::kDot, in.Operands(op), attributes);
}

bool ConvertDot(Importer& in, const Operation& op) {
  DotAttributes attributes;
  if (!in.WantOperands(op, 2) || !in.WantResults(op, 1)) return false;
  const int64_t last = in.Operand(op, 0)->shape()->rank() - 1;
  const int64_t first = 0;
  attributes.lhs_contracting = in.arena().Copy(std::span<const int64_t>(&last, 1));
  attributes.rhs_contracting = in.arena().Copy(std::span<const int64_t>(&first, 1));
  return ReadPrecision(in, op, attributes.precision) &&
         in.EmitResults(op, Opcode::kDot, in.Operands(op), attributes);
}

bool ConvertRaggedDot(Importer& in, const Operation& op) {
  DotAttributes attributes;
  return in.WantOperands(op, 3) && in.WantResults(op, 1) &&
         ReadDotFields(in, op, "ragged_dot_dimension_numbers", attributes) &&
         ReadPrecision(in, op, attributes.precision) &&
         in.EmitResults(op, Opcode::kRaggedDot, in.Operands(op), attributes);
}

bool ConvertConvolution(Importer& in, const Operation& op) {
  ConvolutionAttributes attributes;
  ConvolutionText text;
  std::vector<int64_t> dynamic_padding;
  if (!in.WantOperands(op, op.name.ends_with("dynamic_conv") ? 3 : 2) || !in.WantResults(op, 1) ||
      !ReadConvolutionWindow(in, op, text) ||
      !in.Int(op, {"feature_group_count"}, attributes.feature_group_count, false) ||
      !in.Int(op, {"batch_group_count"}, attributes.batch_group_count, false) ||
      !ReadPrecision(in, op, attributes.precision)) {
    return false;
  }
  if (op.operands.size() == 3 && !in.ConstantDims(op, 2, text.padding)) return false;
  const auto numbers = in.Find(op, {"dimension_numbers", "dim_numbers"});
  std::string lhs, rhs, out;
  std::string_view rest = numbers.value_or("");
  rest.remove_prefix(std::min(rest.find('['), rest.size()));
  Lexer lexer(rest);
  std::vector<int64_t> input, kernel, output;
  const auto wrong = [&] { return in.BadValue(op, "dimension_numbers", numbers.value_or("")); };
  const std::string_view first = lexer.Balanced();
  if (!ReadLabels(first, lhs) || !lexer.Consume('x')) return wrong();
  const std::string_view second = lexer.Balanced();
  if (!ReadLabels(second, rhs) || !lexer.Consume("->")) return wrong();
  if (!ReadLabels(lexer.Balanced(), out)) return wrong();
  if (!PlaceLabels(lhs, 'b', 'f', attributes.input_batch, attributes.input_feature, input) ||
      !PlaceLabels(rhs, 'i', 'o', attributes.kernel_input_feature, attributes.kernel_output_feature,
                   kernel) ||
      !PlaceLabels(out, 'b', 'f', attributes.output_batch, attributes.output_feature, output) ||
      input.size() != kernel.size() || input.size() != output.size()) {
    return wrong();
  }
  attributes.input_spatial = in.arena().Copy(input);
  attributes.kernel_spatial = in.arena().Copy(kernel);
  attributes.output_spatial = in.arena().Copy(output);
  attributes.dim_labels =
      in.arena().Copy(std::string_view(fmt::format("{}_{}->{}", lhs, rhs, out)));
  const Shape* kernel_shape = in.Operand(op, 1)->shape();
  const size_t rank = input.size();
  if (kernel_shape->dims().size() != rank + 2) {
    return in.Fail(op, ParseError::kShape,
                   fmt::format("the kernel has {} dims, dimension_numbers has {}",
                               kernel_shape->rank(), rank + 2));
  }
  const auto fits = [rank](size_t count, size_t per_dim) {
    return count == 0 || count == rank * per_dim;
  };
  if (!fits(text.strides.size(), 1) || !fits(text.lhs_dilation.size(), 1) ||
      !fits(text.rhs_dilation.size(), 1) || !fits(text.padding.size(), 2) ||
      !fits(text.reversal.size(), 1)) {
    return in.Fail(op, ParseError::kAttributeValue,
                   fmt::format("the window does not have {} dims", rank));
  }
  std::vector<WindowDim> window(rank);
  for (size_t i = 0; i < rank; ++i) {
    window[i].size = kernel_shape->dim(kernel[i]);
    if (!text.strides.empty()) window[i].stride = text.strides[i];
    if (!text.lhs_dilation.empty()) window[i].base_dilation = text.lhs_dilation[i];
    if (!text.rhs_dilation.empty()) window[i].window_dilation = text.rhs_dilation[i];
    if (!text.padding.empty()) {
      window[i].pad_low = text.padding[2 * i];
      window[i].pad_high = text.padding[2 * i + 1];
    }
    if (!text.reversal.empty()) window[i].reversal = text.reversal[i] != 0;
  }
  attributes.window = in.arena().Copy(window);
  Instruction* const operands[] = {in.Operand(op, 0), in.Operand(op, 1)};
  return in.Define(op, 0,
                   in.Emit(op, Opcode::kConvolution, operands, attributes, in.ResultShape(op)));
}

}  // namespace gshard::stablehlo
