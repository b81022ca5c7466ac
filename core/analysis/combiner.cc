#include "core/analysis/combiner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "ir/comparison.h"
#include "ir/constant_fill.h"
#include "ir/literal.h"

namespace gshard {
namespace {

// Looks through operations that do not change the value.
const Instruction* Plain(const Instruction* instruction) {
  while (instruction->opcode() == Opcode::kCopy || instruction->opcode() == Opcode::kBitcast ||
         instruction->opcode() == Opcode::kReshape) {
    instruction = instruction->operand(0);
  }
  return instruction;
}

// Is an operation on values of the type `narrow`, done in `wide` and rounded back, the operation on
// `narrow`? So it is where the wide significand has at least twice the bits and two more
// (Figueroa, "When is double rounding innocuous?", 1995).
bool Widens(DType narrow, DType wide) {
  return IsFloat(narrow) && (wide == DType::kF32 || wide == DType::kF64) &&
         DTypeBits(wide) >= 2 * DTypeBits(narrow);
}

bool IsConvertOfArray(const Instruction* instruction) {
  return instruction->opcode() == Opcode::kConvert && instruction->shape()->IsArray();
}

// What is widened here; else the value itself.
const Instruction* BeforeWidening(const Instruction* instruction) {
  instruction = Plain(instruction);
  if (!IsConvertOfArray(instruction)) return instruction;
  const Instruction* from = instruction->operand(0);
  const bool widens = Widens(from->shape()->dtype(), instruction->shape()->dtype());
  return widens ? Plain(from) : instruction;
}

// What is narrowed here; else the value itself.
const Instruction* BeforeNarrowing(const Instruction* instruction) {
  instruction = Plain(instruction);
  if (!IsConvertOfArray(instruction)) return instruction;
  const Instruction* from = instruction->operand(0);
  const bool narrows = Widens(instruction->shape()->dtype(), from->shape()->dtype());
  return narrows ? Plain(from) : instruction;
}

// Largest or smallest value of a type: +-inf where there is one. Many 8-bit floats have none.
double ExtremeFloat(DType dtype, bool largest) {
  double infinity = std::numeric_limits<double>::infinity();
  if (DTypeBits(dtype) > 8) return largest ? infinity : -infinity;
  double extreme = largest ? -infinity : infinity;
  for (unsigned code = 0; code < 1u << DTypeBits(dtype); ++code) {
    double value = DecodeSmallFloat(dtype, static_cast<uint16_t>(code));
    if (!std::isnan(value)) extreme = largest ? std::max(extreme, value) : std::min(extreme, value);
  }
  return extreme;
}

int64_t ExtremeInteger(DType dtype, bool largest) {
  int bits = dtype == DType::kPred ? 1 : DTypeBits(dtype);
  if (ClassOf(dtype) == DTypeClass::kSigned) {
    const int64_t smallest = INT64_MIN >> (64 - bits);
    return largest ? -(smallest + 1) : smallest;
  }
  if (!largest) return 0;
  return bits == 64 ? int64_t{-1} : (int64_t{1} << bits) - 1;  // u64: by bit pattern
}

}  // namespace

std::optional<Opcode> SingleBinaryOperation(const Computation& computation) {
  if (computation.parameter_count() != 2 || !computation.root()->shape()->IsArray()) {
    return std::nullopt;
  }
  const Instruction* root = BeforeNarrowing(computation.root());
  if (root->operand_count() != 2 || !IsElementwise(root->opcode()) ||
      root->opcode() == Opcode::kCompare) {
    return std::nullopt;
  }
  const DType type = computation.root()->shape()->dtype();
  const Instruction* a = BeforeWidening(root->operand(0));
  const Instruction* b = BeforeWidening(root->operand(1));
  const Instruction* first = computation.parameter(0);
  const Instruction* second = computation.parameter(1);
  const bool in_order = a == first && b == second;
  const bool swapped = a == second && b == first && HasFlag(root->opcode(), kCommutative);
  if (!in_order && !swapped) return std::nullopt;
  if (first->shape()->dtype() != type || second->shape()->dtype() != type) return std::nullopt;
  return root->opcode();
}

std::optional<Opcode> CombinerOf(const Computation* computation) {
  if (computation->root() == nullptr || !computation->root()->shape()->IsScalar()) {
    return std::nullopt;
  }
  const std::optional<Opcode> operation = SingleBinaryOperation(*computation);
  if (!operation) return std::nullopt;
  switch (*operation) {
    case Opcode::kAdd:
    case Opcode::kMultiply:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
      return operation;
    default:  // no reduction that has a name
      return std::nullopt;
  }
}

bool Accumulates(const Computation& computation) {
  return std::ranges::any_of(computation.instructions(), [](const Instruction* x) {
    return x->opcode() == Opcode::kAdd || x->opcode() == Opcode::kSubtract ||
           x->opcode() == Opcode::kMultiply || !x->called().empty();
  });
}

std::optional<CompareAttributes> ComparisonOf(const Computation& computation) {
  const Instruction* root = computation.root();
  if (root == nullptr || root->opcode() != Opcode::kCompare || computation.parameter_count() != 2) {
    return std::nullopt;
  }
  const Instruction* first = computation.parameter(0);
  const Instruction* second = computation.parameter(1);
  auto compare = root->attributes<CompareAttributes>();
  if (root->operand(0) == first && root->operand(1) == second) return compare;
  if (root->operand(0) != second || root->operand(1) != first) return std::nullopt;
  compare.direction = Mirrored(compare.direction);
  return compare;
}

int64_t ForwardedParameter(const Computation& computation) {
  const Instruction* root = Plain(computation.root());
  return root->opcode() == Opcode::kParameter ? root->attributes<ParameterAttributes>().number : -1;
}

int64_t IntegerIdentity(Opcode combiner, DType dtype) {
  switch (combiner) {
    case Opcode::kMultiply:
      return 1;
    case Opcode::kMaximum:
      return ExtremeInteger(dtype, /*largest=*/false);
    case Opcode::kMinimum:
      return ExtremeInteger(dtype, /*largest=*/true);
    case Opcode::kAnd:
      return ClassOf(dtype) == DTypeClass::kSigned ? -1 : ExtremeInteger(dtype, true);
    default:  // of sums and the like
      return 0;
  }
}

double FloatIdentity(Opcode combiner, DType dtype) {
  switch (combiner) {
    case Opcode::kMultiply:
      return 1;
    case Opcode::kMaximum:
      return ExtremeFloat(dtype, /*largest=*/false);
    case Opcode::kMinimum:
      return ExtremeFloat(dtype, /*largest=*/true);
    default:  // of sums and the like
      return 0;
  }
}

bool IsFilledWithIdentity(const Instruction* x, Opcode combiner) {
  const DType dtype = x->shape()->dtype();
  if (const Literal* fill = IsInteger(dtype) ? ConstantFill(x) : nullptr) {
    return ElementAsInt64(*fill, 0) == IntegerIdentity(combiner, dtype);
  }
  const std::optional<double> number = FillingNumber(x);
  const bool is_real = IsFloat(dtype) || IsComplex(dtype);
  return number && *number == (is_real ? FloatIdentity(combiner, dtype)
                                       : static_cast<double>(IntegerIdentity(combiner, dtype)));
}

Instruction* IdentityArray(Builder& b, const Shape* shape, Opcode combiner) {
  const DType dtype = shape->dtype();
  const bool is_real = IsFloat(dtype) || IsComplex(dtype);
  return b.Filled(shape, is_real ? b.Scalar(dtype, FloatIdentity(combiner, dtype))
                                 : b.ScalarInt(dtype, IntegerIdentity(combiner, dtype)));
}

}  // namespace gshard
