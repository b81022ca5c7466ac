// From compared outputs to the verdict: first whether each operation is right by itself, then what
// differences of outputs mean. Called by VerifyNamedValues, number 4 of the stages of --verify in
// backends/cpu/emulate.h.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_VERDICT_H_
#define GSHARD_BACKENDS_CPU_VERIFY_VERDICT_H_

#include <optional>
#include <span>

#include "backends/cpu/verify/step_check.h"
#include "backends/cpu/verify/verify_instructions.h"

namespace gshard::cpu {

// Completes `verify`, which VerifyOutputs has made, and returns what is known of instructions.
//
// Every operation is judged by the operands that the partitioned program has for it (step_check.h),
// unless `known` holds that result. A wrong one is the finding, whatever the outputs say; in f16
// and bf16 only if it is wrong in double precision as well (widened_steps.h), or rounds more than
// its sums may. If all operations are right and the outputs agree, the program is right. Where
// outputs differ, or memory is too small to judge, the two programs are compared as each runs by
// itself (VerifyInstructions): this tells near ties and rounding that the program magnifies.
// Errors: of planning and running, E-RUN-STOPPED among them.
Expected<InstructionsResult> DecideVerdict(const Module& whole, const Module& partitioned,
                                           std::span<const LocalForm> forms, const Inputs& inputs,
                                           const InstructionsOptions& options, VerifyResult& verify,
                                           std::optional<StepCheckResult> known = std::nullopt);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_VERDICT_H_
