#include "backends/cpu/whole_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/cpu/given_reference.h"
#include "backends/cpu/verify/mesh_runs.h"
#include "backends/cpu/verify/reference_comparer.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

MeshRunOptions WholeOptions(const PreparedRun& prepared) {
  MeshRunOptions mesh = prepared.mesh.ForWholeGraph(prepared.programs.whole.grid);
  mesh.keep.clear();
  mesh.keep_forms.clear();
  return mesh;
}

Expected<void> RunOnce(MeshRun& run, ProbeObserver* observer, const EmulateOptions& options) {
  GSHARD_TRY(run.Start(options.stop));
  RunOptions once;
  once.stop = options.stop;
  once.observer = observer;
  once.progress = [&](double share) { options.Progress("reference", share); };
  return run.Run(once);
}

}  // namespace

Expected<std::vector<OutputArray>> RunWholeGraph(const PreparedRun& prepared,
                                                 const EmulateOptions& options) {
  options.Progress("reference", 0);
  const MeshPrograms& programs = prepared.programs;
  MeshRunOptions mesh = WholeOptions(prepared);
  if (mesh.memory_limit > 0) {
    const int64_t mesh_bytes = prepared.run->plan().program->elided_bytes;
    mesh.memory_limit = std::max<int64_t>(1, mesh.memory_limit - mesh_bytes);
  }
  auto run = GSHARD_TRY(MeshRun::Prepare(programs.Reference(), *prepared.inputs, mesh));
  GSHARD_TRY(RunOnce(*run, nullptr, options));
  std::vector<OutputArray> results = run->Outputs(programs.feeds.shown_results);
  if (programs.given != nullptr) {
    GSHARD_TRY(CheckResults(*prepared.run, *programs.program, prepared.ShownResults(), results,
                            programs.reference_results));
  }
  return results;
}

Expected<std::vector<OutputArray>> RunMicrobatched(const PreparedRun& prepared,
                                                   const EmulateOptions& options) {
  options.Progress("reference", 0);
  MeshRunOptions mesh = prepared.mesh.ForWholeGraph({prepared.programs.whole.grid.replicas, 1});
  mesh.keep.clear();
  mesh.keep_forms.clear();
  auto run =
      GSHARD_TRY(MeshRun::Prepare(*prepared.programs.microbatched.module, *prepared.inputs, mesh));
  GSHARD_TRY(RunOnce(*run, nullptr, options));
  return run->Outputs(prepared.programs.feeds.shown_results);
}

Expected<std::optional<OwnWay>> RunWithPicks(const PreparedRun& prepared, const MeshRun& mesh,
                                             KeptChoices& choices, const EmulateOptions& options) {
  options.Progress("reference", 0);
  const MeshPrograms& programs = prepared.programs;
  const ShownChoices& shown = choices.shown();
  MeshRunOptions of_whole = WholeOptions(prepared);
  of_whole.probes = shown.whole_probes;
  of_whole.probed_bytes = 1;  // what follows a pick is computed from the one put in its place
  std::string no_room;
  auto run = GSHARD_TRY(
      MeshRuns().PrepareIfRoom(programs.Reference(), *prepared.inputs, of_whole, no_room));
  if (run == nullptr) return std::nullopt;
  ReferenceComparer::Spreads spreads;
  for (const Candidate& candidate : shown.candidates) {
    const LocalForm& form = *candidate.form;
    spreads.emplace_back(mesh.SpreadOfTiles(form.local->shape(), form.sharding));
  }
  ErrorScale scale(programs.Reference());
  const std::vector<uint8_t> right(programs.Reference().instruction_limit(), 1);
  ReferenceComparer comparer({{}, &shown, true, right, nullptr}, mesh, std::move(spreads), choices,
                             scale);
  GSHARD_TRY(RunOnce(*run, &comparer, options));
  OwnWay own{run->Outputs(programs.feeds.shown_results), {}};
  if (!comparer.took_picks()) return own;
  own.near_ties = comparer.NearTies();
  const VerifyResult compared =
      VerifyOutputs(mesh, own.outputs, programs.Reference(), options.tolerance);
  const bool agrees = compared.ok && compared.discrete_differences == 0;
  if (own.near_ties.empty() || !agrees) return std::nullopt;
  return own;
}

}  // namespace gshard::cpu
