// Which layers each stage has.
#ifndef GSHARD_CORE_PIPELINE_BALANCE_H_
#define GSHARD_CORE_PIPELINE_BALANCE_H_

#include <vector>

#include "core/pipeline/layers.h"

namespace gshard::pipeline {

// First layer of each of `stages` (virtual) stages, ascending from 0. `options.balance`:
// "cost": contiguous stages whose longest time is least, exactly, by dynamic programming; of those
//   the ones with the least sum of squares. A stage's time is forward, backward and, with
//   rematerialisation, forward again, plus sending what crosses its end.
// "layers": equal numbers of layers.
// "gpipe": GPipe's published heuristic: layer i goes to stage floor(K * FLOPs up to and with i /
//   FLOPs of all).
// "0,5,11": as it says.
// Errors: E-PIPELINE-005 (fewer layers than stages, or a list that is none).
Expected<std::vector<int64_t>> BalanceStages(const std::vector<Layer>& layers, int64_t stages,
                                             const PipelineOptions& options);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_BALANCE_H_
