// Stage "reference": what the unpartitioned graph computes.
#ifndef GSHARD_BACKENDS_CPU_WHOLE_RUN_H_
#define GSHARD_BACKENDS_CPU_WHOLE_RUN_H_

#include <vector>

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/prepared_run.h"

namespace gshard::cpu {

// Runs the whole graph once, on one device (its manual regions on all), and returns its results, as
// many as the user's program has. Meant for before the mesh touches its memory, so that peaks do
// not add up. Errors: of planning and running, E-RUN-STOPPED among them; E-RUN-VERIFY if the
// results of the mesh cannot be put together to these.
Expected<std::vector<OutputArray>> RunWholeGraph(const PreparedRun& prepared,
                                                 const EmulateOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_WHOLE_RUN_H_
