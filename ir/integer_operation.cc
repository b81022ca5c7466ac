#include "ir/integer_operation.h"

#include <algorithm>
#include <type_traits>

#include "ir/comparison.h"

namespace gshard {
namespace {

// Operations to which the order of values matters, in a type that has it. By zero all bits are set,
// the remainder is the dividend; the least number by -1 is itself.
template <typename T>
int64_t EvaluateOrdered(const Instruction& x, std::span<const int64_t> operands) {
  const auto in = [&](size_t i) { return static_cast<T>(operands[i]); };
  const auto is_minus_one = [&] { return std::is_signed_v<T> && in(1) == static_cast<T>(-1); };
  const auto out = [](T value) { return static_cast<int64_t>(value); };
  switch (x.opcode()) {
    case Opcode::kDivide:
      if (in(1) == 0) return -1;
      if (is_minus_one()) return static_cast<int64_t>(0 - static_cast<uint64_t>(operands[0]));
      return out(in(0) / in(1));
    case Opcode::kRemainder:
      if (in(1) == 0) return operands[0];
      return is_minus_one() ? 0 : out(in(0) % in(1));
    case Opcode::kMaximum:
      return out(std::max(in(0), in(1)));
    case Opcode::kMinimum:
      return out(std::min(in(0), in(1)));
    case Opcode::kSign:
      return (in(0) > 0 ? 1 : 0) - (in(0) < 0 ? 1 : 0);
    case Opcode::kClamp:
      return out(std::min(std::max(in(1), in(0)), in(2)));
    default:
      return Holds(x.attributes<CompareAttributes>().direction, in(0), in(1)) ? 1 : 0;
  }
}

int64_t EvaluateUnwrapped(const Instruction& x, std::span<const int64_t> operands) {
  // Unsigned arithmetic is defined where it wraps around.
  const auto in = [&](size_t i) { return static_cast<uint64_t>(operands[i]); };
  switch (x.opcode()) {
    case Opcode::kConvert:
      return operands[0];
    case Opcode::kNot:
      return x.shape()->dtype() == DType::kPred ? operands[0] == 0 : ~operands[0];
    case Opcode::kNegate:
      return static_cast<int64_t>(0 - in(0));
    case Opcode::kAdd:
      return static_cast<int64_t>(in(0) + in(1));
    case Opcode::kSubtract:
      return static_cast<int64_t>(in(0) - in(1));
    case Opcode::kMultiply:
      return static_cast<int64_t>(in(0) * in(1));
    case Opcode::kAnd:
      return operands[0] & operands[1];
    case Opcode::kOr:
      return operands[0] | operands[1];
    case Opcode::kXor:
      return operands[0] ^ operands[1];
    case Opcode::kSelect:
      return operands[0] != 0 ? operands[1] : operands[2];
    default:
      return x.operand(0)->shape()->dtype() == DType::kU64 ? EvaluateOrdered<uint64_t>(x, operands)
                                                           : EvaluateOrdered<int64_t>(x, operands);
  }
}

}  // namespace

int64_t WrapToType(int64_t value, DType dtype) {
  const int bits = DTypeBits(dtype);
  if (dtype == DType::kPred) return value != 0;
  if (bits >= 64) return value;
  const auto mask = (uint64_t{1} << bits) - 1;
  const auto low = static_cast<uint64_t>(value) & mask;
  const bool is_negative = ClassOf(dtype) == DTypeClass::kSigned && (low >> (bits - 1) & 1) != 0;
  return static_cast<int64_t>(is_negative ? low | ~mask : low);
}

bool IsIntegerOperation(Opcode opcode) {
  switch (opcode) {
    case Opcode::kConvert:
    case Opcode::kNot:
    case Opcode::kNegate:
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kMultiply:
    case Opcode::kDivide:
    case Opcode::kRemainder:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
    case Opcode::kSign:
    case Opcode::kCompare:
    case Opcode::kSelect:
    case Opcode::kClamp:
      return true;
    default:
      return false;
  }
}

int64_t EvaluateInteger(const Instruction& x, std::span<const int64_t> operands) {
  return WrapToType(EvaluateUnwrapped(x, operands), x.shape()->dtype());
}

}  // namespace gshard
