// One copy of a constant for each user while shardings are inferred.
//
// JAX's HLO text and XLA's dumps share equal constants: the zeros of all `where`s are one
// broadcast. As propagation gives an instruction one sharding, what one user needs would be
// offered to all others, which are then laid out by an array that costs nothing to make again.
// StableHLO, printed from the same program, has a copy for each. Before propagation XLA (on
// accelerators) and Shardy give each user its own; so do we, and equal texts get equal programs.
#ifndef GSHARD_CORE_TRANSFORMS_CONSTANT_SPLITTER_H_
#define GSHARD_CORE_TRANSFORMS_CONSTANT_SPLITTER_H_

#include <cstdint>
#include <vector>

#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard {

struct ConstantCopy {
  Instruction* copy = nullptr;
  Instruction* original = nullptr;  // stands before its copies, which follow each other
};

// What counts as one use.
enum class ConstantUses : uint8_t {
  kInstructions,  // an instruction, however often it reads the constant: XLA, before GSPMD
  kElements,      // of tuples and conditionals each operand apart: Shardy, which knows no tuples
};

// To run before propagation, after calls are inlined. What has several uses in its computation (the
// root is one), no sharding, and is made of literals and iotas alone, by broadcasts, slices and
// operations element by element, keeps its first use; every other one gets a copy, of the operands
// likewise. Scalars, which cannot be cut, and literals of more than 4096 elements stay shared, and
// so does what is left when a computation has got 65536 copies. `copies` receives what was made,
// `order` loses the entries that are void. True if something was split. Linear in the number of uses.
bool SplitConstants(Module& module, ConstantUses uses, std::vector<ConstantCopy>& copies,
                    UserOrderOverride& order);

// To run after propagation: copies that have got the sharding of their original, or of an earlier
// copy, are that again, so that programs grow only where it matters. Empties `copies`. True if
// something was merged. Linear but for copies of one original: by their different shardings.
bool MergeConstantCopies(Module& module, std::vector<ConstantCopy>& copies);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_CONSTANT_SPLITTER_H_
