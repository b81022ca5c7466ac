#include "core/analysis/combiner.h"

#include <algorithm>

#include "ir/comparison.h"

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

}  // namespace gshard
