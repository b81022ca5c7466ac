// One error for all ranks.
#ifndef GSHARD_BACKENDS_CPU_RUN_RANK_ERRORS_H_
#define GSHARD_BACKENDS_CPU_RUN_RANK_ERRORS_H_

#include <optional>

#include "backends/mpi/ranks.h"
#include "ir/diagnostic.h"

namespace gshard::cpu {

// The error of the lowest rank that has one, with its number where others have not met it; nothing
// if none has. All ranks call this, with theirs or null.
std::optional<Diagnostic> AgreeOnError(mpi::Ranks& ranks, const Diagnostic* mine);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_RANK_ERRORS_H_
