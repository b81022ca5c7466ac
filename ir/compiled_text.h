// Whose text a module is: a front end's or a compiler's.
#ifndef GSHARD_IR_COMPILED_TEXT_H_
#define GSHARD_IR_COMPILED_TEXT_H_

#include "ir/module.h"

namespace gshard {

// True if the module is compiled text, that is, went through a compiler: it is scheduled, or has
// fusions, which no front end prints. Headers that say "compiled text" mean this. O(instructions).
bool IsCompiled(const Module& module);

}  // namespace gshard

#endif  // GSHARD_IR_COMPILED_TEXT_H_
