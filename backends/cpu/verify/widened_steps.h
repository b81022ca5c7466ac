// Is every step of the mesh right in double precision?
//
// A sum in a 16-bit float that is taken in another order may differ by as much as a mistake does.
// In double precision it may not: every step of both widened programs is judged there
// (step_check.h), and what is wrong there is wrong by 1e-12 of its terms.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_WIDENED_STEPS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_WIDENED_STEPS_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/verify/verify.h"
#include "backends/cpu/verify/verify_instructions.h"

namespace gshard::cpu {

struct WidenedSteps {
  std::string why_not;             // they are not judged, for want of memory say; empty: they are
  std::optional<Finding> finding;  // the first wrong array; values are those of double precision
  std::vector<uint8_t> is_right;   // by instruction id of the whole graph: judged, and right
  int64_t peak_memory_bytes = 0;
};

// As CheckSteps, of both programs widened. Errors: E-RUN-STOPPED; of running.
Expected<WidenedSteps> JudgeWidenedSteps(const Module& whole, const Module& partitioned,
                                         std::span<const LocalForm> forms, const Inputs& inputs,
                                         const InstructionsOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_WIDENED_STEPS_H_
