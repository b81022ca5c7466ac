// What other code asks about operations: one function a question, answered by the columns motion,
// purity and callees of ir/opcodes.def. An analysis that needs to know whether an operation only
// moves elements, may be computed twice, or runs other computations asks here and keeps no list of
// opcodes of its own. All functions are pure and may be called from any thread.
#ifndef GSHARD_IR_OP_TRAITS_H_
#define GSHARD_IR_OP_TRAITS_H_

#include "ir/opcode.h"

namespace gshard {

class Instruction;

inline Motion MotionOf(Opcode opcode) { return InfoOf(opcode).motion; }
inline Purity PurityOf(Opcode opcode) { return InfoOf(opcode).purity; }
inline Callees CalleesOf(Opcode opcode) { return InfoOf(opcode).callees; }

// Each element of operand 0 in the same row-major place: copies, reshapes, bitcasts, barriers. A
// bitcast may read the bytes as another type, and follows layouts.
inline bool KeepsOrder(Opcode opcode) { return MotionOf(opcode) == Motion::kKeepsOrder; }

// Elements of operand 0 and nothing else, at places that attributes or start indices say: the
// above, transpose, reverse, broadcast, slices.
inline bool MovesOneArray(Opcode opcode) {
  return MotionOf(opcode) >= Motion::kKeepsOrder && MotionOf(opcode) <= Motion::kTakes;
}

// Elements of operands, each as it was: the above, gather, pad, concatenate, dynamic-update-slice,
// select. Indices, sizes and predicates are operands, too.
inline bool MovesElements(Opcode opcode) {
  return MotionOf(opcode) >= Motion::kKeepsOrder && MotionOf(opcode) <= Motion::kChooses;
}

// Of matrices: dots of every kind, and convolutions.
inline bool IsProduct(Opcode opcode) {
  return InfoOf(opcode).family == "dot" || opcode == Opcode::kConvolution;
}

// Runs its computations as the program's next instructions: call, fusion, async-start, conditional,
// while.
inline bool IsControlFlow(Opcode opcode) {
  const Callees callees = CalleesOf(opcode);
  return callees == Callees::kOnce || callees == Callees::kBranches || callees == Callees::kLoop;
}

// Runs its computations, rather than applying them to elements: the above and scan.
inline bool RunsCallees(Opcode opcode) {
  return IsControlFlow(opcode) || CalleesOf(opcode) == Callees::kSteps;
}

// Elementwise, and made of many operations in hardware: exponentials, logarithms, roots, sines, ..
bool IsTranscendental(const Instruction& x);

// Must not be removed, run twice or reordered with its like. Custom calls say so themselves; XLA
// marks hints of placement so that they stay, although they only say where a value lies: they have
// none. Computations that x calls are not looked at.
bool HasSideEffect(const Instruction& x);

// Would x, computed again from the same operands, give the same value, and nobody notice? No
// collective, nothing with a side effect, also in computations that it calls, nothing with a place
// of its own (parameters, barriers, halves of pairs, control predecessors). Time: linear in the
// computations that x calls.
bool MayBeRepeated(const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_IR_OP_TRAITS_H_
