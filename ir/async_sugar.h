// OP-start, OP-update and OP-done: the short spelling of asynchronous operations.
//
// In the program they are async-start, -update and -done of a computation that holds just OP. The
// opcodes with native pairs (all-reduce-start, copy-start, ..) are never spelled this way.
#ifndef GSHARD_IR_ASYNC_SUGAR_H_
#define GSHARD_IR_ASYNC_SUGAR_H_

#include <optional>
#include <string_view>

#include "ir/instruction.h"

namespace gshard {

enum class AsyncStep : uint8_t { kStart, kUpdate, kDone };
struct AsyncOpcode {
  std::optional<Opcode> wrapped;  // empty: the text is no such opcode
  AsyncStep step = AsyncStep::kStart;
};
AsyncOpcode ParseAsyncOpcode(std::string_view text);

// The async-start whose chain of updates `instruction` ends; null if there is none.
const Instruction* AsyncStartOf(const Instruction* instruction);

// May an operation have so many operands? As opcodes.def says, but an async-update may bring the
// operands of its start besides.
bool TakesOperands(Opcode opcode, size_t count);

// Does an async-start leave its operands to an async-update, as XLA's compiler for TPUs has it?
bool StartsWithoutOperands(const Instruction& async_start);
// Does an async-update bring them?
bool BringsOperands(const Instruction& async_update);

// The one operation that an async-start's computation holds, if the short spelling loses nothing;
// else null.
const Instruction* WrappedOperation(const Instruction* async_start);

}  // namespace gshard

#endif  // GSHARD_IR_ASYNC_SUGAR_H_
