// Brings a program into the form in which XLA propagates shardings.
#ifndef GSHARD_CORE_PROPAGATION_CANONICALIZER_H_
#define GSHARD_CORE_PROPAGATION_CANONICALIZER_H_

#include "ir/module.h"

namespace gshard {

// Whatever text a program comes in, XLA reads it as StableHLO. Movements that change nothing are
// left out then, constants fold, and equal constants of a computation, repeated or not, are one
// (docs/stablehlo.md, "What is simplified"). The same is done here to a module that was read from
// HLO text. Instructions with a sharding, frontend attributes or control dependencies stay, and so
// does what nobody read before; programs with manual regions stay as they are. True if anything changed; a second run changes nothing. Linear.
bool Canonicalize(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_CANONICALIZER_H_
