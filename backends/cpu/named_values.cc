#include "backends/cpu/named_values.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/cpu/verify/verdict.h"
#include "backends/cpu/verify/verify_instructions.h"
#include "ir/computation.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

// For values that wait to be compared.
constexpr int64_t kWaitingBytes = int64_t{1} << 30;
// Of choices: to write out more takes longer than it saves.
constexpr int64_t kKeptBytes = int64_t{256} << 20;

InstructionsOptions OptionsFor(const PreparedRun& prepared, const EmulateOptions& options) {
  const WholeGraph& whole = prepared.programs.whole;
  InstructionsOptions result;
  result.only_choices = !options.verify_instructions;
  result.mesh = prepared.mesh;
  result.mesh.keep.clear();
  result.mesh.keep_forms.clear();
  result.whole_grid = whole.grid;
  result.whole_forms = whole.forms;
  result.budget_bytes = kWaitingBytes;
  result.output_count = prepared.programs.feeds.shown_results;
  result.has_reference = prepared.programs.given != nullptr;
  result.reference_results = prepared.programs.reference_results;
  result.run.stop = options.stop;
  result.runs = MeshRuns(options.ranks, options.fail_alone);
  result.tolerance = options.tolerance;
  result.progress = [&options](double share) { options.Progress("verify", share); };
  return result;
}

bool IsKnownByName(const MeshPrograms& programs) {
  return programs.grid.replicas == 1 && !programs.forms.empty();
}

// Which branch a device takes counts for what it holds.
bool HasBranches(const Module& program) {
  for (const Computation* computation : program.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kConditional) return true;
    }
  }
  return false;
}

Expected<void> Verify(const PreparedRun& prepared, const EmulateOptions& options,
                      const InstructionsOptions& how, VerifyResult& verify,
                      std::optional<StepCheckResult> judged) {
  const MeshPrograms& programs = prepared.programs;
  if (!IsKnownByName(programs)) return {};
  const bool differs = !verify.ok || verify.discrete_differences > 0;
  if (!options.verify_instructions && !differs) return {};
  const Module& whole = programs.Reference();
  auto found = GSHARD_TRY(DecideVerdict(whole, *programs.program, programs.forms, *prepared.inputs,
                                        how, verify, std::move(judged)));
  if (options.verify_instructions) verify.instructions = std::move(found);
  return {};
}

}  // namespace

Expected<std::optional<JudgedStep>> CheckFirstStep(const PreparedRun& prepared,
                                                   const EmulateOptions& options) {
  const MeshPrograms& programs = prepared.programs;
  const bool shows_more = options.repeat > 0 || !options.trace.empty() || !options.dumps.empty() ||
                          options.check_nan || options.ranks != nullptr;
  if (!options.verify || !options.verify_instructions || shows_more) return std::nullopt;
  if (!IsKnownByName(programs) || programs.given != nullptr || options.memory_limit > 0 ||
      !programs.feeds.feeds.empty() || HasBranches(*programs.program)) {
    return std::nullopt;
  }
  JudgedStep judged;
  options.Progress("verify", 0);
  const int64_t mesh_bytes = prepared.run->plan().memory.arena_bytes();
  judged.runs.most_kept_bytes = std::max(kMinBudget, std::min(mesh_bytes / 4 * 3, kKeptBytes));
  auto check =
      GSHARD_TRY(CheckSteps(programs.Reference(), *programs.program, programs.forms,
                            *prepared.inputs, OptionsFor(prepared, options), &judged.runs));
  if (check.fault || !check.no_room.empty()) return std::nullopt;
  judged.check = std::move(check);
  judged.steps.times_s = {judged.runs.mesh_time_s};
  judged.steps.counts = judged.runs.mesh->executor().counts();
  // Arrays that wait to be shown are no part of the step.
  const int64_t peak_bytes = prepared.run->plan().memory.device_peak_bytes;
  for (DeviceWork& work : judged.steps.counts.devices) work.peak_bytes = peak_bytes;
  return judged;
}

Expected<void> VerifyNamedValues(const PreparedRun& prepared, const EmulateOptions& options,
                                 VerifyResult& verify, std::optional<StepCheckResult> judged) {
  const InstructionsOptions how = OptionsFor(prepared, options);
  Expected<void> done = Verify(prepared, options, how, verify, std::move(judged));
  how.runs.Finish();
  return done;
}

void ReplayNamedValues(const PreparedRun& prepared, const EmulateOptions& options) {
  const InstructionsOptions how = OptionsFor(prepared, options);
  how.runs.Replay(*prepared.programs.program, *prepared.inputs, how.mesh, options.stop);
}

}  // namespace gshard::cpu
