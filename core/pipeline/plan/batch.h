// Which parameters hold examples, and along which dim.
#ifndef GSHARD_CORE_PIPELINE_PLAN_BATCH_H_
#define GSHARD_CORE_PIPELINE_PLAN_BATCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>

#include "core/pipeline/plan/options.h"
#include "ir/module.h"

namespace gshard::pipeline {

struct BatchDims {
  std::map<int64_t, int64_t> dimension;  // entry parameter -> its dim that counts examples
  int64_t size = 0;                      // examples of the whole batch
  bool is_guessed = false;               // no rule of options.batch said so
  bool has_joined_order = false;  // rows of joined batches have got that of the micro-batches
  std::unordered_set<int64_t> parameters() const;
  // Into how many parts, each of rows that follow each other, a dim of examples is cut.
  int64_t PartsOf(int64_t microbatches, int64_t shards) const {
    return has_joined_order ? microbatches : microbatches * shards;
  }
};

// By options.batch, else dim 0 of the array parameters that are neither updated nor scalar, frozen
// weights nor random keys; of what a loop takes row by row the next dim. Where those have different
// sizes, the most frequent is the batch's (of integers, if any). Errors: E-PIPELINE-001 (none, or M
// does not divide it), E-PIPELINE-002 (a rule matches nothing or a dim that is not there).
Expected<BatchDims> FindBatch(const Module& module, const PipelineOptions& options);
// A hint for those who know better: "dim 0 of x is taken to count examples; --batch ..".
std::string GuessText(const Module& module, const BatchDims& batch);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_BATCH_H_
