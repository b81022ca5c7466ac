// Custom calls, and Shardy's operations among them.
#include <fmt/format.h>

#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/stablehlo/print/dense_text.h"
#include "ir/stablehlo/print/module_writer.h"

namespace gshard::stablehlo {
namespace {

std::string LayoutText(const Shape* shape) {
  std::vector<int64_t> order;
  if (shape->layout() != nullptr) {
    order.assign(shape->layout()->minor_to_major.begin(), shape->layout()->minor_to_major.end());
  } else {
    for (int64_t i = shape->rank(); i-- > 0;) order.push_back(i);
  }
  return fmt::format("dense<{}> : tensor<{}xindex>",
                     order.empty() ? std::string() : ListText(order), order.size());
}

std::string LayoutsText(std::span<const Shape* const> shapes) {
  std::string text = "[";
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (i > 0) text += ", ";
    text += LayoutText(shapes[i]);
  }
  return text + "]";
}

// {{0}: (1, {}), ..} as a list of #stablehlo.output_operand_alias<..>.
std::string AliasesText(std::string_view text) {
  std::string list;
  const auto take_braces = [&text] {
    const size_t begin = text.find('{');
    const size_t end = text.find('}', begin);
    if (begin == text.npos || end == text.npos) return std::string();
    std::string numbers(text.substr(begin + 1, end - begin - 1));
    text.remove_prefix(end + 1);
    return numbers;
  };
  text.remove_prefix(std::min<size_t>(1, text.size()));
  while (text.find('{') != text.npos) {
    const std::string output = take_braces();
    const size_t open = text.find('(');
    const size_t comma = text.find(',', open);
    if (open == text.npos || comma == text.npos) break;
    const std::string operand(text.substr(open + 1, comma - open - 1));
    text.remove_prefix(comma);
    const std::string index = take_braces();
    text.remove_prefix(std::min(text.find(')') == text.npos ? 0 : text.find(')') + 1, text.size()));
    list += fmt::format(
        "{}#stablehlo.output_operand_alias<output_tuple_indices = [{}], operand_index = {}, "
        "operand_tuple_indices = [{}]>",
        list.empty() ? "" : ", ", output, operand, index);
  }
  return fmt::format("[{}]", list);
}

void AddPayload(const Instruction* x, const CustomCallAttributes& a, ModuleWriter::Line& line) {
  const std::string_view payload = x->backend_config();
  constexpr std::pair<std::string_view, int> kVersions[] = {
      {"API_VERSION_STATUS_RETURNING", 2},
      {"API_VERSION_STATUS_RETURNING_UNIFIED", 3},
      {"API_VERSION_TYPED_FFI", 4}};
  if (payload.starts_with('{')) {
    if (a.api_version == "API_VERSION_TYPED_FFI") {
      line.Add("api_version = 4 : i32");
      line.Add(fmt::format("backend_config = {}", payload));
    } else {
      line.Add("backend_config = " + QuotedMlir(payload));
    }
    return;
  }
  for (const auto& [name, number] : kVersions) {
    if (a.api_version == name) line.Add(fmt::format("api_version = {} : i32", number));
  }
  if (a.api_version == "API_VERSION_TYPED_FFI") {
    line.Add("backend_config = {}");
  } else if (!payload.empty()) {
    line.Add("backend_config = " + QuotedMlir(Unquoted(payload)));
  }
}

bool WriteOpaque(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<CustomCallAttributes>();
  ModuleWriter::Line line(x);
  const std::string target(a.target);
  if (target.empty()) {
    return w.Fail(x, "StableHLO has no custom call without a target",
                  "name one: custom_call_target=\"..\"");
  }
  const bool plain =
      target.find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$") == target.npos;
  line.head = fmt::format("stablehlo.custom_call @{}({})", plain ? target : QuotedMlir(target),
                          w.Operands(x));
  AddPayload(x, a, line);
  if (!x->called().empty()) {
    std::string names;
    for (const Computation* computation : x->called()) {
      if (!names.empty()) names += ", ";
      names += w.FunctionName(*computation);
    }
    line.Add("called_computations = [" + names + "]");
  }
  if (a.has_side_effect) line.Add("has_side_effect = true");
  if (a.has_operand_layout_constraints) {
    std::vector<const Shape*> operands;
    for (const Shape* shape : a.operand_layout_constraints) operands.push_back(shape);
    line.Add("operand_layouts = " + LayoutsText(operands));
    line.Add("result_layouts = " + LayoutsText(LeafShapes(x->shape())));
  }
  if (!a.output_to_operand_aliasing.empty()) {
    line.Add("output_operand_aliases = " + AliasesText(a.output_to_operand_aliasing));
  }
  const std::string rule = FrontendAttribute(x->frontend_attributes(), "xla.sdy.sharding_rule");
  if (!rule.empty()) line.Add("sdy.sharding_rule = " + rule);
  line.types = w.FunctionType(x);
  w.Emit(line);
  return true;
}

bool WriteConstraint(ModuleWriter& w, const Instruction* x) {
  const Sharding* sharding = w.shardings().Of(x);
  if (w.in_reducer() || sharding == nullptr) {
    w.SetValue(x, w.Of(x->operand(0)));
    return true;
  }
  const std::string text =
      w.shardings().ShardyText(sharding, x, x->shape()->IsArray() ? x->shape()->rank() : 0);
  if (text.empty()) {
    w.SetValue(x, w.Of(x->operand(0)));
    return true;
  }
  // The line has no dictionary: its sharding is its argument.
  const std::string name = w.NewValue();
  w.EmitRaw(x, fmt::format("{} = sdy.sharding_constraint {} {} : {}", name, w.One(x), text,
                           w.Type(x->shape())));
  w.SetValue(x, {name});
  return true;
}

}  // namespace

bool WriteResharding(ModuleWriter& w, const Instruction* x) {
  const Sharding* sharding = w.shardings().Of(x);
  if (w.in_reducer() || !x->shape()->IsArray() || sharding == nullptr || sharding->IsUnknown() ||
      sharding->IsManual() || SameSharding(sharding, w.shardings().Of(x->operand(0)))) {
    return false;
  }
  if (!w.shardings().gspmd()) return WriteConstraint(w, x);
  ModuleWriter::Line line(x);
  line.head = fmt::format("stablehlo.custom_call @{}({})", kShardingTarget, w.Operands(x));
  line.types = w.FunctionType(x);
  w.Emit(line);
  return true;
}

bool WriteCustomCall(ModuleWriter& w, const Instruction* x) {
  if (x->opcode() != Opcode::kCustomCall) return false;
  const std::string_view target = x->attributes<CustomCallAttributes>().target;
  if (target == "xla.sdy.FuncResultSharding") {
    w.SetValue(x, w.Of(x->operand(0)));
    return true;
  }
  if (target == "xla.sdy.ShardingGroup") {
    std::string group = FrontendAttribute(x->frontend_attributes(), "xla.sdy.sharding_group_id");
    group = group.substr(0, group.find(' '));
    w.EmitRaw(x, fmt::format("sdy.sharding_group {} group_id={} : {}", w.One(x), group,
                             w.Type(x->operand(0)->shape())));
    w.SetValue(x, {});
    return true;
  }
  if (target == "xla.sdy.PropagationBarrier") {
    constexpr std::string_view kWords[] = {"NONE", "FORWARD", "BACKWARD", "BOTH"};
    const std::string direction =
        FrontendAttribute(x->frontend_attributes(), "xla.sdy.allowed_direction");
    const size_t index = direction.empty() ? 0 : static_cast<size_t>(direction[0] - '0') % 4;
    const std::string name = w.NewValue();
    w.EmitRaw(x, fmt::format("{} = sdy.propagation_barrier {} allowed_direction={} : {}", name,
                             w.One(x), kWords[index], w.Type(x->shape())));
    w.SetValue(x, {name});
    return true;
  }
  if (target == kShardingTarget && !w.shardings().gspmd() && x->shape()->IsArray()) {
    return WriteConstraint(w, x);
  }
  return WriteOpaque(w, x);
}

}  // namespace gshard::stablehlo
