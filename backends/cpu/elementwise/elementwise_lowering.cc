// Instructions and called computations -> steps of an elementwise program.
//
// Rounding: an operation on a small float is computed in f32 and rounded once. Conversions from
// wider types to a small float go through f32 with round to odd, which makes the final rounding
// exact.
#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <array>
#include <string>

#include "backends/cpu/elementwise/elementwise_program.h"
#include "ir/module.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

using Value = ElementwiseProgram::Value;

// Results of these on bf16 and f16 are values of the type already.
bool IsExactOnSmallFloats(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAbs:
    case Opcode::kNegate:
    case Opcode::kSign:
    case Opcode::kFloor:
    case Opcode::kCeil:
    case Opcode::kRoundNearestAfz:
    case Opcode::kRoundNearestEven:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kClamp:
    case Opcode::kRemainder:
      return true;
    default:  // rounds
      return false;
  }
}

// Results of these on integers below 8 bits are in range already.
bool StaysInRange(Opcode opcode) {
  switch (opcode) {
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kClamp:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kSign:
    case Opcode::kRemainder:
      return true;
    default:  // leaves the range
      return false;
  }
}

DType RealTypeOf(DType dtype) {
  return dtype == DType::kC64 ? DType::kF32 : dtype == DType::kC128 ? DType::kF64 : dtype;
}

Diagnostic NoMeaning(const Instruction& instruction, DType dtype) {
  return instruction.parent()->module().ErrorAt(
      &instruction, "E-RUN-001",
      fmt::format("{} is not defined on {}", OpcodeName(instruction.opcode()), DTypeName(dtype)));
}

bool IsUnsupportedOn(Opcode opcode, DType dtype) {
  if (opcode == Opcode::kSign) return ClassOf(dtype) == DTypeClass::kUnsigned;
  return false;
}

}  // namespace

Value ElementwiseProgram::FromComputed(DType dtype, Register reg) {
  ValueInfo info;
  info.dtype = dtype;
  info.uniform = registers_[static_cast<size_t>(reg)].uniform;
  if (IsSmallFloat(dtype)) {
    info.unrounded = reg;
  } else {
    info.stored = info.computed =
        IsSubByteInteger(dtype) ? Emit(WrapFunction(dtype), {{reg}}, 1) : reg;
  }
  values_.push_back(info);
  return static_cast<Value>(values_.size() - 1);
}

Value ElementwiseProgram::AddOperation(Opcode opcode, DType result,
                                       std::span<const Value> operands) {
  const DType operand_type = TypeOf(operands[0]);
  const DType type = ComputeType(operand_type);
  std::array<Register, 3> in{};
  for (size_t i = 0; i < operands.size(); ++i) in[i] = Computed(operands[i]);
  const DType result_type = ComputeType(result);
  const bool known_width = IsInteger(operand_type);
  const Register out = Emit(ArithmeticFunction(opcode, type), std::span(in).first(operands.size()),
                            StorageBytes(result_type), known_width ? DTypeBits(operand_type) : 0);
  flops_ += IsFloat(type) ? 1 : 0;
  const bool exact =
      (result == DType::kBF16 || result == DType::kF16) && IsExactOnSmallFloats(opcode);
  if (exact || (IsSubByteInteger(result) && StaysInRange(opcode)) ||
      !(IsSmallFloat(result) || IsSubByteInteger(result))) {
    ValueInfo info;
    info.dtype = result;
    info.uniform = registers_[static_cast<size_t>(out)].uniform;
    info.computed = out;
    if (!IsSmallFloat(result)) info.stored = out;
    values_.push_back(info);
    return static_cast<Value>(values_.size() - 1);
  }
  return FromComputed(result, out);
}

Value ElementwiseProgram::AddConvert(Value value, DType to) {
  const DType from = TypeOf(value);
  if (from == to) return value;
  if (IsComplex(from)) {
    if (IsComplex(to)) {
      return FromComputed(to,
                          Emit(ConvertFunction(from, to), {{Computed(value)}}, StorageBytes(to)));
    }
    if (to == DType::kPred) {
      return AddCompare(ComparisonDirection::kNe, false, value, AddZero(from));
    }
    return AddConvert(AddOperation(Opcode::kReal, RealTypeOf(from), {{value}}), to);
  }
  if (IsComplex(to)) {
    const DType real = RealTypeOf(to);
    const Value converted = AddConvert(value, real);
    return FromComputed(to,
                        Emit(ConvertFunction(real, to), {{Computed(converted)}}, StorageBytes(to)));
  }
  const DType source = ComputeType(from);
  const DType target = ComputeType(to);
  const Register in = Computed(value);
  if (IsSmallFloat(to)) {
    if (source == DType::kF32) return FromComputed(to, in);
    const TileFunction odd = ConvertToOddFunction(source);
    return FromComputed(to,
                        Emit(odd != nullptr ? odd : ConvertFunction(source, target), {{in}}, 4));
  }
  if (source == target && IsFloat(source)) {  // a small float to f32
    const Register out = in;
    ValueInfo info;
    info.dtype = to;
    info.stored = info.computed = out;
    info.uniform = registers_[static_cast<size_t>(out)].uniform;
    values_.push_back(info);
    return static_cast<Value>(values_.size() - 1);
  }
  Register out = Emit(ConvertFunction(source, target), {{in}}, StorageBytes(target));
  if (IsSubByteInteger(to) && IsFloat(source)) out = Emit(SaturateFunction(to), {{out}}, 1);
  return FromComputed(to, out);
}

Value ElementwiseProgram::AddCompare(ComparisonDirection direction, bool total_order, Value a,
                                     Value b) {
  const DType type = ComputeType(TypeOf(a));
  return FromComputed(DType::kPred, Emit(CompareFunction(direction, total_order, type),
                                         {{Computed(a), Computed(b)}}, 1));
}

Value ElementwiseProgram::AddSelect(Value pred, Value a, Value b) {
  const DType dtype = TypeOf(a);
  const auto is_stored = [&](Value v) { return values_[static_cast<size_t>(v)].stored != kNone; };
  ValueInfo info;
  info.dtype = dtype;
  if (!IsSmallFloat(dtype) || (is_stored(a) && is_stored(b))) {
    const int64_t bytes = StorageBytes(dtype);
    info.stored = Emit(SelectFunction(bytes), {{Computed(pred), Stored(a), Stored(b)}}, bytes);
    if (!IsSmallFloat(dtype)) info.computed = info.stored;
    info.uniform = registers_[static_cast<size_t>(info.stored)].uniform;
  } else {
    info.computed = Emit(SelectFunction(4), {{Computed(pred), Computed(a), Computed(b)}}, 4);
    info.uniform = registers_[static_cast<size_t>(info.computed)].uniform;
  }
  values_.push_back(info);
  return static_cast<Value>(values_.size() - 1);
}

Value ElementwiseProgram::AddComplexParts(Opcode opcode, Value value) {
  const DType dtype = TypeOf(value);
  if (IsComplex(dtype)) return AddOperation(opcode, RealTypeOf(dtype), {{value}});
  return opcode == Opcode::kReal ? value : AddZero(dtype);
}

Value ElementwiseProgram::AddStochasticConvert(DType to, Value value, Value random) {
  const int64_t bits = DTypeBits(TypeOf(random));
  const Register x = Computed(AddConvert(value, DType::kF64));
  const Register unit = Computed(AddConvert(random, DType::kU64));
  const Register rounded =
      Emit(StochasticRoundFunction(), {{x, unit}}, 8, static_cast<int64_t>(to) | bits << 8);
  return AddConvert(FromComputed(DType::kF64, rounded), to);
}

// What is rounded are bits of f32, f64 or f16; as in XLA, the smaller types are widened to f16.
Value ElementwiseProgram::AddReducePrecision(const ReducePrecisionAttributes& to, Value value) {
  const DType type = TypeOf(value);
  const int64_t parameter = to.exponent_bits | to.mantissa_bits << 8;
  if (!IsSmallFloat(type) || type == DType::kBF16 || type == DType::kF8E8M0FNU) {
    const DType compute = ComputeType(type);
    return FromComputed(type, Emit(ReducePrecisionFunction(compute), {{Computed(value)}},
                                   StorageBytes(compute), parameter));
  }
  const Register half = Stored(AddConvert(value, DType::kF16));
  const Register rounded = Emit(ReducePrecisionFunction(DType::kF16), {{half}}, 2, parameter);
  const bool uniform = registers_[static_cast<size_t>(rounded)].uniform;
  return AddConvert(NewValue(DType::kF16, rounded, uniform), type);
}

// Same bits, another type of the same width.
Value ElementwiseProgram::AddBitcast(Value value, DType to) {
  const DType from = TypeOf(value);
  Register reg = Stored(value);
  const int width = DTypeBits(to);
  if (width < 8 && from != to) {
    // Stored bytes of signed types are sign-extended, of all others zero-extended.
    const DType holder = ClassOf(to) == DTypeClass::kSigned ? to
                         : width == 4                       ? DType::kU4
                         : width == 2                       ? DType::kU2
                                                            : DType::kU1;
    if (WrapFunction(holder) != nullptr && width <= 4) reg = Emit(WrapFunction(holder), {{reg}}, 1);
  }
  return NewValue(to, reg, registers_[static_cast<size_t>(reg)].uniform);
}

Expected<Value> ElementwiseProgram::AddInstruction(const Instruction& instruction,
                                                   std::span<const Value> operands) {
  const DType result = instruction.shape()->dtype();
  const DType type = operands.empty() ? result : TypeOf(operands[0]);
  const Opcode opcode = instruction.opcode();
  switch (opcode) {
    case Opcode::kCopy:
      return operands[0];
    case Opcode::kConvert:
      return AddConvert(operands[0], result);
    case Opcode::kBitcastConvert:
      if (DTypeBits(type) != DTypeBits(result)) return Fail(NoMeaning(instruction, type));
      return AddBitcast(operands[0], result);
    case Opcode::kReal:
    case Opcode::kImag:
      return AddComplexParts(opcode, operands[0]);
    case Opcode::kSelect:
      return AddSelect(operands[0], operands[1], operands[2]);
    case Opcode::kCompare: {
      const CompareAttributes& attributes = instruction.attributes<CompareAttributes>();
      const bool total_order = attributes.type == ComparisonType::kTotalOrder && IsFloat(type);
      if (CompareFunction(attributes.direction, total_order, ComputeType(type)) == nullptr) {
        return Fail(NoMeaning(instruction, type));
      }
      return AddCompare(attributes.direction, total_order, operands[0], operands[1]);
    }
    case Opcode::kReducePrecision:
      if (!IsFloat(type)) return Fail(NoMeaning(instruction, type));
      return AddReducePrecision(instruction.attributes<ReducePrecisionAttributes>(), operands[0]);
    case Opcode::kStochasticConvert:
      if (!IsFloat(type) || IsComplex(result)) return Fail(NoMeaning(instruction, type));
      return AddStochasticConvert(result, operands[0], operands[1]);
    case Opcode::kIsFinite:
      if (!IsFloat(type)) return Fail(NoMeaning(instruction, type));
      break;
    default:  // arithmetic, below
      break;
  }
  if (operands.empty() || operands.size() > 3 || IsUnsupportedOn(opcode, type) ||
      ArithmeticFunction(opcode, ComputeType(type)) == nullptr) {
    return Fail(NoMeaning(instruction, type));
  }
  return AddOperation(opcode, result, operands);
}

// --- called computations

namespace {

Diagnostic NotScalar(const Instruction& instruction) {
  return instruction.parent()->module().ErrorAt(
      &instruction, "E-RUN-002",
      fmt::format("{} cannot be evaluated inside a computation over scalars",
                  OpcodeName(instruction.opcode())));
}

bool IsScalarLike(const Shape* shape) {
  if (shape->IsTuple()) {
    for (const Shape* element : shape->elements()) {
      if (!IsScalarLike(element)) return false;
    }
    return true;
  }
  return shape->IsArray() ? shape->element_count() == 1 : shape->kind() == ShapeKind::kToken;
}

// Tokens have no value.
int64_t ValueCount(const Shape* shape) {
  if (shape->IsArray()) return 1;
  int64_t count = 0;
  for (const Shape* element : shape->elements()) count += ValueCount(element);
  return count;
}

// Of the values of a tuple those of the element that `x` gets.
std::vector<Value> ElementOf(const Instruction& x, const std::vector<Value>& tuple) {
  const Shape* shape = x.operand(0)->shape();
  const int64_t index = x.attributes<GetTupleElementAttributes>().index;
  int64_t begin = 0;
  for (int64_t i = 0; i < index; ++i) begin += ValueCount(shape->element(i));
  return {tuple.begin() + begin, tuple.begin() + begin + ValueCount(shape->element(index))};
}

}  // namespace

Expected<std::vector<Value>> ElementwiseProgram::AddCall(const Computation& computation,
                                                         std::span<const Value> arguments) {
  return AddCallUpTo(computation, *computation.root(), arguments);
}

Expected<Value> ElementwiseProgram::AddPartOfCall(const Computation& computation,
                                                  const Instruction& part,
                                                  std::span<const Value> arguments) {
  auto values = GSHARD_TRY(AddCallUpTo(computation, part, arguments));
  return values.front();
}

Expected<std::vector<Value>> ElementwiseProgram::AddCallUpTo(const Computation& computation,
                                                             const Instruction& last,
                                                             std::span<const Value> arguments) {
  tsl::robin_map<const Instruction*, std::vector<Value>> results;
  size_t begin = 0;
  for (const Instruction* parameter : computation.parameters()) {
    const auto leaves =
        arguments.subspan(begin, static_cast<size_t>(ValueCount(parameter->shape())));
    results.insert_or_assign(parameter, std::vector<Value>(leaves.begin(), leaves.end()));
    begin += leaves.size();
  }
  CheckInternal(begin == arguments.size(), "arguments of a called scalar computation");
  for (const Instruction* instruction : computation.instructions()) {
    if (!IsScalarLike(instruction->shape())) return Fail(NotScalar(*instruction));
    std::vector<std::vector<Value>> operands;
    std::vector<Value> flat;
    for (const Instruction* operand : instruction->operands()) {
      operands.push_back(results.at(operand));
      flat.insert(flat.end(), operands.back().begin(), operands.back().end());
    }
    std::vector<Value> values;
    switch (instruction->opcode()) {
      case Opcode::kParameter:
        values = results.at(instruction);
        break;
      case Opcode::kConstant: {
        const Literal& literal = *instruction->attributes<ConstantAttributes>().literal;
        if (instruction->shape()->IsTuple()) {
          for (const Literal* element : literal.elements) values.push_back(AddConstant(*element));
        } else {
          values.push_back(AddConstant(literal));
        }
        break;
      }
      case Opcode::kIota:
        values.push_back(AddZero(instruction->shape()->dtype()));
        break;
      case Opcode::kTuple:
      case Opcode::kOptBarrier:
      case Opcode::kAfterAll:
      case Opcode::kDomain:
        values = flat;
        break;
      case Opcode::kAddDependency:
      case Opcode::kReshape:
      case Opcode::kBitcast:
      case Opcode::kBroadcast:
      case Opcode::kTranspose:
      case Opcode::kReverse:
      case Opcode::kSlice:
      case Opcode::kDynamicSlice:
      case Opcode::kConcatenate:
      case Opcode::kCopyStart:
      case Opcode::kCopyDone:
        values = operands[0];
        break;
      case Opcode::kDynamicUpdateSlice:
        values = operands[1];
        break;
      case Opcode::kGetTupleElement:
        values = ElementOf(*instruction, flat);
        break;
      case Opcode::kCall:
      case Opcode::kFusion:
      case Opcode::kMap:
      case Opcode::kAsyncStart:
        values = GSHARD_TRY(AddCall(*instruction->called(0), flat));
        break;
      case Opcode::kReduce: {  // of one element: the body applied once to (init, element)
        const size_t half = operands.size() / 2;
        std::vector<Value> pairs(flat.begin() + static_cast<std::ptrdiff_t>(half), flat.end());
        pairs.insert(pairs.end(), flat.begin(), flat.begin() + static_cast<std::ptrdiff_t>(half));
        if (instruction->attributes<DimensionsAttributes>().dimensions.empty()) {
          values.assign(flat.begin(), flat.begin() + static_cast<std::ptrdiff_t>(half));
          break;
        }
        values = GSHARD_TRY(AddCall(*instruction->called(0), pairs));
        break;
      }
      case Opcode::kDot: {
        const Value product = AddOperation(Opcode::kMultiply, TypeOf(flat[0]), flat);
        values.push_back(AddConvert(product, instruction->shape()->dtype()));
        break;
      }
      case Opcode::kConditional:
        values = GSHARD_TRY(AddConditional(*instruction, operands));
        break;
      case Opcode::kWhile:
        values = GSHARD_TRY(AddWhile(*instruction, flat));
        break;
      default:  // one operation
        if (!IsElementwise(instruction->opcode())) return Fail(NotScalar(*instruction));
        values = {GSHARD_TRY(AddInstruction(*instruction, flat))};
    }
    results.insert_or_assign(instruction, std::move(values));
    if (instruction == &last) break;
  }
  return results.at(&last);
}

// All branches are evaluated (they are pure) and the taken one selected.
Expected<std::vector<Value>> ElementwiseProgram::AddConditional(
    const Instruction& instruction, std::span<const std::vector<Value>> operands) {
  const Value selector = operands[0][0];
  const size_t branches = instruction.called().size();
  std::vector<Value> result;
  for (size_t k = branches; k-- > 0;) {
    auto values =
        GSHARD_TRY(AddCall(*instruction.called(static_cast<int64_t>(k)), operands[k + 1]));
    if (k + 1 == branches) {  // also taken when the index is out of range
      result = std::move(values);
      continue;
    }
    Value taken = selector;
    if (TypeOf(selector) != DType::kPred) {
      const int32_t index = static_cast<int32_t>(k);
      const Value number = AddConstantBytes(TypeOf(selector), std::as_bytes(std::span(&index, 1)));
      taken = AddCompare(ComparisonDirection::kEq, false, selector, number);
    }
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = AddSelect(taken, values[i], result[i]);
    }
  }
  return result;
}

Expected<std::vector<Value>> ElementwiseProgram::AddWhile(const Instruction& instruction,
                                                          std::span<const Value> initial) {
  has_while_ = true;
  ++loop_depth_;
  std::vector<Register> carried;
  for (Value value : initial) {
    const int64_t bytes = StorageBytes(ComputeType(TypeOf(value)));
    carried.push_back(Emit(CopyTileFunction(bytes), {{Computed(value)}}, bytes));
  }
  const auto carried_values = [&] {
    std::vector<Value> values;
    for (size_t i = 0; i < carried.size(); ++i) {
      ValueInfo info;
      info.dtype = TypeOf(initial[i]);
      info.computed = carried[i];
      if (!IsSmallFloat(info.dtype)) info.stored = info.computed;
      values_.push_back(info);
      values.push_back(static_cast<Value>(values_.size() - 1));
    }
    return values;
  };
  const size_t header = steps_.size();
  steps_.emplace_back();
  const std::vector<ValueInfo> saved = values_;
  auto condition = GSHARD_TRY(AddCall(*instruction.called(0), carried_values()));
  const Register predicate = Computed(condition[0]);
  const size_t condition_end = steps_.size();
  RestoreForms(saved);
  auto body = GSHARD_TRY(AddCall(*instruction.called(1), carried_values()));
  std::vector<Register> next;
  for (Value value : body) {
    const int64_t bytes = StorageBytes(ComputeType(TypeOf(value)));
    next.push_back(Emit(CopyTileFunction(bytes), {{Computed(value)}}, bytes));
  }
  RestoreForms(saved);
  Step& step = steps_[header];
  step.kind = StepKind::kWhile;
  step.in[0] = predicate;
  step.inner = static_cast<int64_t>(condition_end - header - 1);
  step.size = static_cast<int64_t>(steps_.size() - condition_end);
  step.carried = carried;
  step.next = std::move(next);
  const Register active = NewRegister(1, false);
  steps_[header].out = active;
  --loop_depth_;
  return carried_values();
}

}  // namespace gshard::cpu
