// Shardy's operations, in the form that XLA's export gives them: custom calls and frontend
// attributes `xla.sdy.*` (docs/propagation.md).
#include <fmt/format.h>

#include "ir/stablehlo/import/converters.h"
#include "ir/stablehlo/import/importer.h"

namespace gshard::stablehlo {
namespace {

Instruction* EmitMarker(Importer& in, const Operation& op, std::span<Instruction* const> operands,
                        std::string_view target, bool has_side_effect, const Shape* shape) {
  CustomCallAttributes attributes;
  attributes.target = target;
  attributes.has_side_effect = has_side_effect;
  return in.Emit(op, Opcode::kCustomCall, operands, attributes, shape);
}

// One shape as it is, several as a tuple.
const Shape* Joined(Importer& in, std::span<const Shape* const> shapes) {
  return shapes.size() == 1 ? shapes[0] : in.context().Tuple(shapes);
}

}  // namespace

namespace {

// The operand with another sharding.
bool Constrain(Importer& in, const Operation& op, std::string_view text) {
  Instruction* x = in.Operand(op, 0);
  if (in.in_reducer()) return in.Define(op, 0, x);
  const Sharding* sharding = in.ReadSharding(text, x->shape());
  if (sharding == nullptr) return false;
  Instruction* const operands[] = {x};
  Instruction* call = EmitMarker(in, op, operands, "Sharding", text.find("unreduced") != text.npos,
                                 x->shape()->bare());
  if (call == nullptr) return false;
  call->set_sharding(sharding);
  const std::string_view body = text.substr(std::min(text.find('<'), text.size()));
  in.SetFrontendAttribute(call, "xla.sdy.sharding",
                          fmt::format("#sdy.sharding_per_value<[{}]>", body));
  return in.Define(op, 0, call);
}

}  // namespace

// sdy.sharding_constraint %x <@mesh, [{"a"}, {?}]> : T
bool ConvertShardingConstraint(Importer& in, const Operation& op) {
  const auto text = in.Find(op, {"sharding", "#0"});
  if (!in.WantOperands(op, 1, /*arrays=*/false) || !in.WantResults(op, 1)) return false;
  if (!text.has_value()) return in.BadValue(op, "sharding", "");
  return Constrain(in, op, *text);
}

// sdy.all_gather [{}, {"x"}] %x out_sharding=<@mesh, [{"y"}, {}]> : T, and the other collectives of
// Shardy. Their values are whole arrays: what they do to the tiles follows from the shardings of
// both sides.
bool ConvertShardyCollective(Importer& in, const Operation& op) {
  const auto text = in.Find(op, {"out_sharding"});
  if (!in.WantOperands(op, 1, /*arrays=*/false) || !in.WantResults(op, 1)) return false;
  if (!text.has_value()) return in.BadValue(op, "out_sharding", "");
  return Constrain(in, op, *text);
}

// sdy.data_flow_edge %x sharding=<@mesh, [{"a"}, {?}]> : T
bool ConvertDataFlowEdge(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, 1, /*arrays=*/false) || !in.WantResults(op, 1)) return false;
  const auto text = in.Find(op, {"sharding"});
  return text.has_value() ? Constrain(in, op, *text) : in.Define(op, 0, in.Operand(op, 0));
}

// sdy.sharding_group %x group_id=0 : T
bool ConvertShardingGroup(Importer& in, const Operation& op) {
  int64_t group = 0;
  if (!in.WantOperands(op, 1) || !in.Int(op, {"group_id"}, group)) return false;
  Instruction* call =
      EmitMarker(in, op, in.Operands(op), "xla.sdy.ShardingGroup", true, in.context().Tuple({}));
  if (call == nullptr) return false;
  in.SetFrontendAttribute(call, "xla.sdy.sharding_group_id", fmt::format("{} : i64", group));
  for (Value& result : op.results)
    result.instruction = call;  // the type that is written is no value's
  return true;
}

// sdy.propagation_barrier %x allowed_direction=NONE : T
bool ConvertPropagationBarrier(Importer& in, const Operation& op) {
  const auto direction = in.Find(op, {"allowed_direction"});
  const std::string_view word = direction.has_value() ? WordOf(*direction) : "";
  constexpr std::string_view kWords[] = {"NONE", "FORWARD", "BACKWARD", "BOTH"};
  const auto found = std::ranges::find(kWords, word);
  if (found == std::end(kWords)) {
    return in.BadValue(op, "allowed_direction", direction.value_or(""));
  }
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1)) return false;
  Instruction* call = EmitMarker(in, op, in.Operands(op), "xla.sdy.PropagationBarrier", true,
                                 in.Operand(op, 0)->shape()->bare());
  if (call == nullptr) return false;
  in.SetFrontendAttribute(call, "xla.sdy.allowed_direction",
                          fmt::format("{} : i64", found - std::begin(kWords)));
  return in.Define(op, 0, call);
}

// Values enter by xla.sdy.GlobalToLocalShape, a call is the body, LocalToGlobalShape leaves.
bool ConvertManualComputation(Importer& in, const Operation& op) {
  const auto in_shardings = in.Find(op, {"in_shardings"});
  const auto out_shardings = in.Find(op, {"out_shardings"});
  const auto axes = in.Find(op, {"manual_axes"});
  if (!in.WantRegions(op, 1)) return false;
  if (!in_shardings.has_value() || !out_shardings.has_value() || !axes.has_value()) {
    return in.BadValue(op, !axes.has_value() ? "manual_axes" : "in_shardings", "");
  }
  const Region& region = *op.regions[0];
  if (region.arguments.size() != op.operands.size()) {
    return in.Fail(op, ParseError::kOperandCount, "the region has another number of arguments");
  }
  const auto per_value = [](std::string_view text) {
    return WithoutInnerNames(text.starts_with('[')
                                 ? fmt::format("#sdy.sharding_per_value<{}>", text)
                                 : std::string(text));
  };
  const std::string manual =
      axes->starts_with('{') ? fmt::format("#sdy<manual_axes{}>", *axes) : std::string(*axes);
  if (!in.CheckManualRegion(op, *in_shardings, *out_shardings, manual)) {
    return false;
  }
  std::vector<Instruction*> locals;
  if (!op.operands.empty()) {
    std::vector<const Shape*> shapes;
    for (const Value& argument : region.arguments) shapes.push_back(argument.type->bare());
    Instruction* enter =
        EmitMarker(in, op, in.Operands(op), "xla.sdy.GlobalToLocalShape", true, Joined(in, shapes));
    if (enter == nullptr) return false;
    in.SetFrontendAttribute(enter, "xla.sdy.in_shardings", per_value(*in_shardings));
    in.SetFrontendAttribute(enter, "xla.sdy.manual_axes", manual);
    if (shapes.size() == 1) locals.push_back(enter);
    for (size_t i = 0; i < shapes.size() && shapes.size() > 1; ++i) {
      locals.push_back(in.EmitElement(op, enter, static_cast<int64_t>(i)));
    }
  }
  in.EnterManual(manual);
  Computation* body = in.BodyComputation(op, region, "xla.sdy.manual_computation_body");
  in.LeaveManual();
  if (body == nullptr) return false;
  Computation* const called[] = {body};
  const Shape* local = body->root()->shape()->bare();
  Instruction* call = in.Emit(op, Opcode::kCall, locals, CallAttributes{}, local, called);
  if (call == nullptr) return false;
  in.SetFrontendAttribute(call, "inlineable", "false");
  if (op.results.empty()) return true;
  std::vector<Instruction*> values;
  if (op.results.size() == 1) {
    values.push_back(call);
  } else {
    if (!local->IsTuple() || local->elements().size() != op.results.size()) {
      return in.Fail(op, ParseError::kOperandCount, "the region returns another number of values");
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      values.push_back(in.EmitElement(op, call, static_cast<int64_t>(i)));
    }
  }
  const Shape* shape = in.ResultsShape(op);
  if (shape == nullptr) return in.Fail(op, ParseError::kShape, "the results have static types");
  Instruction* leave = EmitMarker(in, op, values, "xla.sdy.LocalToGlobalShape", true, shape);
  if (leave == nullptr) return false;
  in.SetFrontendAttribute(leave, "xla.sdy.manual_axes", manual);
  in.SetFrontendAttribute(leave, "xla.sdy.out_shardings", per_value(*out_shardings));
  return in.DefineAll(op, leave);
}

// sdy.named_computation<"name">(%a) (%arg: T) { .. } : (T) -> U
bool ConvertNamedComputation(Importer& in, const Operation& op) {
  if (!in.WantRegions(op, 1)) return false;
  if (op.regions[0]->arguments.size() != op.operands.size()) {
    return in.Fail(op, ParseError::kOperandCount, "the region has another number of arguments");
  }
  std::string name = "named_computation";
  if (const auto text = in.Find(op, {"name", "#0"})) {
    std::string_view quoted = *text;
    if (quoted.starts_with('<')) quoted = quoted.substr(1, quoted.size() - 2);
    if (!ReadString(quoted, name)) return in.BadValue(op, "name", *text);
  }
  Computation* body = in.BodyComputation(op, *op.regions[0], name);
  if (body == nullptr) return false;
  Computation* const called[] = {body};
  return in.DefineAll(op, in.Emit(op, Opcode::kCall, in.Operands(op), CallAttributes{},
                                  body->root()->shape()->bare(), called));
}

}  // namespace gshard::stablehlo
