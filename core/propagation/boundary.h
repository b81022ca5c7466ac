// The program's boundary after propagation: what a fixed parameter or result had comes back, and
// dims that do not divide are not split (docs/propagation.md, "Driver", steps 10 and 11).
#ifndef GSHARD_CORE_PROPAGATION_BOUNDARY_H_
#define GSHARD_CORE_PROPAGATION_BOUNDARY_H_

#include <vector>

#include "core/explain/recorder.h"
#include "core/propagation/annotations.h"
#include "ir/module.h"

namespace gshard {

// Flags as in PropagationOptions, empty: not allowed. True if it changed anything.
bool RestoreBoundary(Module& module, const Annotations& annotations,
                     const std::vector<bool>& allow_to_parameters,
                     const std::vector<bool>& allow_to_output, ExplainRecorder* recorder);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_BOUNDARY_H_
