// Which layers each stage has.
#ifndef GSHARD_CORE_PIPELINE_PLAN_BALANCE_H_
#define GSHARD_CORE_PIPELINE_PLAN_BALANCE_H_

#include <vector>

#include "core/pipeline/plan/layers.h"

namespace gshard::pipeline {

// Returns the bytes that a stage of layers [from, to) keeps on its device: weights with what the
// step updates beside them, the sums of their gradients, what `in_flight` micro-batches keep for
// the backward pass, and one micro-batch's activations while that runs.
int64_t StageBytes(const std::vector<Layer>& layers, size_t from, size_t to, int64_t in_flight,
                   const PipelineOptions& options);

struct StagePartition {
  std::vector<int64_t> first;   // layer of each stage
  std::vector<double> seconds;  // of each stage, a micro-batch
};

// "cost" below, with what it comes to. Errors: E-PIPELINE-007 (no stages fit the memory limit).
Expected<StagePartition> PartitionByCost(const std::vector<Layer>& layers, int64_t stages,
                                         const PipelineOptions& options);

// First layer of each of `stages` (virtual) stages, ascending from 0. `options.balance`:
// "cost": contiguous stages whose longest time is least, exactly, by dynamic programming; of those
//   the ones with the least sum of squares. A stage's time is forward, backward and, with
//   rematerialisation, forward again, by the cost model, plus sending what crosses its end. With
//   options.memory_limit_bytes only stages that fit count; each of a device's chunks has its share.
// "layers": equal numbers of layers.
// "gpipe": GPipe's published heuristic: layer i goes to stage floor(K * FLOPs up to and with i /
//   FLOPs of all).
// "0,5,11": as it says.
// With the shifting buffer there are two more: first the layers before the repeated ones, last
// those after; what the stages cannot share evenly of the repeated layers goes there, too. Errors:
// E-PIPELINE-005 (fewer layers than stages, or an invalid list).
Expected<std::vector<int64_t>> BalanceStages(const std::vector<Layer>& layers, int64_t stages,
                                             const PipelineOptions& options);

// First layers of stages of equally many blocks: layers with as many weights as most have, or up to
// half more, that follow each other. What comes before is the first stage's, what comes after the
// last one's. Weights that most stages lack are copied in each pass, which times of layers do not
// tell, so such stages may be better than the shortest ones. Empty: K does not divide the blocks,
// or there are others among them.
std::vector<int64_t> AlikeStretches(const std::vector<Layer>& layers, int64_t stages);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_BALANCE_H_
