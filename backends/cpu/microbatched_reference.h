// A reference in the micro-batches of the pipelined program that it is compared with: what the
// program is to compute where sums over a micro-batch return to its examples (W-PIPELINE-001).
#ifndef GSHARD_BACKENDS_CPU_MICROBATCHED_REFERENCE_H_
#define GSHARD_BACKENDS_CPU_MICROBATCHED_REFERENCE_H_

#include <memory>
#include <vector>

#include "backends/cpu/verify/verify.h"
#include "ir/module.h"

namespace gshard::cpu {

struct MicrobatchedReference {
  // For one device, made of the reference alone. Null: the program is none in micro-batches, or no
  // sum returns, so that it is to compute what the reference does on the whole batch.
  std::unique_ptr<Module> module;
  MicrobatchSums sums;  // with its outputs, without errors
};

// `given`: the reference as it was read. Errors: E-PIPELINE-*, where it cannot be split as the
// header of `program` says.
Expected<MicrobatchedReference> MakeMicrobatchedReference(const Module& program,
                                                          const Module& given);

// Puts the outputs that follow from such sums in the place of those in `expected`, the reference's
// on the whole batch. Both have the same shapes.
void TakeMicrobatched(const MicrobatchSums& sums, std::vector<OutputArray>& microbatched,
                      std::vector<OutputArray>& expected);

// How far `run` is from the reference on the whole batch, where the results follow from such sums:
// sets the errors of `sums`.
void CompareWithWholeBatch(const MeshRun& run, const std::vector<OutputArray>& whole_batch,
                           MicrobatchSums& sums);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MICROBATCHED_REFERENCE_H_
