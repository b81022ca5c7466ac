// Discrete choices over floats: where values within rounding of each other may lead to another
// pick.
//
// A pick that differs though what it is made from agrees is a near tie: neither pick is wrong. What
// follows from it differs by any amount, so verification lets the unpartitioned graph go on with
// the mesh's pick (reference_comparer.h).
#ifndef GSHARD_BACKENDS_CPU_VERIFY_NEAR_TIES_H_
#define GSHARD_BACKENDS_CPU_VERIFY_NEAR_TIES_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/verify/verify.h"
#include "ir/instruction.h"

namespace gshard::cpu {

// The instruction that picks x's value among floats, or rounds floats to fewer values: x itself
// (compare, floor, convert to integers, ..) or, of an element of a tuple, what makes the tuple
// (arg-max, sort, top-k). Null: none.
const Instruction* DecidingInstruction(const Instruction& x);

// The float arrays that decide: operands that are not the same everywhere by nature.
std::vector<const Instruction*> DecidingOperands(const Instruction& choice);

// Where an element of a deciding operand is.
struct Contender {
  const Instruction* operand = nullptr;
  int64_t at = 0;  // flat
};
// What element `at` of x was picked from, the mesh's pick `have` before the unpartitioned `want`:
// the two elements of an arg-max, sort or top-k whose picks are indices; the sides of a comparison;
// what is rounded. Fewer where the values do not tell.
std::vector<Contender> ContendersOf(const Instruction& x, int64_t at, const std::byte* have,
                                    const std::byte* want);

// An element of a deciding operand as both graphs have it.
struct ContenderValue {
  std::array<std::byte, 16> have{}, want{};
  double allowed = 0;  // error
  bool known = false;
};

// Does the step make this pick, the mesh's, of the mesh's floats? Of an arg-max, sort or top-k: are
// the two elements as near to each other as what they may be off by? `values`: of ContendersOf; of
// fewer than tell nothing is known, so that the answer is no.
bool MakesPick(const Instruction& x, const std::byte* pick, std::span<const ContenderValue> values);

// Of a constant, spread out or not, its value; else nothing.
void ReadGiven(const Instruction& x, ContenderValue& value);

// `pick` is the flipped element of x, without a name.
NearTie DescribeNearTie(const Instruction& x, Mismatch pick,
                        const std::vector<Contender>& contenders,
                        const std::vector<ContenderValue>& values);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_NEAR_TIES_H_
