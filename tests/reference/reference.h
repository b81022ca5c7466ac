// A slow, obvious evaluator of computations on one device: the oracle of the fast kernels' tests.
//
// Every rule of docs/semantics.md is written out as loops over index tuples, in f64 and 64-bit
// integers, rounded to the result's type after each operation. It shares no code with the kernels
// but the encoding of small floats. Communication and rng are not values of one device: they are
// internal errors here, and so is what the verifier would refuse.
#ifndef GSHARD_TESTS_REFERENCE_REFERENCE_H_
#define GSHARD_TESTS_REFERENCE_REFERENCE_H_

#include <span>

#include "ir/computation.h"
#include "tests/reference/value.h"

namespace gshard::cpu {

// The root's value. Arguments are parameters in order.
ReferenceValue EvaluateReference(const Computation& computation,
                                 std::span<const ReferenceValue> arguments);

// One instruction on the values of its operands.
ReferenceValue EvaluateReference(const Instruction& instruction,
                                 std::span<const ReferenceValue> operands);

}  // namespace gshard::cpu

#endif  // GSHARD_TESTS_REFERENCE_REFERENCE_H_
