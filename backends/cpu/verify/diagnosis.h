// What kind of mistake makes a wrong array: what the devices hold is compared with what they would
// hold if a sum were missing, pieces were exchanged, a start were off, ..
#ifndef GSHARD_BACKENDS_CPU_VERIFY_DIAGNOSIS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_DIAGNOSIS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/verify/step_check.h"

namespace gshard::cpu {

// Said behind a device's right copy of a wrong result.
inline constexpr std::string_view kUnequalCopies =
    "the program says that devices hold equal copies where it makes different ones (a manual "
    "region's output sharding?)";

// Runs the mesh once more, to the wrong array, and looks at every device's instance. Errors: of
// running.
Expected<Finding> Diagnose(const Module& whole, const Module& partitioned,
                           std::span<const LocalForm> forms, const Inputs& inputs,
                           const InstructionsOptions& options, const StepCheckResult::Fault& fault);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_DIAGNOSIS_H_
