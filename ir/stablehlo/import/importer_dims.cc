// Shapes that a program computes: integers known while importing, and the dims of the entry's
// arguments that the user gives (docs/stablehlo.md, "Dynamic shapes").
#include <fmt/format.h>

#include "ir/integer_operation.h"
#include "ir/ops/shape_rules.h"
#include "ir/stablehlo/import/importer.h"

namespace gshard::stablehlo {
namespace {

constexpr int kMaxEvaluationDepth = 200;
constexpr int64_t kMaxKnownElements = 64;
constexpr int kMaxCalls =
    256;  // each is followed anew: functions that call others twice, over and over

using Known = std::map<const Instruction*, std::vector<int64_t>>;

// The elements of integer instructions, from constants up.
class Evaluator {
 public:
  Evaluator(const Known& parameters, int& calls_left)
      : parameters_(parameters), calls_left_(calls_left) {}

  bool Evaluate(const Instruction* x, std::vector<int64_t>& out, int depth = 0) {
    const Shape* shape = x->shape();
    if (!shape->IsArray() || shape->HasDynamicDims() ||
        shape->element_count() > kMaxKnownElements || depth > kMaxEvaluationDepth ||
        !(IsInteger(shape->dtype()) || shape->dtype() == DType::kPred)) {
      return false;
    }
    if (const auto it = done_.find(x); it != done_.end()) {
      out = it->second;
      return true;
    }
    if (!Compute(x, out, depth)) return false;
    if (out.size() != static_cast<size_t>(shape->element_count())) return false;
    done_[x] = out;
    return true;
  }

 private:
  bool Compute(const Instruction* x, std::vector<int64_t>& out, int depth) {
    if (const auto it = parameters_.find(x); it != parameters_.end()) {
      out = it->second;
      return true;
    }
    if (x->opcode() == Opcode::kParameter) return false;
    if (x->opcode() == Opcode::kConstant) {
      const Literal& literal = *x->attributes<ConstantAttributes>().literal;
      if (literal.elided) return false;
      for (int64_t i = 0; i < x->shape()->element_count(); ++i) {
        out.push_back(ElementAsInt64(literal, i));
      }
      return true;
    }
    if (x->opcode() == Opcode::kCall) return OfCall(x, x->called()[0]->root(), out, depth);
    if (x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kCall) {
      const Instruction* root = x->operand(0)->called()[0]->root();
      return root->opcode() == Opcode::kTuple &&
             OfCall(x->operand(0), root->operand(x->attributes<GetTupleElementAttributes>().index),
                    out, depth);
    }
    std::vector<std::vector<int64_t>> operands(static_cast<size_t>(x->operand_count()));
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!Evaluate(x->operand(static_cast<int64_t>(i)), operands[i], depth + 1)) return false;
    }
    const auto count = static_cast<size_t>(x->shape()->element_count());
    switch (x->opcode()) {
      case Opcode::kReshape:
      case Opcode::kCopy:
        out = operands[0];
        return true;
      case Opcode::kBroadcast:
        if (operands[0].size() != 1) return false;
        out.assign(count, operands[0][0]);
        return true;
      case Opcode::kConcatenate:
        Concatenate(*x, operands, out);
        return true;
      case Opcode::kSlice: {
        const auto& slice = x->attributes<SliceAttributes>();
        if (slice.starts.size() != 1 || slice.strides[0] < 1) return false;
        for (int64_t i = slice.starts[0]; i < slice.limits[0]; i += slice.strides[0]) {
          if (i < 0 || i >= static_cast<int64_t>(operands[0].size())) return false;
          out.push_back(operands[0][At(i)]);
        }
        return true;
      }
      case Opcode::kReduce:
        return false;
      default:
        break;
    }
    return Elementwise(x, operands, count, out);
  }

  // Row by row of the dims before the one that grows.
  static void Concatenate(const Instruction& x, const std::vector<std::vector<int64_t>>& operands,
                          std::vector<int64_t>& out) {
    int64_t rows = 1;
    for (int64_t d = 0; d < x.attributes<DimensionsAttributes>().dimensions[0]; ++d) {
      rows *= x.shape()->dim(d);
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (const std::vector<int64_t>& part : operands) {
        const int64_t length = static_cast<int64_t>(part.size()) / rows;
        out.insert(out.end(), part.begin() + row * length, part.begin() + (row + 1) * length);
      }
    }
  }

  // A value of the callee, as far as the arguments that are known determine it.
  bool OfCall(const Instruction* call, const Instruction* value, std::vector<int64_t>& out,
              int depth) {
    if (--calls_left_ < 0) return false;
    Known arguments;
    for (const Instruction* parameter : call->called()[0]->parameters()) {
      const int64_t number = parameter->attributes<ParameterAttributes>().number;
      std::vector<int64_t> elements;
      if (Evaluate(call->operand(number), elements, depth + 1)) {
        arguments[parameter] = std::move(elements);
      }
    }
    return Evaluator(arguments, calls_left_).Evaluate(value, out, depth + 1);
  }

  static bool Elementwise(const Instruction* x, const std::vector<std::vector<int64_t>>& operands,
                          size_t count, std::vector<int64_t>& out) {
    if (!IsIntegerOperation(x->opcode())) return false;
    for (const auto& operand : operands) {
      if (operand.size() != count) return false;
    }
    const bool divides = x->opcode() == Opcode::kDivide || x->opcode() == Opcode::kRemainder;
    std::vector<int64_t> elements(operands.size());
    for (size_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < operands.size(); ++k) elements[k] = operands[k][i];
      // No size that the user means.
      if (divides && elements[1] == 0) return false;
      out.push_back(EvaluateInteger(*x, elements));
    }
    return true;
  }

  const Known& parameters_;
  int& calls_left_;
  Known done_;
};

}  // namespace

bool Importer::ConstantIntegers(const Value& value, std::vector<int64_t>& elements) {
  elements.clear();
  int calls_left = kMaxCalls;
  return value.instruction != nullptr &&
         Evaluator(known_parameters_, calls_left).Evaluate(value.instruction, elements);
}

bool Importer::ConstantDims(const Operation& op, size_t operand, std::vector<int64_t>& dims) {
  if (ConstantIntegers(*op.operands[operand], dims)) return true;
  Fail(op, ParseError::kShape,
       fmt::format("the shape of this {} depends on '%{}', which is not known before the program "
                   "runs",
                   op.name, op.operands[operand]->name),
       "shapes must follow from constants and from sizes of the arguments");
  errors_.Note(op.operands[operand]->source, "it is defined here");
  return false;
}

// A dim variable is what JAX passes as jax.global_constant; its value is the size of the argument
// that the caller measures. All other dims stand in the messages of shape assertions, which list
// the arguments that have open dims.
bool Importer::ReadDimSpecifications(const Function& function, SpecifiedDims& dims) {
  std::vector<size_t> open;
  for (size_t i = 0; i < function.body->arguments.size(); ++i) {
    if (HasUnbounded(function.body->arguments[i].type)) open.push_back(i);
  }
  for (const Operation* op : function.body->operations) {
    std::string message;
    if (!String(*op, {"error_message"}, message)) return false;
    const auto specified = SpecificationsIn(message);
    if (specified.size() != open.size()) continue;
    for (size_t k = 0; k < open.size(); ++k) {
      for (size_t d = 0; d < specified[k].size(); ++d) {
        dims[{open[k], static_cast<int64_t>(d)}] = specified[k][d];
      }
    }
    break;
  }
  for (const Operation* op : function.body->operations) {
    const OpRow* row = FindRow(op->name);
    if (row == nullptr || row->opcode != Opcode::kCall) continue;
    std::string_view callee;
    if (const auto symbol = Find(*op, {"callee", "#0"})) callee = *symbol;
    if (callee.starts_with('@')) callee.remove_prefix(1);
    if (callee.starts_with('"')) callee = callee.substr(1, callee.size() - 2);
    const auto target = program_.function_of.find(callee);
    if (target == program_.function_of.end()) continue;
    const auto& attributes = target->second->argument_attributes;
    for (size_t i = 0; i < op->operands.size() && i < attributes.size(); ++i) {
      std::string name;
      const std::string_view text = FieldOf(attributes[i], "jax.global_constant");
      const Operation* size = op->operands[i]->definition;
      if (text.empty() || !ReadString(text, name) || name.empty() || size == nullptr ||
          !size->name.ends_with(".get_dimension_size") || size->operands.size() != 1 ||
          size->operands[0]->definition != nullptr) {
        continue;
      }
      int64_t dimension = 0;
      if (!Int(*size, {"dimension", "dim"}, dimension)) return false;
      dims[{size->operands[0]->index, dimension}] = name;
    }
  }
  return true;
}

bool Importer::BindDynamicDims(Function& function) {
  SpecifiedDims specified;
  if (!ReadDimSpecifications(function, specified)) return false;
  const auto place_of = [&](size_t i, int64_t d) {
    return fmt::format("{}:{}", function.body->arguments[i].name, d);
  };
  // What is given by place tells the size of its variable.
  DimSizes sizes = given_dims_;
  for (const auto& [place, specification] : specified) {
    if (place.first >= function.body->arguments.size()) continue;
    const auto given = given_dims_.find(place_of(place.first, place.second));
    if (given != given_dims_.end() && IsDimVariable(specification)) {
      sizes.emplace(specification, given->second);
    }
  }
  for (size_t i = 0; i < function.body->arguments.size(); ++i) {
    const Value& argument = function.body->arguments[i];
    for (int64_t d = 0; d < argument.type->rank(); ++d) {
      if (argument.type->dim(d) != Shape::kUnbounded) continue;
      const std::string& specification = specified[{i, d}];
      std::string missing;
      std::optional<int64_t> size = EvaluateDim(specification, sizes, &missing);
      const auto given = given_dims_.find(place_of(i, d));
      if (given != given_dims_.end()) size = given->second;
      if (size && *size >= 0) {
        dynamic_dims_[{&function, static_cast<int64_t>(i) * 64 + d}] = *size;
        continue;
      }
      if (missing.empty()) missing = place_of(i, d);
      return errors_.Fail(ParseError::kShape, argument.source,
                          fmt::format("dim {} of '%{}' has no size", d, argument.name),
                          fmt::format("give it one: --dim {}=16", missing));
    }
  }
  return true;
}

}  // namespace gshard::stablehlo
