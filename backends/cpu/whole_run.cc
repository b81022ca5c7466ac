#include "backends/cpu/whole_run.h"

#include <algorithm>
#include <memory>

#include "backends/cpu/given_reference.h"

namespace gshard::cpu {

Expected<std::vector<OutputArray>> RunWholeGraph(const PreparedRun& prepared,
                                                 const EmulateOptions& options) {
  options.Progress("reference", 0);
  const MeshPrograms& programs = prepared.programs;
  MeshRunOptions mesh = prepared.mesh.ForWholeGraph(programs.whole.grid);
  if (mesh.memory_limit > 0) {
    const int64_t mesh_bytes = prepared.run->plan().program->elided_bytes;
    mesh.memory_limit = std::max<int64_t>(1, mesh.memory_limit - mesh_bytes);
  }
  mesh.keep.clear();
  mesh.keep_forms.clear();
  auto run = MeshRun::Prepare(programs.Reference(), *prepared.inputs, mesh);
  if (!run) return Fail(run.error());
  if (auto done = (*run)->Start(options.stop); !done) return Fail(done.error());
  RunOptions once;
  once.stop = options.stop;
  once.progress = [&](double share) { options.Progress("reference", share); };
  if (auto done = (*run)->Run(once); !done) return Fail(done.error());
  std::vector<OutputArray> results = (*run)->Outputs(programs.feeds.shown_results);
  if (programs.given != nullptr) {
    auto done = CheckResults(*prepared.run, *programs.program, prepared.ShownResults(), results);
    if (!done) return Fail(done.error());
  }
  return results;
}

}  // namespace gshard::cpu
