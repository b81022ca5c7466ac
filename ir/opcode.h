// The opcode table as an enum with properties. The rows are in ir/opcodes.def; CONTRIBUTING.md,
// "Adding an op", says how to add one.
#ifndef GSHARD_IR_OPCODE_H_
#define GSHARD_IR_OPCODE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gshard {

inline constexpr int kVariadic = -1;

enum OpcodeFlag : uint32_t {
  kElementwise = 1u << 0,  // result element i depends on operand elements i only
  kCommutative = 1u << 1,  // in its two operands
  kCollective = 1u << 2,   // exchanges data between devices (the starting half of async pairs)
};

// What the elements of the result are. From kKeepsOrder to kChooses they are elements of operands,
// unchanged; those up to kTakes move one array, and other operands, if any, say where. Read through
// MotionOf and the questions beside it in ir/op_traits.h.
enum class Motion : uint8_t {
  kComputes,    // new ones
  kMakes,       // given from outside, or made from nothing
  kKeepsOrder,  // each element of operand 0, in row-major order (a bitcast: its bytes)
  kRearranges,  // each element of operand 0 once, elsewhere
  kRepeats,     // each element of operand 0, any number of times
  kTakes,       // some elements of operand 0
  kGathers,     // some elements of operand 0, any number of times
  kJoins,       // each element of several operands
  kUpdates,     // elements of operand 0, some of them replaced by those of operand 1
  kChooses,     // each of one operand or another
  kPacks,       // a tuple of the operands, or an element of one
  kExchanges,   // elements of the same operand on several devices
};

// Whether a second evaluation may stand for the first, or the first for the second. Read through
// PurityOf and the questions beside it in ir/op_traits.h.
enum class Purity : uint8_t {
  kPure,         // yes: the same operands give the same result. Called computations and control
                 // predecessors may forbid it (MayBeRepeated, ir/op_traits.h)
  kAnchored,     // no: a parameter, or what orders or separates others
  kPaired,       // no: half of a start and its done
  kSideEffect,   // no: it must not be removed, duplicated or reordered with its like
  kByAttribute,  // a custom call says
};

// How an operation uses the computations that it calls.
enum class Callees : uint8_t {
  kNoCallee,
  kOnce,        // runs the one; its parameters are the operands
  kBranches,    // runs one of them, on one operand each
  kLoop,        // runs a condition and a body until the condition fails
  kSteps,       // runs the one for each step along a dim
  kPerElement,  // a function of elements
  kUnknown,     // a custom call's target knows
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
#define GSHARD_OPCODE(enumerator, ...) enumerator,
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
};

inline constexpr int kOpcodeCount = 0
#define GSHARD_OPCODE(...) +1
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
    ;

struct OpcodeInfo {
  std::string_view text;
  int arity;  // or kVariadic
  // Group of opcodes with a file of their own, FAMILY.cc, in most `ops` folders; some folders have
  // coarser files (core/op_dims/ops) or finer ones. core/cost chooses its rules by family, and
  // reads DotAttributes of every opcode of family dot (MatrixOf in core/cost/kernel_work.cc).
  std::string_view family;
  uint32_t flags;
  uint32_t types;  // OR of OperandType
  Motion motion;
  Purity purity;
  Callees callees;
};

extern const std::array<OpcodeInfo, kOpcodeCount> kOpcodeInfos;
inline const OpcodeInfo& InfoOf(Opcode opcode) { return kOpcodeInfos[static_cast<size_t>(opcode)]; }
inline std::string_view OpcodeName(Opcode opcode) { return InfoOf(opcode).text; }
std::optional<Opcode> OpcodeFromName(std::string_view text);

inline bool HasFlag(Opcode opcode, OpcodeFlag flag) { return (InfoOf(opcode).flags & flag) != 0; }
inline bool IsElementwise(Opcode opcode) { return HasFlag(opcode, kElementwise); }
inline bool IsCollective(Opcode opcode) { return HasFlag(opcode, kCollective); }

}  // namespace gshard

#endif  // GSHARD_IR_OPCODE_H_
