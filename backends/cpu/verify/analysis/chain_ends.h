// Arrays that need no check because a later array that depends on them is checked.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_CHAIN_ENDS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_CHAIN_ENDS_H_

#include <span>
#include <vector>

#include "backends/cpu/verify/analysis/compared_arrays.h"

namespace gshard::cpu {

// Returns `candidates` without those that another candidate stands for (counted in its
// Candidate::stands_for), in the same order:
//   (a) arrays inside chains: elementwise operations, broadcasts and moves (copies, reshapes,
//       transposes) that the mesh makes by the same operation, of its parts of the same operands.
//       Such a step is right whatever the values are, and kernels need not write it out. The last
//       array of the chain, which may be a sum, stands for them. If no sum of the program is split
//       over devices, sums count as links of chains, too;
//   (b) arrays that only move, in the same way on the mesh, an array that is checked;
//   (c) results of a loop whose body's array is checked.
std::vector<Candidate> ChainEnds(std::span<const Candidate> candidates);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_CHAIN_ENDS_H_
