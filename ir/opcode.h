// The opcode table as an enum with properties. The rows are in ir/opcodes.def.
#ifndef GSHARD_IR_OPCODE_H_
#define GSHARD_IR_OPCODE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace gshard {

inline constexpr int kVariadic = -1;

enum OpcodeFlag : uint32_t {
  kElementwise = 1u << 0,  // result element i depends on operand elements i only
  kCommutative = 1u << 1,  // in its two operands
  kSideEffect = 1u << 2,   // must not be removed, duplicated or reordered with its like
  kCollective = 1u << 3,   // exchanges data between devices (the starting half of async pairs)
  kCallsComputations = 1u << 4,  // may have called computations
};

// Element types of operands by class: bit `c` is DTypeClass `c`.
enum OperandType : uint32_t {
  kAnyType = 0,  // the shape rule decides
  kPredType = 1u << 0,
  kSignedType = 1u << 1,
  kUnsignedType = 1u << 2,
  kIntegerType = kSignedType | kUnsignedType,
  kFloatType = 1u << 3,
  kComplexType = 1u << 4,
};

enum class Opcode : uint8_t {
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, flags, shape, types) enumerator,
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
};

inline constexpr int kOpcodeCount = 0
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, flags, shape, types) +1
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
    ;

struct OpcodeInfo {
  std::string_view text;
  int arity;                // or kVariadic
  std::string_view family;  // file stem of its rules in every layer
  uint32_t flags;
  uint32_t types;  // OR of OperandType
};

const OpcodeInfo& InfoOf(Opcode opcode);
inline std::string_view OpcodeName(Opcode opcode) { return InfoOf(opcode).text; }
std::optional<Opcode> OpcodeFromName(std::string_view text);

inline bool HasFlag(Opcode opcode, OpcodeFlag flag) { return (InfoOf(opcode).flags & flag) != 0; }
inline bool IsElementwise(Opcode opcode) { return HasFlag(opcode, kElementwise); }
inline bool IsCollective(Opcode opcode) { return HasFlag(opcode, kCollective); }

}  // namespace gshard

#endif  // GSHARD_IR_OPCODE_H_
