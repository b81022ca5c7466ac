// Regions as computations.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "ir/stablehlo/import/importer.h"
#include "ir/stablehlo/syntax/attribute.h"
#include "ir/stablehlo/syntax/lexer.h"

namespace gshard::stablehlo {
namespace {

constexpr int kMaxCloneDepth = 4;  // operands of operands: at most 3^4 copies

// May be computed again inside of a reducer without a difference.
bool IsCheapAndPure(const Operation& op) {
  if (op.row == nullptr || !op.regions.empty()) return false;
  switch (op.row->opcode) {
    case Opcode::kConstant:
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kIota:
      return true;
    default:
      return IsElementwise(op.row->opcode);
  }
}

std::string RegionName(const Operation& op) {
  std::string name = "region_";
  const size_t dot = op.name.find('.');
  name += dot == op.name.npos ? op.name : op.name.substr(dot + 1);
  return name;
}

// Puts back what values stood for outside of a region.
class Rebindings {
 public:
  ~Rebindings() {
    for (auto it = saved_.rbegin(); it != saved_.rend(); ++it) it->first->instruction = it->second;
  }
  void Bind(Value* value, Instruction* x) {
    saved_.emplace_back(value, value->instruction);
    value->instruction = x;
  }
  // `value` will be bound by its definition.
  void Save(Value* value) { saved_.emplace_back(value, value->instruction); }
  bool Has(const Value* value) const {
    return std::ranges::any_of(saved_, [&](const auto& entry) { return entry.first == value; });
  }

 private:
  std::vector<std::pair<Value*, Instruction*>> saved_;
};

}  // namespace

// Switches the importer to another computation; finishes it when all is well.
class Importer::Inside {
 public:
  Inside(Importer& importer, std::string_view name, SourceRange source)
      : importer_(importer), outer_(importer.computation_) {
    std::string legal(name);
    for (char& c : legal) {
      if (!HasClass(c, kNameContinue)) c = '_';
    }
    if (legal.empty() || !HasClass(legal[0], kNameStart)) legal.insert(0, 1, '_');
    computation_ = importer.module_->AddComputation(importer.arena().Copy(std::string_view(legal)));
    computation_->set_source(source);
    importer.computation_ = computation_;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { importer_.computation_ = outer_; }

  Computation* Finish() {
    importer_.finished_.push_back(computation_);
    return computation_;
  }
  Computation* computation() const { return computation_; }

 private:
  Importer& importer_;
  Computation* outer_;
  Computation* computation_;
};

Instruction* Importer::AddParameter(Computation* computation, int64_t number, const Shape* shape,
                                    std::string_view base, SourceRange source,
                                    std::string_view location) {
  const Locations::Entry& entry = locations_.Of(location);
  if (!entry.base_name.empty()) base = entry.base_name;
  std::string name(base);
  for (char& c : name) {
    if (!HasClass(c, kNameContinue)) c = '_';
  }
  if (name.empty() || !HasClass(name[0], kNameStart)) name.insert(0, "arg");
  if (DTypeFromName(name).has_value()) name += '_';
  ParameterAttributes attributes;
  attributes.number = number;
  Instruction* x = module_->Add(computation, Opcode::kParameter,
                                module_->UniqueName(arena().Copy(std::string_view(name))), shape,
                                {}, attributes);
  x->set_source(source);
  x->set_metadata(entry.metadata);
  return x;
}

bool Importer::TerminatorValues(const Region& region, std::vector<Instruction*>& values) {
  const Operation* last = region.operations.empty() ? nullptr : region.operations.back();
  if (last == nullptr || (last->name != "return" && !last->name.ends_with(".return"))) {
    return errors_.Fail(ParseError::kModule, last != nullptr ? last->source : region.source,
                        "this region does not end with a return");
  }
  for (const Value* operand : last->operands) {
    if (operand->instruction == nullptr) {
      return Fail(*last, ParseError::kUnknownOperand,
                  fmt::format("'%{}' cannot be used here", operand->name));
    }
    values.push_back(operand->instruction);
  }
  return CheckOperandTypes(*last);
}

// One value as the root itself, more (or none) as a tuple.
void Importer::SetRoot(Computation* computation, std::span<Instruction* const> values,
                       const Operation* op, bool always_tuple) {
  if (values.size() == 1 && !always_tuple) {
    computation->set_root(values[0]);
    return;
  }
  std::vector<const Shape*> shapes;
  for (const Instruction* value : values) shapes.push_back(value->shape());
  Instruction* root = module_->Add(computation, Opcode::kTuple, module_->UniqueName("tuple"),
                                   context().Tuple(shapes), values, NoAttributes{});
  if (op != nullptr) root->set_source(op->source);
  computation->set_root(root);
}

// Defines `value` anew in the current computation from constants.
bool Importer::CloneInto(const Operation& op, Value* value, int depth) {
  const Operation* definition = value->definition;
  if (definition == nullptr || !IsCheapAndPure(*definition) || depth > kMaxCloneDepth) {
    Fail(op, ParseError::kUnknownOperand,
         fmt::format("the region of {} uses '%{}' from outside, which is no constant", op.name,
                     value->name),
         "HLO's computations of scalars see their parameters only");
    errors_.Note(value->source, "it is defined here");
    return false;
  }
  Rebindings rebindings;
  for (Value* operand : definition->operands) {
    if (rebindings.Has(operand)) continue;
    rebindings.Save(operand);
    if (!CloneInto(op, operand, depth + 1)) return false;
  }
  return ConvertOperation(*definition);
}

Computation* Importer::RegionComputation(const Operation& op, const Region& region) {
  Inside inside(*this, RegionName(op), region.source);
  Rebindings rebindings;
  ++reducer_depth_;
  for (Value* value : region.captures) {
    rebindings.Save(value);
    if (!CloneInto(op, value, 0)) return nullptr;
  }
  int64_t number = 0;
  for (Value& argument : region.arguments) {
    rebindings.Bind(&argument, AddParameter(inside.computation(), number++, argument.type,
                                            argument.name, argument.source, argument.location));
  }
  std::vector<Instruction*> values;
  if (!ConvertOperations(region) || !TerminatorValues(region, values)) return nullptr;
  SetRoot(inside.computation(), values, region.operations.back(), false);
  --reducer_depth_;
  return inside.Finish();
}

Computation* Importer::AppliedComputation(const Operation& op, std::string_view name, DType dtype) {
  const OpRow* row = FindRow(name);
  if (row == nullptr || !IsElementwise(row->opcode) || InfoOf(row->opcode).arity != 2) {
    Fail(op, ParseError::kUnknownOpcode,
         fmt::format("'{}' is no operation of two scalars to reduce with", name));
    return nullptr;
  }
  std::string key = fmt::format("{}_{}", OpcodeName(row->opcode), DTypeName(dtype));
  if (const auto it = applied_computations_.find(key); it != applied_computations_.end()) {
    return it->second;
  }
  Inside inside(*this, key, op.source);
  const Shape* scalar = context().Scalar(dtype);
  Instruction* const operands[] = {
      AddParameter(inside.computation(), 0, scalar, "lhs", op.source, {}),
      AddParameter(inside.computation(), 1, scalar, "rhs", op.source, {})};
  Instruction* root = module_->AddRaw(inside.computation(), row->opcode,
                                      module_->UniqueName(OpcodeName(row->opcode)), scalar,
                                      operands, NewAttributes(arena(), row->opcode), {});
  root->set_source(op.source);
  inside.computation()->set_root(root);
  return applied_computations_[key] = inside.Finish();
}

Computation* Importer::CapturingComputation(const Operation& op, const Region& region,
                                            std::string_view name, std::span<Value* const> captures,
                                            const std::vector<bool>& passed_on, bool as_tuple,
                                            bool return_captures) {
  Inside inside(*this, name, region.source);
  Rebindings rebindings;
  std::vector<Value*> carried;
  std::vector<const Shape*> shapes;
  const auto is_passed_on = [&](size_t i) { return i < passed_on.size() && passed_on[i]; };
  // Arguments have the shape of the operands; captured values their own.
  for (size_t i = 0; i < region.arguments.size(); ++i) {
    if (is_passed_on(i)) continue;
    carried.push_back(&region.arguments[i]);
    const Shape* shape =
        i < op.operands.size() ? op.operands[i]->instruction->shape() : region.arguments[i].type;
    shapes.push_back(shape->bare());
  }
  for (Value* value : captures) {
    carried.push_back(value);
    shapes.push_back(value->instruction->shape()->bare());
  }
  // Sizes of a program of open dims stay known inside.
  std::map<Value*, std::vector<int64_t>> sizes;
  for (Value* value : captures) {
    std::vector<int64_t> elements;
    if (!dynamic_dims_.empty() && ConstantIntegers(*value, elements)) sizes[value] = elements;
  }
  if (carried.size() == 1 && !as_tuple) {
    rebindings.Bind(carried[0], AddParameter(inside.computation(), 0, shapes[0], carried[0]->name,
                                             carried[0]->source, {}));
  } else {
    Instruction* tuple =
        AddParameter(inside.computation(), 0, context().Tuple(shapes), "arg_tuple", op.source, {});
    for (size_t i = 0; i < carried.size(); ++i) {
      rebindings.Bind(carried[i], EmitElement(op, tuple, static_cast<int64_t>(i)));
    }
  }
  for (auto& [value, elements] : sizes) {
    known_parameters_[value->instruction] = std::move(elements);
  }
  for (Value* value : region.captures) {
    if (!IsConstant(*value)) continue;
    rebindings.Save(value);
    if (!CloneInto(op, value, 0)) return nullptr;
  }
  for (size_t i = 0; i < passed_on.size(); ++i) {
    if (!passed_on[i]) continue;
    Value* operand = op.operands[i];
    if (IsConstant(*operand) && !rebindings.Has(operand)) {
      rebindings.Save(operand);
      if (!CloneInto(op, operand, 0)) return nullptr;
    }
    rebindings.Bind(&region.arguments[i], operand->instruction);
  }
  std::vector<Instruction*> values;
  if (!ConvertOperations(region) || !TerminatorValues(region, values)) return nullptr;
  if (return_captures) {
    std::vector<Instruction*> returned;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!is_passed_on(i)) returned.push_back(values[i]);
    }
    values = std::move(returned);
    for (const Value* value : captures) values.push_back(value->instruction);
  }
  SetRoot(inside.computation(), values, region.operations.back(), return_captures);
  return inside.Finish();
}

Computation* Importer::BodyComputation(const Operation& op, const Region& region,
                                       std::string_view name) {
  Inside inside(*this, name, region.source);
  Rebindings rebindings;
  for (Value* value : region.captures) {
    rebindings.Save(value);
    if (!CloneInto(op, value, 0)) return nullptr;
  }
  int64_t number = 0;
  for (Value& argument : region.arguments) {
    rebindings.Bind(&argument, AddParameter(inside.computation(), number++, argument.type->bare(),
                                            argument.name, argument.source, argument.location));
  }
  std::vector<Instruction*> values;
  if (!ConvertOperations(region) || !TerminatorValues(region, values)) return nullptr;
  SetRoot(inside.computation(), values, region.operations.back(), false);
  return inside.Finish();
}

// --- functions

void Importer::EnterManual(std::string_view axes) { manual_axes_.emplace_back(axes); }
void Importer::LeaveManual() { manual_axes_.pop_back(); }

Function* Importer::FindFunction(const Operation& op, std::string_view symbol) {
  if (symbol.starts_with('@')) symbol.remove_prefix(1);
  if (symbol.size() >= 2 && symbol.front() == '"') symbol = symbol.substr(1, symbol.size() - 2);
  const auto it = program_.function_of.find(symbol);
  if (it != program_.function_of.end()) return it->second;
  NearestWord nearest(symbol);
  for (const Function* function : program_.functions) nearest.Offer(function->name);
  errors_.Fail(ParseError::kUnknownComputation, op.source,
               fmt::format("no function '@{}' in this module", symbol), nearest.Hint());
  return nullptr;
}

// Converted once for each set of operand shapes and manual axes around it: what is manual is
// another program for the partitioner.
Computation* Importer::FunctionComputation(const Operation& op, std::string_view symbol,
                                           std::span<const Shape* const> shapes,
                                           std::span<Value* const> values) {
  Function* function = FindFunction(op, symbol);
  if (function == nullptr) return nullptr;
  if (function->body == nullptr) {
    Fail(op, ParseError::kUnknownComputation,
         fmt::format("function '@{}' is declared without a body", function->name));
    return nullptr;
  }
  if (shapes.size() != function->body->arguments.size()) {
    Fail(op, ParseError::kOperandCount,
         fmt::format("function '@{}' has {} arguments, not {}", function->name,
                     function->body->arguments.size(), shapes.size()));
    errors_.Note(function->source, "it is defined here");
    return nullptr;
  }
  std::string key(function->name);
  for (const std::string& axes : manual_axes_) key += "|" + axes;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Shape* declared = function->body->arguments[i].type;
    const Shape* actual = shapes[i];
    if (Compatible(declared, actual)) continue;
    if (!declared->HasDynamicDims()) {
      Fail(op, ParseError::kShapeMismatch,
           fmt::format("argument {} of '@{}' is {}, the operand is {}", i, function->name,
                       ToString(declared, /*layouts=*/false), ToString(actual, /*layouts=*/false)));
      errors_.Note(function->source, "it is defined here");
      return nullptr;
    }
    key += fmt::format("|{}:{}", i, ToString(actual, /*layouts=*/false));
  }
  // What is known of integers decides shapes in a function of dynamic ones, or of their sizes.
  const bool is_dynamic =
      std::ranges::any_of(function->body->arguments,
                          [](const Value& v) { return v.type->HasDynamicDims(); }) ||
      std::ranges::any_of(function->argument_attributes, [](const auto& attributes) {
        return !FieldOf(attributes, "jax.global_constant").empty();
      });
  for (size_t i = 0; is_dynamic && i < values.size(); ++i) {
    const Value* argument = &function->body->arguments[i];
    known_.erase(argument);
    std::vector<int64_t> elements;
    if (!ConstantIntegers(*values[i], elements)) continue;
    key += fmt::format("|{}={}", i, fmt::join(elements, ","));
    known_[argument] = std::move(elements);
  }
  const auto it = function_computations_.find(key);
  if (it != function_computations_.end()) return it->second;
  Computation* computation = ConvertFunction(op, *function, shapes);
  if (computation != nullptr) function_computations_[key] = computation;
  return computation;
}

Computation* Importer::ConvertFunction(const Operation& op, Function& function,
                                       std::span<const Shape* const> shapes) {
  if (!open_functions_.insert(&function).second) {
    Fail(op, ParseError::kModule,
         fmt::format("function '@{}' calls itself, which HLO cannot", function.name));
    return nullptr;
  }
  Inside inside(*this, function.name, function.source);
  Rebindings rebindings;
  for (size_t i = 0; i < shapes.size(); ++i) {
    Value* argument = &function.body->arguments[i];
    rebindings.Save(argument);
    if (!AddArgument(function, i, /*is_entry=*/false, shapes[i]->bare())) return nullptr;
    if (const auto it = known_.find(argument); it != known_.end()) {
      known_parameters_[argument->instruction] = it->second;
    }
  }
  std::vector<Instruction*> values;
  if (!ConvertOperations(*function.body) || !TerminatorValues(*function.body, values)) {
    return nullptr;
  }
  SetRoot(inside.computation(), values, function.body->operations.back(), false);
  open_functions_.erase(&function);
  return inside.Finish();
}

bool Importer::ConvertEntry(Function& function) {
  Inside inside(*this, function.name, function.source);
  open_functions_.insert(&function);
  for (size_t i = 0; i < function.body->arguments.size(); ++i) {
    const Value& argument = function.body->arguments[i];
    std::vector<int64_t> dims(argument.type->dims().begin(), argument.type->dims().end());
    for (size_t d = 0; d < dims.size(); ++d) {
      const auto bound = dynamic_dims_.find({&function, static_cast<int64_t>(i * 64 + d)});
      if (bound != dynamic_dims_.end()) dims[d] = bound->second;
    }
    const Shape* shape = argument.type->IsArray() && argument.type->HasDynamicDims()
                             ? context().Array(argument.type->dtype(), dims)
                             : argument.type;
    if (!AddArgument(function, i, /*is_entry=*/true, shape)) return false;
  }
  std::vector<Instruction*> values;
  if (!ConvertOperations(*function.body) || !TerminatorValues(*function.body, values)) return false;
  if (values.size() != function.results.size()) {
    return errors_.Fail(ParseError::kOperandCount, function.source,
                        fmt::format("function '@{}' returns {} values, its type has {}",
                                    function.name, values.size(), function.results.size()));
  }
  if (!FinishEntry(function, values)) return false;
  module_->set_entry(inside.computation());
  inside.Finish();
  return true;
}

}  // namespace gshard::stablehlo
