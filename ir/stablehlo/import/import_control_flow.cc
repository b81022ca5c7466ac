// Loops, branches, calls, tuples, barriers.
#include <fmt/format.h>

#include <map>

#include "ir/stablehlo/import/converters.h"
#include "ir/stablehlo/import/importer.h"

namespace gshard::stablehlo {
namespace {

void AppendOnce(Value* value, std::vector<Value*>& values) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(value);
}

// What a region uses of the scopes around it, but for constants: those are cloned into it.
void AppendCaptures(const Region& region, std::vector<Value*>& captures) {
  for (Value* value : region.captures) {
    if (!IsConstant(*value)) AppendOnce(value, captures);
  }
}

Instruction* EmitTuple(Importer& in, const Operation& op, std::span<Instruction* const> elements) {
  std::vector<const Shape*> shapes;
  for (const Instruction* element : elements) shapes.push_back(element->shape());
  return in.Emit(op, Opcode::kTuple, elements, NoAttributes{}, in.context().Tuple(shapes));
}

// The shapes of the arguments, layouts dropped.
std::vector<const Shape*> ShapesOf(const Operation& op) {
  std::vector<const Shape*> shapes;
  for (const Value* operand : op.operands) shapes.push_back(operand->instruction->shape()->bare());
  return shapes;
}

bool EmitCall(Importer& in, const Operation& op, Computation* computation, bool is_composite,
              Instruction** call) {
  if (computation == nullptr) return false;
  const Shape* shape = computation->root()->shape()->bare();
  if (op.results.empty()
          ? !shape->IsTuple()
          : op.results.size() == 1 && shape->IsTuple() && !op.results[0].type->IsTuple()) {
    return in.Fail(op, ParseError::kShape, "the function has another number of results");
  }
  CallAttributes attributes;
  attributes.is_composite = is_composite;
  Computation* const called[] = {computation};
  *call = in.Emit(op, Opcode::kCall, in.Operands(op), attributes, shape, called);
  return in.DefineAll(op, *call);
}

// Values inside a loop, and those around it that they are.
using StandIns = std::map<const Value*, Value*>;

bool HasSharding(const Operation& op) {
  return std::ranges::any_of(op.attributes, [](const NamedAttribute& attribute) {
    return attribute.key.ends_with(".sharding");
  });
}

// Does the body return its argument i as it came, and does no sharding say how it lies?
bool IsPassedOn(const Operation& op, size_t i) {
  const Region& body = *op.regions[1];
  if (body.operations.empty() || HasSharding(op)) return false;
  const auto returned = body.operations.back()->operands;
  return returned.size() == body.arguments.size() && returned[i] == &body.arguments[i];
}

// Of `outside` what the region and those in it compute with, but for constants, by first use.
void AppendUsed(const Region& region, StandIns& outside, bool is_body,
                std::vector<Value*>& captures);

// Of `outside` what a loop and the regions in it use. A value that the loop only passes on counts
// where an operation in the loop uses it, as it does for that loop itself: the order then does not
// depend on whether a text names what a loop captures among its operands. Values that nothing in
// the loop uses are last.
void AppendUsedByLoop(const Operation& loop, StandIns& outside, std::vector<Value*>& captures) {
  std::vector<Value*> unused;
  for (size_t i = 0; i < loop.operands.size() && i < loop.regions[1]->arguments.size(); ++i) {
    const auto it = outside.find(loop.operands[i]);
    if (it == outside.end() || IsConstant(*it->second)) continue;
    if (!IsPassedOn(loop, i)) {
      AppendOnce(it->second, captures);
      continue;
    }
    Value* value = it->second;
    unused.push_back(value);
    for (const Region* region : loop.regions) {
      if (i < region->arguments.size()) outside[&region->arguments[i]] = value;
    }
  }
  for (const Region* region : loop.regions) {
    AppendUsed(*region, outside, region == loop.regions[1], captures);
  }
  for (Value* value : unused) AppendOnce(value, captures);
}

void AppendUsed(const Region& region, StandIns& outside, bool is_body,
                std::vector<Value*>& captures) {
  for (const Operation* op : region.operations) {
    if (op->name == "stablehlo.while" && op->regions.size() == 2) {
      AppendUsedByLoop(*op, outside, captures);
      continue;
    }
    for (size_t i = 0; i < op->operands.size(); ++i) {
      const auto it = outside.find(op->operands[i]);
      if (it == outside.end() || IsConstant(*it->second)) continue;
      // That a body returns what came is no use of it.
      const bool passed_on = is_body && op == region.operations.back() &&
                             i < region.arguments.size() && op->operands[i] == &region.arguments[i];
      if (!passed_on) AppendOnce(it->second, captures);
    }
    for (const Region* inner : op->regions) {
      AppendUsed(*inner, outside, /*is_body=*/false, captures);
    }
  }
}

// The operations of a branch in place of `op`.
bool ConvertInPlace(Importer& in, const Operation& op, const Region& region) {
  std::vector<Instruction*> values;
  if (!in.ConvertOperations(region) || !in.TerminatorValues(region, values)) return false;
  if (!in.WantResults(op, values.size())) return false;
  for (size_t i = 0; i < values.size(); ++i) in.Define(op, i, values[i]);
  return true;
}

}  // namespace

// One tuple carries what the loop changes, then the captured values, which never change: those of
// the scopes around it, and as in XLA's export those that the body returns as they came.
bool ConvertWhile(Importer& in, const Operation& op) {
  if (!in.WantRegions(op, 2) || !in.WantResults(op, op.operands.size())) return false;
  for (const Region* region : op.regions) {
    if (region->arguments.size() != op.operands.size()) {
      return in.Fail(op, ParseError::kOperandCount,
                     fmt::format("a region of while has {} arguments, not {}",
                                 region->arguments.size(), op.operands.size()));
    }
  }
  std::vector<bool> passed_on(op.operands.size());
  std::vector<Instruction*> elements;
  StandIns outside;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    passed_on[i] = IsPassedOn(op, i);
    if (!passed_on[i]) elements.push_back(in.Operand(op, i));
    for (const Region* region : op.regions) {
      if (passed_on[i]) outside[&region->arguments[i]] = op.operands[i];
    }
  }
  const auto carried = static_cast<int64_t>(elements.size());
  std::vector<Value*> captures;
  for (const Region* region : op.regions) {
    for (Value* value : region->captures) outside[value] = value;
    AppendUsed(*region, outside, region == op.regions[1], captures);
  }
  for (const Value* value : captures) {
    if (value->instruction == nullptr) {
      return in.Fail(op, ParseError::kUnknownOperand,
                     fmt::format("'%{}' cannot be used here", value->name));
    }
    elements.push_back(value->instruction);
  }
  Instruction* init = EmitTuple(in, op, elements);
  Computation* condition =
      in.CapturingComputation(op, *op.regions[0], "while_condition", captures, passed_on,
                              /*as_tuple=*/true, /*return_captures=*/false);
  if (condition == nullptr) return false;
  Computation* body = in.CapturingComputation(op, *op.regions[1], "while_body", captures, passed_on,
                                              /*as_tuple=*/true, /*return_captures=*/true);
  if (body == nullptr) return false;
  Computation* const called[] = {condition, body};
  Instruction* const operands[] = {init};
  Instruction* loop =
      in.Emit(op, Opcode::kWhile, operands, NoAttributes{}, init->shape()->bare(), called);
  if (loop == nullptr) return false;
  int64_t element = 0;
  for (size_t i = 0; i < op.results.size(); ++i) {
    Instruction* result = passed_on[i] ? in.Operand(op, i) : in.EmitElement(op, loop, element++);
    if (!in.Define(op, i, result)) return false;
  }
  CheckInternal(element == carried, "a loop has another number of results");
  return true;
}

// Each branch takes what it captures: the value itself if it is one, else a tuple.
bool ConvertConditional(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, 1)) return false;
  const bool is_if = op.name.ends_with("if");
  if (is_if && !in.WantRegions(op, 2)) return false;
  if (op.regions.empty()) return in.WantRegions(op, 1);
  const Shape* index = in.Operand(op, 0)->shape();
  if (!index->IsScalar() || index->dtype() != (is_if ? DType::kPred : DType::kS32)) {
    return in.Fail(op, ParseError::kShape,
                   fmt::format("{} branches on a scalar {}, not on {}", op.name,
                               is_if ? "i1" : "i32", ToString(index, /*layouts=*/false)));
  }
  // Where the branch is known it stands for the operation, as in XLA's export.
  std::vector<int64_t> known;
  if (!is_if && !HasSharding(op) && in.ConstantIntegers(*op.operands[0], known)) {
    const auto last = static_cast<int64_t>(op.regions.size()) - 1;
    const int64_t taken = known[0] < 0 || known[0] > last ? last : known[0];
    const Region& region = *op.regions[static_cast<size_t>(taken)];
    if (region.arguments.empty()) return ConvertInPlace(in, op, region);
  }
  std::vector<Instruction*> operands = {in.Operand(op, 0)};
  std::vector<Computation*> called;
  for (size_t i = 0; i < op.regions.size(); ++i) {
    const Region& region = *op.regions[i];
    if (!region.arguments.empty()) {
      return in.Fail(op, ParseError::kOperandCount, "a branch has no arguments");
    }
    std::vector<Value*> captures;
    AppendCaptures(region, captures);
    std::vector<Instruction*> elements;
    for (const Value* value : captures) elements.push_back(value->instruction);
    operands.push_back(elements.size() == 1 ? elements[0] : EmitTuple(in, op, elements));
    Computation* branch = in.CapturingComputation(op, region, fmt::format("branch_{}", i), captures,
                                                  {}, /*as_tuple=*/false,
                                                  /*return_captures=*/false);
    if (branch == nullptr) return false;
    called.push_back(branch);
  }
  const Shape* shape = called[0]->root()->shape()->bare();
  return in.DefineAll(op,
                      in.Emit(op, Opcode::kConditional, operands, NoAttributes{}, shape, called));
}

bool ConvertCall(Importer& in, const Operation& op) {
  const auto callee = in.Find(op, {"callee", "#0"});
  if (!callee.has_value()) return in.BadValue(op, "callee", "");
  Instruction* call = nullptr;
  return EmitCall(in, op, in.FunctionComputation(op, *callee, ShapesOf(op), op.operands), false,
                  &call);
}

bool ConvertComposite(Importer& in, const Operation& op) {
  const auto decomposition = in.Find(op, {"decomposition"});
  if (!decomposition.has_value()) return in.BadValue(op, "decomposition", "");
  Instruction* call = nullptr;
  if (!EmitCall(in, op, in.FunctionComputation(op, *decomposition, ShapesOf(op), op.operands), true,
                &call)) {
    return false;
  }
  std::string name;
  int64_t version = 0;
  if (!in.String(op, {"name", "#0"}, name) || !in.Int(op, {"version"}, version, false)) {
    return false;
  }
  const auto attributes = in.Find(op, {"composite_attributes"});
  in.SetRawFrontendAttribute(call, "composite.attributes", attributes.value_or("{}"));
  in.SetFrontendAttribute(call, "composite.name", name);
  in.SetFrontendAttribute(call, "composite.version", std::to_string(version));
  return true;
}

bool ConvertGetTupleElement(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, 1, /*arrays=*/false) || !in.WantResults(op, 1)) return false;
  int64_t index = -1;
  if (const auto bracket = in.Find(op, {"#0"})) {
    std::vector<int64_t> list;
    if (!ReadIntegers(*bracket, list) || list.size() != 1)
      return in.BadValue(op, "index", *bracket);
    index = list[0];
  } else if (!in.Int(op, {"index"}, index)) {
    return false;
  }
  Instruction* tuple = in.Operand(op, 0);
  if (!tuple->shape()->IsTuple() || index < 0 ||
      index >= static_cast<int64_t>(tuple->shape()->elements().size())) {
    return in.Fail(
        op, ParseError::kShape,
        fmt::format("{} has no element {}", ToString(tuple->shape(), /*layouts=*/false), index));
  }
  return in.Define(op, 0, in.EmitElement(op, tuple, index));
}

bool ConvertOptimizationBarrier(Importer& in, const Operation& op) {
  if (!in.WantResults(op, op.operands.size())) return false;
  if (op.operands.empty()) return true;
  std::vector<Instruction*> operands = in.Operands(op);
  if (operands.size() > 1) operands = {EmitTuple(in, op, operands)};
  return in.DefineAll(
      op, in.Emit(op, Opcode::kOptBarrier, operands, NoAttributes{}, operands[0]->shape()->bare()));
}

}  // namespace gshard::stablehlo
