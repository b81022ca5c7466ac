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

// The one operation that an async-start's computation holds, if the short spelling loses nothing;
// else null.
const Instruction* WrappedOperation(const Instruction* async_start);

}  // namespace gshard

#endif  // GSHARD_IR_ASYNC_SUGAR_H_
