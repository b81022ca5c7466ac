// Are near ties all that outputs differ by? For programs every step of which is right
// (step_check.h).
//
// Both graphs run once, each on its own way, and show their discrete choices over floats with what
// decides them. Where the picks differ though the floats agree within the tolerance, the
// unpartitioned graph goes on with the mesh's picks: that step made the same of the mesh's floats,
// or it would be wrong. So a tie behind another one shows in the same run.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_CHOICE_CHECK_H_
#define GSHARD_BACKENDS_CPU_VERIFY_CHOICE_CHECK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/verify/verify_instructions.h"

namespace gshard::cpu {

struct ChoiceCheckResult {
  std::vector<NearTie> near_ties;  // in order of execution
  // With near ties: every element of the outputs agrees with those of the unpartitioned graph once
  // it makes the mesh's picks.
  bool outputs_agree = false;
  int64_t peak_memory_bytes = 0;
};

// As VerifyInstructions, of choices only. Errors: of planning and running; E-RUN-MEMORY where there
// is no room for both graphs at once. The unpartitioned graph runs on one device.
Expected<ChoiceCheckResult> CheckChoices(const Module& whole, const Module& partitioned,
                                         std::span<const LocalForm> forms, const Inputs& inputs,
                                         const InstructionsOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_CHOICE_CHECK_H_
