#include "backends/cpu/microbatched_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "backends/cpu/verify/element_error.h"
#include "core/pipeline/microbatched_step.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/try.h"

namespace gshard::cpu {

Expected<MicrobatchedReference> MakeMicrobatchedReference(const Module& program,
                                                          const Module& given) {
  MicrobatchedReference made;
  const std::string attribute =
      FrontendAttribute(program.header().frontend_attributes, kPipelineAttribute);
  const pipeline::BatchSplit split = pipeline::ReadBatchSplit(attribute);
  // To compare with the whole batch is the stricter test, so the text may ask for it.
  if (split.microbatches <= 1 || split.microbatch_sums == 0) return made;
  std::unique_ptr<Module> step = given.Clone();
  auto microbatched = GSHARD_TRY(pipeline::MakeMicrobatchedStep(*step, split));
  made.sums.microbatches = microbatched.microbatches;
  for (pipeline::MicrobatchSum& sum : microbatched.sums) {
    made.sums.sums.push_back({std::move(sum.name), std::move(sum.op_name), std::move(sum.source)});
  }
  for (size_t k = 0; k < microbatched.follows_sum.size(); ++k) {
    if (microbatched.follows_sum[k]) made.sums.outputs.push_back(k);
  }
  if (!made.sums.outputs.empty()) made.module = std::move(step);
  return made;
}

void TakeMicrobatched(const MicrobatchSums& sums, std::vector<OutputArray>& microbatched,
                      std::vector<OutputArray>& expected) {
  for (size_t k : sums.outputs) {
    if (k < expected.size() && k < microbatched.size()) expected[k] = std::move(microbatched[k]);
  }
}

void CompareWithWholeBatch(const MeshRun& run, const std::vector<OutputArray>& whole_batch,
                           MicrobatchSums& sums) {
  for (size_t k : sums.outputs) {
    if (k >= whole_batch.size() || whole_batch[k].data.empty()) continue;
    const OutputArray& want = whole_batch[k];
    const double error = CompareInstances(run.Instances(k), want, 0).largest;
    const double magnitude = LargestMagnitude(want.dtype, want.data);
    const double relative = magnitude > 0 ? error / magnitude : error;
    sums.max_abs_error = std::max(sums.max_abs_error, error);
    if (!sums.worst.empty() && relative <= sums.max_rel_error) continue;
    sums.max_rel_error = relative;
    sums.worst = fmt::format("o{}", k);
  }
}

}  // namespace gshard::cpu
