// Stage by stage to a verdict: every step by itself first, then what differences mean.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_VERDICT_H_
#define GSHARD_BACKENDS_CPU_VERIFY_VERDICT_H_

#include <optional>
#include <span>

#include "backends/cpu/verify/step_check.h"
#include "backends/cpu/verify/verify_instructions.h"

namespace gshard::cpu {

// Completes `verify`, which VerifyOutputs has made, and returns what is known of instructions.
//
// Every step is judged by the mesh's own operands (step_check.h), unless `known` has that already.
// One that is wrong is the finding, whatever the outputs say; in f16 and bf16 only one that is
// wrong in double precision as well (widened_steps.h), or rounds more than its sums may. If all are
// right and the outputs agree, so is the program. Where outputs differ, or memory does not allow to
// judge, both graphs are compared as they run by themselves (VerifyInstructions): near ties, or
// rounding that the program magnifies. Errors: of planning and running, E-RUN-STOPPED among them.
Expected<InstructionsResult> DecideVerdict(const Module& whole, const Module& partitioned,
                                           std::span<const LocalForm> forms, const Inputs& inputs,
                                           const InstructionsOptions& options, VerifyResult& verify,
                                           std::optional<StepCheckResult> known = std::nullopt);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_VERDICT_H_
