#include "backends/cpu/named_values.h"

#include <cstdint>
#include <utility>

#include "backends/cpu/verify/settle.h"
#include "backends/cpu/verify/verify_instructions.h"

namespace gshard::cpu {
namespace {

// For values that wait to be compared.
constexpr int64_t kWaitingBytes = int64_t{1} << 30;

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
  result.run.stop = options.stop;
  result.runs = MeshRuns(options.ranks, options.fail_alone);
  result.tolerance = options.tolerance;
  result.progress = [&options](double share) { options.Progress("verify", share); };
  return result;
}

Expected<void> Verify(const PreparedRun& prepared, const EmulateOptions& options,
                      const InstructionsOptions& how, VerifyResult& verify) {
  const MeshPrograms& programs = prepared.programs;
  if (programs.grid.replicas > 1 || programs.forms.empty()) return {};
  const bool differs = !verify.ok || verify.discrete_differences > 0;
  if (!options.verify_instructions && !differs) return {};
  const Module& whole = programs.Reference();
  auto found = Settle(whole, *programs.program, programs.forms, *prepared.inputs, how, verify);
  if (!found) return Fail(found.error());
  if (options.verify_instructions) verify.instructions = std::move(*found);
  return {};
}

}  // namespace

Expected<void> VerifyNamedValues(const PreparedRun& prepared, const EmulateOptions& options,
                                 VerifyResult& verify) {
  const InstructionsOptions how = OptionsFor(prepared, options);
  Expected<void> done = Verify(prepared, options, how, verify);
  how.runs.Finish();
  return done;
}

void FollowNamedValues(const PreparedRun& prepared, const EmulateOptions& options) {
  const InstructionsOptions how = OptionsFor(prepared, options);
  how.runs.Follow(*prepared.programs.program, *prepared.inputs, how.mesh, options.stop);
}

}  // namespace gshard::cpu
