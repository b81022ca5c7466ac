// Discrete choices over floats, and near ties among them.
//
// Discrete choice: an operation whose result jumps when a float changes a little, such as a
// comparison, an arg-max or a conversion to integers; its result is the pick. Near tie: the two
// programs pick differently although their inputs are equal within tolerance, so neither pick is
// wrong. What follows from a near tie differs by any amount, so verification lets the unpartitioned
// graph go on with the mesh's pick (reference_comparer.h).
#ifndef GSHARD_BACKENDS_CPU_VERIFY_NEAR_TIES_H_
#define GSHARD_BACKENDS_CPU_VERIFY_NEAR_TIES_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/verify/verify.h"
#include "ir/instruction.h"

namespace gshard::cpu {

// Returns the discrete choice that makes x's value: x itself (compare, floor, convert to integers,
// ..) or, of an element of a tuple, the instruction that makes the tuple (arg-max, sort, top-k).
// Null if x is no discrete choice over floats.
const Instruction* DecidingInstruction(const Instruction& x);

// Returns the float operands that decide the choice, without those that are the same on all devices
// by nature.
std::vector<const Instruction*> DecidingOperands(const Instruction& choice);

// Place of an element of a deciding operand.
struct Contender {
  const Instruction* operand = nullptr;
  int64_t at = 0;  // flat index
};
// Returns what element `at` of x was picked from, the mesh's pick `have` before the reference's
// `want`: the two elements of an arg-max, sort or top-k whose picks are indices; the sides of a
// comparison; what is rounded. Fewer where the values do not tell.
std::vector<Contender> ContendersOf(const Instruction& x, int64_t at, const std::byte* have,
                                    const std::byte* want);

// An element of a deciding operand as both graphs have it.
struct ContenderValue {
  std::array<std::byte, 16> have{}, want{};
  double allowed = 0;  // error
  bool known = false;
};

// True if the choice makes the mesh's pick `pick` of the mesh's floats; of an arg-max, sort or
// top-k, if the reference's two elements are as near to each other as their allowed errors
// together. `values`: of what ContendersOf returns; false if one of them is not known, or if there
// are none.
bool MakesPick(const Instruction& x, const std::byte* pick, std::span<const ContenderValue> values);

// Fills in `value` if x is a constant of one element, or a broadcast of one; else leaves it as it
// is.
void ReadGiven(const Instruction& x, ContenderValue& value);

// Describes the near tie at `pick`, the element of x that the two programs pick differently, which
// has no name yet.
NearTie DescribeNearTie(const Instruction& x, Mismatch pick,
                        const std::vector<Contender>& contenders,
                        const std::vector<ContenderValue>& values);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_NEAR_TIES_H_
