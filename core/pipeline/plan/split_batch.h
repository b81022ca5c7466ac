// The program of one micro-batch.
//
// Splitting the batch is sharding over time: the module is partitioned over M "devices" along the
// batch, so that every value has the shape that one micro-batch gives it, `partition-id` counts
// micro-batches and an all-reduce stands where examples are summed.
#ifndef GSHARD_CORE_PIPELINE_PLAN_SPLIT_BATCH_H_
#define GSHARD_CORE_PIPELINE_PLAN_SPLIT_BATCH_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/pipeline/plan/batch.h"
#include "core/pipeline/plan/manual_regions.h"
#include "ir/module.h"

namespace gshard::pipeline {

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

#endif  // GSHARD_CORE_PIPELINE_PLAN_SPLIT_BATCH_H_
