// Leaves of tuple-shaped values: what is no tuple in them, numbered in pre-order, as LeafShapes
// (ir/dims.h) lists them. Nothing here is thread-safe: instructions are made in a module.
#ifndef GSHARD_IR_LEAVES_H_
#define GSHARD_IR_LEAVES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ir/builder.h"
#include "ir/instruction.h"

namespace gshard {

// The first leaf of its operand that `element`, a get-tuple-element, reads.
int64_t FirstLeafRead(const Instruction& element);

// Leaf `leaf` of x, looked up through tuple() or read by get-tuple-element, which `builder` (of the
// computation of x) makes.
Instruction* LeafValue(Builder& builder, Instruction* x, int64_t leaf);
// All of them, in order.
std::vector<Instruction*> LeafValues(Builder& builder, Instruction* x);
// Puts the first leaves of `leaves`, as many as `shape` has, together as a value of `shape`.
Instruction* FromLeaves(Builder& builder, const Shape* shape, std::span<Instruction* const> leaves);

}  // namespace gshard

#endif  // GSHARD_IR_LEAVES_H_
