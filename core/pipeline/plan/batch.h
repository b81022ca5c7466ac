// Which parameters hold examples, and the program of one micro-batch.
//
// Splitting the batch is sharding over time: the module is partitioned over M "devices" along the
// batch, so that every value has the shape that one micro-batch gives it, `partition-id` counts
// micro-batches and an all-reduce stands where examples are summed.
#ifndef GSHARD_CORE_PIPELINE_PLAN_BATCH_H_
#define GSHARD_CORE_PIPELINE_PLAN_BATCH_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/analysis/updates.h"
#include "core/pipeline/plan/manual_regions.h"
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

// What the split leaves behind beside the module.
struct SplitProgram {
  std::vector<const Shape*> parameter_shapes;  // whole
  std::vector<const Shape*> output_shapes;     // whole
  std::vector<int64_t> output_dimension;       // the dim that counts examples; -1: none
  int64_t shards = 1;                          // of the batch, each with micro-batches of its own
  // What mixes rows is the whole batch's (core/pipeline/rows/mixed_rows.h), so are these sums.
  bool makes_whole = false;
  std::set<std::string> whole_sums;
};

// Turns `module` (flat, without shardings, its manual regions hidden) into the program of one
// micro-batch. `shards`: into how many parts annotations cut the batch; regions may cut it further.
// `write_out` writes loops over layers out once their bodies are split, before sums leave the loops
// that stay; empty: there are none, or they are written out already. Errors: those of `write_out`;
// E-PIPELINE-001 where micro-batches do not divide the examples of these parts; E-PIPELINE-003
// where examples of different micro-batches are mixed other than by sums and extremes; those of
// propagation and partitioning.
Expected<SplitProgram> SplitBatch(Module& module, const BatchDims& batch, int64_t microbatches,
                                  int64_t shards, const ManualRegions& regions,
                                  const std::function<Expected<void>()>& write_out = {});

// May the batch of `module` be split before its loops over layers are written out, a body once for
// all of its turns? Where there are counted loops and no shardings, and where no loop mixes
// examples other than by sums and extremes: tried on a copy.
bool SplitsInLoops(const Module& module, const BatchDims& batch, int64_t microbatches);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_BATCH_H_
