// Arrays that need no check because a later array that depends on them is checked.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_CHAIN_ENDS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_CHAIN_ENDS_H_

#include <span>
#include <vector>

#include "backends/cpu/verify/analysis/compared_arrays.h"

namespace gshard::cpu {

// Without the arrays inside of chains of elementwise operations, broadcasts and moves (copies,
// reshapes, transposes), each of which the mesh makes by the operation that the whole graph has, of
// its parts of the same operands: such a step is right whatever the values are, and kernels need
// not write it out. What a chain ends in, an operation of this kind or a sum, stands for them.
// Where no sum of the program is cut, sums of whole rows are such steps too. Without what is only
// moved so from an array that is looked at, either, or what a loop leaves behind that its body has
// made: that stands for it.
std::vector<Candidate> ChainEnds(std::span<const Candidate> candidates);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_CHAIN_ENDS_H_
