// A while loop whose condition is computed at the end of its body.
#ifndef GSHARD_BACKENDS_CPU_EXPAND_TURNED_LOOP_H_
#define GSHARD_BACKENDS_CPU_EXPAND_TURNED_LOOP_H_

#include <span>

#include "ir/module.h"

namespace gshard::cpu {

// Makes each of `loops`, all in one computation, a loop over (carried, go on, first turn). The
// first turn leaves out the body, so the condition is computed as often as before, but where it may
// change what is carried: the condition itself only reads `go on`. Calls the old condition; each
// computation must have one caller.
void TurnLoops(Module& module, std::span<Instruction* const> loops);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EXPAND_TURNED_LOOP_H_
