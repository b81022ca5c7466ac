// Forms are found again by the identifiers of their instructions, which copies keep.
#include "backends/cpu/verify/widened_steps.h"

#include <memory>
#include <utility>
#include <vector>

#include "backends/cpu/verify/diagnosis.h"
#include "backends/cpu/verify/step_check.h"
#include "backends/cpu/verify/widened_copy.h"
#include "ir/computation.h"
#include "ir/try.h"
#include "ir/verify/verifier.h"

namespace gshard::cpu {
namespace {

// Those whose instruction the widened module still has.
std::vector<LocalForm> WidenedForms(std::span<const LocalForm> forms, const Module& wide) {
  std::vector<const Instruction*> by_id(wide.instruction_limit(), nullptr);
  for (const Computation* computation : wide.computations()) {
    for (const Instruction* x : computation->instructions()) by_id[x->id()] = x;
  }
  std::vector<LocalForm> found;
  for (LocalForm form : forms) {
    form.local = by_id[form.local->id()];
    if (form.local == nullptr) continue;
    if (form.whole != nullptr) form.whole = WidenedShape(wide.context(), form.whole);
    found.push_back(form);
  }
  return found;
}

}  // namespace

Expected<WidenedSteps> JudgeWidenedSteps(const Module& whole, const Module& partitioned,
                                         std::span<const LocalForm> forms, const Inputs& inputs,
                                         const InstructionsOptions& options) {
  const WideningOptions widening{.keep_converts = true};
  const std::unique_ptr<Module> wide_whole = WidenedCopy(whole, widening);
  const std::unique_ptr<Module> wide_mesh = WidenedCopy(partitioned, widening);
  WidenedSteps steps;
  for (const Module* module : {wide_whole.get(), wide_mesh.get()}) {
    const Expected<void> valid = VerifyModule(*module, {.shardings = false});
    if (!valid) steps.why_not = valid.error().message;
    if (!valid) return steps;
  }
  const std::vector<LocalForm> wide_forms = WidenedForms(forms, *wide_mesh);
  const std::vector<LocalForm> wide_whole_forms = WidenedForms(options.whole_forms, *wide_whole);
  InstructionsOptions of_wide = options;
  of_wide.mesh = WidenedMesh(options.mesh, wide_mesh->context());
  of_wide.whole_forms = wide_whole_forms;
  of_wide.runs = options.runs.Widened();
  auto check = CheckSteps(*wide_whole, *wide_mesh, wide_forms, inputs, of_wide);
  if (!check && check.error().code == "E-RUN-STOPPED") return Fail(check.error());
  steps.why_not = check ? check->no_room : check.error().message;
  if (!steps.why_not.empty()) return steps;
  steps.peak_memory_bytes = check->peak_memory_bytes;
  steps.is_right = std::move(check->is_right);
  if (!check->fault) return steps;
  steps.finding =
      GSHARD_TRY(Diagnose(*wide_whole, *wide_mesh, wide_forms, inputs, of_wide, *check->fault));
  return steps;
}

}  // namespace gshard::cpu
