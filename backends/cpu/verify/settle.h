// What differences mean: rounding that the program magnifies, or a wrong step.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_SETTLE_H_
#define GSHARD_BACKENDS_CPU_VERIFY_SETTLE_H_

#include <span>

#include "backends/cpu/verify/verify_instructions.h"

namespace gshard::cpu {

// Where `verify` has differences beyond its tolerances, in outputs or (with `instructions`, which
// VerifyInstructions has found) within, checks step by step (local_check.h), and says in `verify`
// what came out: the finding, or that the program is ill-conditioned. Errors: of running. Where
// memory does not allow the check, everything stays as it is.
Expected<void> Settle(const Module& whole, const Module& partitioned,
                      std::span<const LocalForm> forms, const Inputs& inputs,
                      const InstructionsOptions& options, InstructionsResult& instructions,
                      VerifyResult& verify);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_SETTLE_H_
