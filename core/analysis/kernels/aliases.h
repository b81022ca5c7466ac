// Values that are others under another name: no kernel makes them, and they have no memory of their
// own. All functions are pure and may be called from any thread.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_ALIASES_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_ALIASES_H_

namespace gshard {

class Instruction;

// A transpose that moves dims of size 1 only, or a broadcast that adds such dims only, or none:
// each element stays in its row-major place.
bool MovesNothing(const Instruction& x);

// True if `x` is its operand under another name: reshapes, bitcasts, and, unless a compiler wrote
// them, copies and what MovesNothing (other copies are constraints or identities, which compilers
// drop; they make those that they need).
bool IsAlias(const Instruction* x, bool is_compiled);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_ALIASES_H_
