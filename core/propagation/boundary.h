// The program's boundary after propagation: what a fixed parameter or result had comes back, and
// dims that do not divide are not split (docs/propagation.md, "Driver", steps 10 and 11).
#ifndef GSHARD_CORE_PROPAGATION_BOUNDARY_H_
#define GSHARD_CORE_PROPAGATION_BOUNDARY_H_

#include <optional>
#include <vector>

#include "core/explain/recorder.h"
#include "core/propagation/annotations.h"
#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard {

// Which parameters and results may take what propagation finds. One flag a leaf of the root and a
// parameter (a leaf of a single tuple parameter), or one for all; empty: none may.
struct BoundaryFlags {
  std::vector<bool> parameters;
  std::vector<bool> results;
  // Nobody has said so: those without an annotation are free.
  bool parameters_by_default = false;
  bool results_by_default = false;
};

// `to_parameters` and `to_output` of PropagationOptions lead, then the header, then the default.
// After Shardy's attributes have been imported. Errors: E-PROP-005 for options that have
// neither one value nor one for each (the verifier checks the header's).
Expected<BoundaryFlags> ResolveBoundary(const Module& module,
                                        const std::vector<bool>& to_parameters,
                                        const std::vector<bool>& to_output);

// True if it changed anything.
bool RestoreBoundary(Module& module, const Annotations& annotations, const BoundaryFlags& flags,
                     ExplainRecorder* recorder);

// The header's flags are used up. What was refused a sharding and has none is refused it still.
void RecordBoundary(Module& module, const BoundaryFlags& flags);

// A note on the parameters and results that are free by default and have come out sharded.
std::optional<Diagnostic> FreeBoundaryNote(const Module& module, const BoundaryFlags& flags);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_BOUNDARY_H_
