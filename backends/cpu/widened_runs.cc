#include "backends/cpu/widened_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "backends/cpu/verify/mesh_runs.h"
#include "backends/cpu/verify/result_spread.h"
#include "backends/cpu/verify/widened_copy.h"
#include "backends/cpu/verify/widened_outputs.h"
#include "ir/try.h"
#include "ir/verify/verifier.h"

namespace gshard::cpu {
namespace {

MeshRuns RunsOf(const EmulateOptions& options) {
  return MeshRuns(options.ranks, options.fail_alone);
}

class WidenedRuns {
 public:
  WidenedRuns(const PreparedRun& prepared, const EmulateOptions& options, const MeshRuns& runs)
      : prepared_(prepared), options_(options), runs_(runs) {}

  Expected<WidenedResult> Run(const std::vector<OutputArray>& narrow_expected,
                              const VerifyResult& verify) {
    const MeshPrograms& programs = prepared_.programs;
    options_.Progress("widened", 0);
    const std::unique_ptr<Module> program = WidenedCopy(*programs.program);
    const std::unique_ptr<Module> reference = WidenedCopy(programs.Reference());
    for (const Module* module : {program.get(), reference.get()}) {
      GSHARD_TRY(VerifyModule(*module, {.shardings = false}));
    }
    MeshRunOptions mesh = WidenedMesh(prepared_.mesh, program->context());
    LeaveRoom(narrow_expected, mesh);
    const DeviceGrid& whole_grid = programs.whole.grid;
    auto expected = GSHARD_TRY(RunReference(*reference, mesh, whole_grid, narrow_expected.size()));
    if (programs.microbatched.module != nullptr) {
      const std::unique_ptr<Module> in_microbatches = WidenedCopy(*programs.microbatched.module);
      auto microbatched = GSHARD_TRY(
          RunReference(*in_microbatches, mesh, {whole_grid.replicas, 1}, narrow_expected.size()));
      TakeMicrobatched(programs.microbatched.sums, microbatched, expected);
    }
    LeaveRoom(expected, mesh);
    auto run = GSHARD_TRY(runs_.Prepare(*program, *prepared_.inputs, mesh));
    GSHARD_TRY(runs_.Start(*run, options_.stop));
    GSHARD_TRY(runs_.Run(*run, Once(0.5)));
    runs_.GatherResults(*run);
    if (programs.given != nullptr)
      FindResultSpreads(*run, *program, expected, programs.reference_results, [](const auto&) {});
    return JudgeWidened(verify, narrow_expected, *programs.program, programs.Reference(), *run,
                        expected);
  }

 private:
  // What is held while a run goes on counts.
  static void LeaveRoom(const std::vector<OutputArray>& held, MeshRunOptions& mesh) {
    if (mesh.memory_limit == 0) return;
    int64_t bytes = 0;
    for (const OutputArray& array : held) bytes += static_cast<int64_t>(array.data.size());
    mesh.memory_limit = std::max<int64_t>(mesh.memory_limit - bytes, 1);
  }

  // The half of the phase that begins at `share`.
  RunOptions Once(double share) const {
    RunOptions once;
    once.stop = options_.stop;
    once.progress = [this, share](double done) {
      options_.Progress("widened", share + 0.5 * done);
    };
    return once;
  }

  Expected<std::vector<OutputArray>> RunReference(const Module& reference,
                                                  const MeshRunOptions& mesh,
                                                  const DeviceGrid& grid, size_t count) const {
    auto run = GSHARD_TRY(MeshRun::Prepare(reference, *prepared_.inputs, mesh.ForWholeGraph(grid)));
    GSHARD_TRY(run->Start(options_.stop));
    RunOptions once = Once(0);
    once.progress = [this, tell = once.progress](double done) {
      runs_.ReportProgress();  // other ranks wait
      tell(done);
    };
    GSHARD_TRY(run->Run(once));
    return run->Outputs(count);
  }

  const PreparedRun& prepared_;
  const EmulateOptions& options_;
  const MeshRuns& runs_;
};

}  // namespace

bool NeedsWidenedRuns(const VerifyResult& verify) {
  return !verify.ok && verify.OutputsDiffer() && (!verify.finding || verify.finding->is_output);
}

Expected<void> VerifyWidened(const PreparedRun& prepared, const EmulateOptions& options,
                             const std::vector<OutputArray>& expected, VerifyResult& verify) {
  const MeshRuns runs = RunsOf(options);
  auto widened = WidenedRuns(prepared, options, runs).Run(expected, verify);
  runs.Finish();
  if (!widened && widened.error().code == "E-RUN-STOPPED") return Fail(widened.error());
  if (!widened) {
    verify.widened.emplace();
    verify.widened->reason = fmt::format(
        "not run in f64, which would tell whether it is rounding: {}", widened.error().message);
    return {};
  }
  verify.widened = std::move(*widened);
  if (verify.widened->outcome != WidenedResult::Outcome::kRounding) return {};
  verify.ok = !options.tolerance.IsGiven();
  verify.finding.reset();
  if (verify.instructions) verify.instructions->first.reset();
  return {};
}

void ReplayWidened(const PreparedRun& prepared, const EmulateOptions& options) {
  const std::unique_ptr<Module> program = WidenedCopy(*prepared.programs.program);
  RunsOf(options).Replay(*program, *prepared.inputs, WidenedMesh(prepared.mesh, program->context()),
                         options.stop);
}

}  // namespace gshard::cpu
