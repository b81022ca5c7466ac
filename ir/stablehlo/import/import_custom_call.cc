// Custom calls: opaque ones, and targets that stand for operations of HLO.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/metadata.h"
#include "ir/stablehlo/import/collective_attributes.h"
#include "ir/stablehlo/import/converters.h"

namespace gshard::stablehlo {
namespace {

// Lists of `dense<[0, 1]> : tensor<2xindex>`: minor to major.
bool ReadLayouts(Importer& in, const Operation& op, std::string_view key, size_t count,
                 std::vector<std::vector<int64_t>>& layouts) {
  const auto text = in.Find(op, {key});
  if (!text.has_value()) return true;
  std::vector<std::string_view> elements;
  if (!SplitList(*text, elements)) return in.BadValue(op, key, *text);
  // One sharding tuple stands for a list in older text.
  if (elements.size() != count) return true;
  for (const std::string_view element : elements) {
    std::vector<int64_t> layout;
    if (!ReadIntegers(element, layout)) return in.BadValue(op, key, element);
    layouts.push_back(std::move(layout));
  }
  return true;
}

const Shape* WithLayout(Importer& in, const Shape* shape, std::span<const int64_t> layout) {
  if (!shape->IsArray() || shape->dims().size() != layout.size()) return shape;
  std::vector<int64_t> sorted(layout.begin(), layout.end());
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) return shape;
  }
  return in.context().Array(shape->dtype(), shape->dims(), in.context().InternLayout(layout, {}),
                            shape->dynamic_flags());
}

bool ReadCallLayouts(Importer& in, const Operation& op, CustomCallAttributes& attributes,
                     const Shape*& shape) {
  std::vector<std::vector<int64_t>> operands, results;
  if (!ReadLayouts(in, op, "operand_layouts", op.operands.size(), operands) ||
      !ReadLayouts(in, op, "result_layouts", op.results.size(), results)) {
    return false;
  }
  if (!operands.empty() || in.Find(op, {"operand_layouts"}).has_value()) {
    std::vector<const Shape*> shapes;
    for (size_t i = 0; i < operands.size(); ++i) {
      shapes.push_back(WithLayout(in, in.Operand(op, i)->shape()->bare(), operands[i]));
    }
    attributes.has_operand_layout_constraints = true;
    attributes.operand_layout_constraints = in.arena().Copy(std::span<const Shape* const>(shapes));
  }
  if (results.empty()) return true;
  if (!shape->IsTuple()) {
    shape = WithLayout(in, shape, results[0]);
    return true;
  }
  std::vector<const Shape*> elements;
  for (size_t i = 0; i < results.size(); ++i) {
    elements.push_back(WithLayout(in, shape->element(static_cast<int64_t>(i)), results[i]));
  }
  shape = in.context().Tuple(elements);
  return true;
}

// [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 1, ..>] as
// {{0}: (1, {})}.
bool ReadAliases(Importer& in, const Operation& op, CustomCallAttributes& attributes) {
  const auto text = in.Find(op, {"output_operand_aliases"});
  if (!text.has_value()) return true;
  std::vector<std::string_view> elements;
  if (!SplitList(*text, elements)) return in.BadValue(op, "output_operand_aliases", *text);
  if (elements.empty()) return true;
  std::string aliases = "{";
  for (const std::string_view element : elements) {
    std::vector<NamedAttribute> fields;
    std::vector<int64_t> output, operand;
    int64_t index = 0;
    if (!SplitFields(element, fields) ||
        !ReadIntegers(FieldOf(fields, "output_tuple_indices"), output) ||
        !ReadIntegers(FieldOf(fields, "operand_tuple_indices"), operand) ||
        !ReadInteger(FieldOf(fields, "operand_index"), index)) {
      return in.BadValue(op, "output_operand_aliases", element);
    }
    aliases += fmt::format("{}{{{}}}: ({}, {{{}}})", aliases.size() > 1 ? ", " : "",
                           fmt::join(output, ","), index, fmt::join(operand, ","));
  }
  aliases += '}';
  attributes.output_to_operand_aliasing = in.arena().Copy(std::string_view(aliases));
  return true;
}

// The payload: a string, or the dictionary of a typed FFI call.
bool ReadPayload(Importer& in, const Operation& op, CustomCallAttributes& attributes,
                 std::string_view& payload) {
  int64_t version = 1;
  if (!in.Int(op, {"api_version"}, version, false)) return false;
  const auto config = in.Find(op, {"backend_config"});
  const auto typed = in.Find(op, {"mhlo.backend_config"});
  if (typed.has_value()) {
    version = 4;
    payload = *typed;
  } else if (config.has_value() && config->starts_with('{')) {
    payload = *config;
  } else if (config.has_value()) {
    std::string text;
    if (!ReadString(*config, text)) return in.BadValue(op, "backend_config", *config);
    if (!text.empty()) payload = in.arena().Copy(std::string_view(Quoted(text)));
  }
  constexpr std::string_view kVersions[] = {"", "", "API_VERSION_STATUS_RETURNING",
                                            "API_VERSION_STATUS_RETURNING_UNIFIED",
                                            "API_VERSION_TYPED_FFI"};
  if (version < 0 || version > 4) return in.BadValue(op, "api_version", "");
  attributes.api_version = kVersions[version];
  return true;
}

bool ConvertRaggedAllToAll(Importer& in, const Operation& op) {
  CollectiveAttributes attributes;
  const auto config = in.Find(op, {"backend_config", "mhlo.backend_config"});
  std::vector<NamedAttribute> fields;
  if (!config.has_value() || !SplitFields(*config, fields)) {
    return in.BadValue(op, "backend_config", config.value_or(""));
  }
  const std::string_view groups = FieldOf(fields, "replica_groups");
  const std::string_view channel = FieldOf(fields, "channel_id");
  if (!groups.empty() && !ReadReplicaGroups(in, op, groups, attributes.replica_groups))
    return false;
  if (!channel.empty() && !ReadInteger(channel, attributes.channel_id)) {
    return in.BadValue(op, "channel_id", channel);
  }
  return in.WantResults(op, 1) &&
         in.EmitResults(op, Opcode::kRaggedAllToAll, in.Operands(op), attributes);
}

// shape_assertion(%condition, %values..): what the program promises of its dims, checked here
// where they are known.
bool CheckShapeAssertion(Importer& in, const Operation& op) {
  if (!in.WantResults(op, 0)) return false;
  std::vector<int64_t> condition;
  if (op.operands.empty() || !in.ConstantIntegers(*op.operands[0], condition) ||
      condition.size() != 1 || condition[0] != 0) {
    return true;
  }
  std::string message = "the program's shape assertion fails";
  in.String(op, {"error_message"}, message);
  for (size_t i = 1; i < op.operands.size(); ++i) {
    std::vector<int64_t> value;
    if (!in.ConstantIntegers(*op.operands[i], value) || value.size() != 1) continue;
    const std::string hole = fmt::format("{{{}}}", i - 1);
    for (size_t at = message.find(hole); at != message.npos; at = message.find(hole)) {
      message.replace(at, hole.size(), std::to_string(value[0]));
    }
  }
  return in.Fail(op, ParseError::kShape, message);
}

// ApproxTopK on what has no such unit: a sort and its first k, as XLA expands it.
bool ConvertApproxTopK(Importer& in, const Operation& op, Computation* comparator) {
  const auto config = in.Find(op, {"mhlo.backend_config", "backend_config"});
  std::vector<NamedAttribute> fields;
  int64_t k = 0;
  SortAttributes attributes;
  if (!config.has_value() || !SplitFields(*config, fields) ||
      !ReadInteger(FieldOf(fields, "top_k"), k) ||
      !ReadInteger(FieldOf(fields, "reduction_dim"), attributes.dimension)) {
    return in.BadValue(op, "mhlo.backend_config", config.value_or(""));
  }
  const size_t count = op.operands.size() / 2;
  if (count == 0) return in.WantOperands(op, 2);
  if (!in.WantOperands(op, 2 * count) || !in.WantResults(op, count)) return false;
  const Shape* shape = in.Operand(op, 0)->shape();
  const int64_t dim = attributes.dimension;
  if (dim < 0 || dim >= shape->rank() || k < 0 || k > shape->dim(dim)) {
    return in.BadValue(op, "mhlo.backend_config", *config);
  }
  std::vector<Instruction*> operands = in.Operands(op);
  operands.resize(count);
  std::vector<const Shape*> shapes;
  for (const Instruction* x : operands) {
    if (!SameDims(x->shape(), shape)) {
      return in.Fail(op, ParseError::kShape, "the operands of ApproxTopK differ in shape");
    }
    shapes.push_back(x->shape()->bare());
  }
  Computation* const called[] = {comparator};
  Instruction* sort = in.Emit(op, Opcode::kSort, operands, attributes,
                              count == 1 ? shapes[0] : in.context().Tuple(shapes), called);
  if (sort == nullptr) return false;
  Builder builder = in.BuilderFor(op);
  for (size_t i = 0; i < count; ++i) {
    Instruction* x = count == 1 ? sort : in.EmitElement(op, sort, static_cast<int64_t>(i));
    if (!in.Define(op, i, builder.SliceDim(x, dim, 0, k))) return false;
  }
  return true;
}

// stablehlo.dynamic_reduce_window(inputs.., inits.., sizes, strides, base dilations, window
// dilations, padding) of jax.export: a reduce_window whose window the program computes.
bool ConvertDynamicReduceWindow(Importer& in, const Operation& op, Computation* reducer) {
  constexpr size_t kWindowOperands = 5;
  const size_t count = op.operands.size();
  if (count < 2 + kWindowOperands || (count - kWindowOperands) % 2 != 0) {
    return in.WantOperands(op, 2 + kWindowOperands);
  }
  const size_t arrays = count - kWindowOperands;
  std::vector<int64_t> parts[kWindowOperands];
  for (size_t k = 0; k < kWindowOperands; ++k) {
    if (!in.ConstantDims(op, arrays + k, parts[k])) return false;
  }
  std::vector<WindowDim> window(parts[0].size());
  for (size_t k = 1; k < kWindowOperands; ++k) {
    if (parts[k].size() == window.size() * (k + 1 == kWindowOperands ? 2 : 1)) continue;
    return in.Fail(op, ParseError::kShape, "the parts of the window differ in length");
  }
  for (size_t d = 0; d < window.size(); ++d) {
    window[d].size = parts[0][d];
    window[d].stride = parts[1][d];
    window[d].base_dilation = parts[2][d];
    window[d].window_dilation = parts[3][d];
    window[d].pad_low = parts[4][2 * d];
    window[d].pad_high = parts[4][2 * d + 1];
  }
  WindowAttributes attributes;
  attributes.window = in.arena().Copy(window);
  std::vector<Instruction*> operands = in.Operands(op);
  operands.resize(arrays);
  Computation* const called[] = {reducer};
  return in.EmitResults(op, Opcode::kReduceWindow, operands, attributes, called);
}

bool ConvertMhloTopK(Importer& in, const Operation& op) {
  TopKAttributes attributes;
  const auto text = in.Find(op, {"mhlo.attributes"});
  std::vector<NamedAttribute> fields;
  if (!text.has_value() || !SplitFields(*text, fields) ||
      !ReadInteger(FieldOf(fields, "k"), attributes.k) ||
      !ReadBoolean(FieldOf(fields, "largest"), attributes.largest)) {
    return in.BadValue(op, "mhlo.attributes", text.value_or(""));
  }
  return in.EmitResults(op, Opcode::kTopK, in.Operands(op), attributes);
}

}  // namespace

bool ConvertCustomCall(Importer& in, const Operation& op) {
  CustomCallAttributes attributes;
  std::string target;
  const auto symbol = in.Find(op, {"#0", "call_target_name"});
  if (symbol.has_value() && symbol->starts_with('@')) {
    target = symbol->substr(1);
    if (target.starts_with('"') && !ReadString(symbol->substr(1), target)) target.clear();
  } else if (symbol.has_value()) {
    ReadString(*symbol, target);
  }
  if (target.empty()) return in.BadValue(op, "call_target_name", symbol.value_or(""));
  if (target == "ragged_all_to_all") return ConvertRaggedAllToAll(in, op);
  if (target == "shape_assertion") return CheckShapeAssertion(in, op);
  if (target == "mhlo.topk") return ConvertMhloTopK(in, op);
  if (target == "mhlo.erf" && op.operands.size() == 1 && op.results.size() == 1) {
    return in.EmitResults(op, Opcode::kErf, in.Operands(op), MathAttributes{});
  }
  attributes.target = in.arena().Copy(std::string_view(target));
  std::string_view payload;
  const Shape* shape = in.ResultsShape(op);
  const bool is_window = target == "stablehlo.dynamic_reduce_window";
  if (shape == nullptr && !is_window) {
    return in.Fail(op, ParseError::kShape, "the results of a custom call have static types");
  }
  if (!ReadPayload(in, op, attributes, payload) ||
      !in.Bool(op, {"has_side_effect"}, attributes.has_side_effect) ||
      (shape != nullptr && !ReadCallLayouts(in, op, attributes, shape)) || !ReadAliases(in, op, attributes)) {
    return false;
  }
  std::vector<Computation*> called;
  std::vector<std::string_view> symbols;
  const auto computations = in.Find(op, {"called_computations"});
  if (computations.has_value() && !SplitList(*computations, symbols)) {
    return in.BadValue(op, "called_computations", *computations);
  }
  for (const std::string_view name : symbols) {
    const Function* function = in.FindFunction(op, name);
    if (function == nullptr) return false;
    std::vector<const Shape*> shapes;
    if (function->body != nullptr) {
      for (const Value& argument : function->body->arguments) shapes.push_back(argument.type);
    }
    called.push_back(in.FunctionComputation(op, name, shapes, {}));
    if (called.back() == nullptr) return false;
  }
  if (is_window) {
    return called.size() == 1 ? ConvertDynamicReduceWindow(in, op, called[0])
                              : in.BadValue(op, "called_computations", "");
  }
  if (target == "ApproxTopK" && called.size() == 1) return ConvertApproxTopK(in, op, called[0]);
  Instruction* call = in.Emit(op, Opcode::kCustomCall, in.Operands(op), attributes, shape, called);
  if (call == nullptr) return false;
  call->set_backend_config(payload);
  if (const auto rule = in.Find(op, {"sdy.sharding_rule"})) {
    in.SetFrontendAttribute(call, "xla.sdy.sharding_rule", *rule);
  }
  return in.DefineAll(op, call);
}

}  // namespace gshard::stablehlo
