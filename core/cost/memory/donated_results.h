// Which results of a program lie in the memory of donated arguments.
#ifndef GSHARD_CORE_COST_MEMORY_DONATED_RESULTS_H_
#define GSHARD_CORE_COST_MEMORY_DONATED_RESULTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ir/module.h"

namespace gshard {

// Returns, for each leaf of the entry's root, the leaf of the arguments in whose memory it is, or
// -1: what the header says (input_output_alias), and donated arguments (buffer_donor) without such
// a result take the first of their size that has no place yet. Leaves are those of tuples,
// flattened, those of all arguments counted on; `result_bytes` and `argument_bytes` are their
// sizes, one of each.
std::vector<int32_t> ArgumentsOfResults(const Module& module, std::span<const int64_t> result_bytes,
                                        std::span<const int64_t> argument_bytes);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_DONATED_RESULTS_H_
