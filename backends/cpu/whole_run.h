// Stage "reference": what the unpartitioned graph computes.
#ifndef GSHARD_BACKENDS_CPU_WHOLE_RUN_H_
#define GSHARD_BACKENDS_CPU_WHOLE_RUN_H_

#include <optional>
#include <vector>

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/prepared_run.h"
#include "backends/cpu/verify/kept_choices.h"
#include "backends/cpu/verify/verify.h"

namespace gshard::cpu {

// Runs the whole graph once, on one device (its manual regions on all), and returns its results, as
// many as the user's program has. Call it before the mesh runs, so that the peaks do not add
// up. Errors: of planning and running, E-RUN-STOPPED among them; E-RUN-VERIFY if the
// results of the mesh cannot be put together to these.
Expected<std::vector<OutputArray>> RunWholeGraph(const PreparedRun& prepared,
                                                 const EmulateOptions& options);

// The same of the reference in the micro-batches of a pipelined program, which there is.
Expected<std::vector<OutputArray>> RunMicrobatched(const PreparedRun& prepared,
                                                   const EmulateOptions& options);

struct OwnWay {
  std::vector<OutputArray> outputs;
  // Where the graph went on with the mesh's picks: all outputs agree then. Empty: it never did.
  std::vector<NearTie> near_ties;
};

// The same after a step every array of which was judged right (StepCheckRuns), for near ties at
// once: where a choice has other picks than the mesh though the floats agree, the graph goes on
// with the mesh's. Nothing: it did, and outputs differ all the same, so that they are to be known
// without, or there is no room. Errors: of planning and running.
Expected<std::optional<OwnWay>> RunWithPicks(const PreparedRun& prepared, const MeshRun& mesh,
                                             KeptChoices& choices, const EmulateOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_WHOLE_RUN_H_
