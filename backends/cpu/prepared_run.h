// Stage "prepare": everything up to the plan, so that what would fail after a long run fails
// before.
#ifndef GSHARD_BACKENDS_CPU_PREPARED_RUN_H_
#define GSHARD_BACKENDS_CPU_PREPARED_RUN_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "backends/cpu/emulate_options.h"
#include "backends/cpu/io/inputs.h"
#include "backends/cpu/mesh_programs.h"
#include "backends/cpu/run/mesh_run.h"
#include "backends/cpu/verify/index_coverage.h"
#include "ir/module.h"

namespace gshard::cpu {

// Movable: `run` refers to the program behind its pointer.
struct PreparedRun {
  std::unique_ptr<Inputs> inputs;
  MeshPrograms programs;
  std::unique_ptr<IndexCoverage> coverage;  // with --verify: of runs of the whole graph
  MeshRunOptions mesh;                      // of `run`
  std::unique_ptr<MeshRun> run;

  // Results of the user's program; those beyond count what its feeds took.
  size_t ShownResults() const {
    return std::min(run->result_count(), programs.feeds.shown_results);
  }
};

// `given`, `capacities`: see MakeMeshPrograms. `writes`: this process writes the files, whose paths
// are tried. Errors: of partitioning and planning, E-RUN-MEMORY among them; of inputs and files.
Expected<PreparedRun> PrepareRun(std::unique_ptr<Module> module, std::unique_ptr<Module> given,
                                 const EmulateOptions& options,
                                 const std::vector<FeedCapacity>& capacities, bool writes);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PREPARED_RUN_H_
