// Tables with one row an opcode that do not compile where one is forgotten or doubled, and say
// which:
//
//   constexpr Row kRows[] = {{Opcode::kAbs, ..}, ..};  // of any type with a member `opcode`
//   static_assert(OneRowEach<FirstMiscounted(kRows, {1, 1})>::kHolds);
//
// The compiler names the opcode: "In instantiation of 'struct OneRowEach<gshard::Opcode::kAbs>'".
#ifndef GSHARD_IR_OPCODE_ROWS_H_
#define GSHARD_IR_OPCODE_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "ir/opcode.h"

namespace gshard {

inline constexpr Opcode kNoOpcode = static_cast<Opcode>(kOpcodeCount);

// By opcode: InfoOf(opcode).flags, when compiling.
inline constexpr uint32_t kOpcodeFlags[] = {
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, flags, ...) (flags),
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
};

// Rows that an elementwise opcode may have, where a table has a rule for all of them.
struct RowCount {
  int least, most;
};

// The first opcode that has not one row, or of the elementwise ones not so many as they may have.
// kNoOpcode: all do.
template <class Row, size_t kSize>
constexpr Opcode FirstMiscounted(const Row (&rows)[kSize], RowCount of_elementwise) {
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    int count = 0;
    for (const Row& row : rows) count += row.opcode == opcode ? 1 : 0;
    const bool is_elementwise = (kOpcodeFlags[i] & kElementwise) != 0;
    const RowCount allowed = is_elementwise ? of_elementwise : RowCount{1, 1};
    if (count < allowed.least || count > allowed.most) return opcode;
  }
  return kNoOpcode;
}

template <Opcode kMiscounted>
struct OneRowEach {
  static constexpr bool kHolds = kMiscounted == kNoOpcode;
  static_assert(kHolds, "this opcode needs exactly one row in the table");
};

}  // namespace gshard

#endif  // GSHARD_IR_OPCODE_ROWS_H_
