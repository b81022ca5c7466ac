// Which moves of data a TPU's compiler leaves to kernels of their own, and whose operands it wants
// in memory. All functions are pure and may be called from any thread.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_MOVED_VALUES_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_MOVED_VALUES_H_

#include "ir/traversal.h"

namespace gshard {

// A gather, a slice with strides, a pad between elements, a reverse: no other kernel computes it.
bool IsMovedAlone(const Instruction& x);

// Does `user` read x, which is computed, from memory? So do pads, concatenations and slices, which
// take no other kernel's work with them (a slice that alone reads x is done before x), and what
// reads x under a shape of other dims than of size 1, unless it is made of x and broadcasts alone,
// or sums up, or x is made of arrays of those dims and of broadcasts alone: a scale for each group
// of a weight's rows. A product reads no matrix of an array's rows (x.reshape(-1, width) @ w) but
// the array.
bool IsReadFromMemory(const Instruction* x, const Instruction* user, const Users& users);

// The shape under which x lies in memory: that of the reshapes which alone read it, where the
// compiler computes x under those dims (of what is normalised in groups, the shape without them);
// else its own.
const Shape* ShapeInMemory(const Instruction* x, const Users& users);

// Is x the array that `user`, an update, updates in place?
bool IsUpdatedBy(const Instruction* user, const Instruction* x);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_MOVED_VALUES_H_
