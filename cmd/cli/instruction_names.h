// Which instruction a user means by a name.
#ifndef GSHARD_CMD_CLI_INSTRUCTION_NAMES_H_
#define GSHARD_CMD_CLI_INSTRUCTION_NAMES_H_

#include <string>
#include <string_view>

#include "ir/module.h"

namespace gshard {

// In any computation; null if there is none.
const Instruction* FindInstruction(const Module& module, std::string_view name);

// The value that stands for `x` once calls are inlined: a call is its callee's root, a callee's
// parameter what the first call passes.
const Instruction* ValueAfterInlining(const Module& module, const Instruction* x);

// The one instruction with exactly this op_name, such as params['w']; null if there are none or
// several.
const Instruction* OnlyWithOpName(const Module& module, std::string_view op_name);

// The same, else the only one that SimilarNames() would list as holding the text; null if there are
// none or several.
const Instruction* OnlySimilar(const Module& module, std::string_view text);

// Instructions whose name, op_name or source line holds what was asked for, to choose from.
std::string SimilarNames(const Module& module, std::string_view text);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_INSTRUCTION_NAMES_H_
