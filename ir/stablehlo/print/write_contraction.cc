// Dots and convolutions.
#include <fmt/format.h>

#include <algorithm>

#include "ir/stablehlo/print/module_writer.h"

namespace gshard::stablehlo {
namespace {

std::string_view PrecisionName(Precision precision) {
  if (precision == Precision::kHighest) return "HIGHEST";
  return precision == Precision::kHigh ? "HIGH" : "DEFAULT";
}

// "[DEFAULT, HIGHEST]"; `wrapped` as attributes of their own.
std::string PrecisionText(std::span<const Precision> precision, bool wrapped) {
  std::string text = "[";
  for (size_t i = 0; i < std::max<size_t>(2, precision.size()); ++i) {
    if (i > 0) text += ", ";
    const std::string_view name =
        PrecisionName(i < precision.size() ? precision[i] : Precision::kDefault);
    text += wrapped ? fmt::format("#stablehlo<precision {}>", name) : std::string(name);
  }
  return text + "]";
}

// "dot_bf16_bf16_f32_x3" as its fields.
std::string AlgorithmText(std::string_view name, DType lhs, DType rhs) {
  int64_t operations = 1;
  const bool imprecise = name.ends_with("_fast_accum");
  for (const auto& [suffix, count] :
       {std::pair<std::string_view, int64_t>{"_x3", 3}, {"_x6", 6}, {"_x9", 9}}) {
    if (name.ends_with(suffix)) operations = count;
  }
  std::vector<std::string> types;
  size_t begin = 4;
  while (types.size() < 3 && begin < name.size()) {
    const size_t end = std::min(name.find('_', begin), name.size());
    const std::string_view word = name.substr(begin, end - begin);
    if (word != "any") types.emplace_back(word);
    begin = end + 1;
  }
  if (types.size() != 3) return {};
  // "any f8": those of the operands.
  const auto mlir = [](std::string_view word, DType dtype) -> std::string {
    if (word != "f8") return std::string(word);
    std::string text(DTypeName(dtype));
    std::ranges::transform(text, text.begin(), [](unsigned char c) {
      return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    });
    text[0] = 'f';
    return text;
  };
  return fmt::format(
      ", algorithm = <lhs_precision_type = {}, rhs_precision_type = {}, accumulation_type = {}, "
      "lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = {}, "
      "allow_imprecise_accumulation = {}>",
      mlir(types[0], lhs), mlir(types[1], rhs), types[2], operations, imprecise);
}

bool WriteDot(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<DotAttributes>();
  ModuleWriter::Line line(x);
  line.head = "stablehlo.dot_general " + w.Operands(x);
  if (!a.lhs_batch.empty()) {
    line.head +=
        fmt::format(", batching_dims = {} x {}", ListText(a.lhs_batch), ListText(a.rhs_batch));
  }
  line.head += fmt::format(", contracting_dims = {} x {}", ListText(a.lhs_contracting),
                           ListText(a.rhs_contracting));
  if (!a.precision.empty()) {
    line.head += ", precision = " + PrecisionText(a.precision, false);
  }
  if (!a.algorithm.empty()) {
    line.head += AlgorithmText(a.algorithm, x->operand(0)->shape()->dtype(),
                               x->operand(1)->shape()->dtype());
  }
  line.types = w.FunctionType(x);
  w.Emit(line);
  return true;
}

bool WriteRaggedDot(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<DotAttributes>();
  std::string numbers = "#chlo.ragged_dot<";
  const auto add = [&numbers](std::string_view key, Dims dims) {
    if (numbers.back() != '<') numbers += ", ";
    numbers += fmt::format("{} = {}", key, ListText(dims));
  };
  add("lhs_batching_dimensions", a.lhs_batch);
  add("rhs_batching_dimensions", a.rhs_batch);
  add("lhs_contracting_dimensions", a.lhs_contracting);
  add("rhs_contracting_dimensions", a.rhs_contracting);
  add("lhs_ragged_dimensions", a.lhs_ragged);
  add("rhs_group_dimensions", a.rhs_group);
  std::vector<std::string> props = {"ragged_dot_dimension_numbers = " + numbers + ">"};
  w.Generic(x, "chlo.ragged_dot", std::move(props));
  return true;
}

// "b01f" as "[b, 0, 1, f]".
std::string LabelText(std::string_view labels) {
  std::string text = "[";
  for (size_t i = 0; i < labels.size(); ++i) {
    if (i > 0) text += ", ";
    text += labels[i];
  }
  return text + "]";
}

bool WriteConvolution(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<ConvolutionAttributes>();
  const size_t underscore = a.dim_labels.find('_');
  const size_t arrow = a.dim_labels.find("->");
  if (underscore == a.dim_labels.npos || arrow == a.dim_labels.npos) {
    return w.Fail(x, "this convolution has no dim_labels");
  }
  std::vector<int64_t> strides, lhs, rhs;
  std::string pad = "[", reverse = "[";
  bool reverses = false;
  for (const WindowDim& dim : a.window) {
    strides.push_back(dim.stride);
    lhs.push_back(dim.base_dilation);
    rhs.push_back(dim.window_dilation);
    if (pad.size() > 1) pad += ", ";
    pad += fmt::format("[{}, {}]", dim.pad_low, dim.pad_high);
    if (reverse.size() > 1) reverse += ", ";
    reverse += dim.reversal ? "true" : "false";
    reverses = reverses || dim.reversal;
  }
  ModuleWriter::Line line(x);
  line.head = fmt::format("stablehlo.convolution({}) dim_numbers = {}x{}->{}, window = {{",
                          w.Operands(x), LabelText(a.dim_labels.substr(0, underscore)),
                          LabelText(a.dim_labels.substr(underscore + 1, arrow - underscore - 1)),
                          LabelText(a.dim_labels.substr(arrow + 2)));
  if (!a.window.empty()) {
    line.head += fmt::format("stride = {}, pad = {}], lhs_dilate = {}, rhs_dilate = {}",
                             ListText(strides), pad, ListText(lhs), ListText(rhs));
    if (reverses) line.head += ", reverse = " + reverse + "]";
  }
  line.head += "}";
  line.Add(fmt::format("batch_group_count = {} : i64", a.batch_group_count));
  line.Add(fmt::format("feature_group_count = {} : i64", a.feature_group_count));
  line.Add("precision_config = " + PrecisionText(a.precision, true));
  line.types = w.FunctionType(x);
  w.Emit(line);
  return true;
}

}  // namespace

bool WriteContraction(ModuleWriter& w, const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kDot:
      return WriteDot(w, x);
    case Opcode::kRaggedDot:
      return WriteRaggedDot(w, x);
    case Opcode::kConvolution:
      return WriteConvolution(w, x);
    default:
      return false;
  }
}

}  // namespace gshard::stablehlo
