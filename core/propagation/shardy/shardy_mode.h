// Sharding propagation as Shardy does it, the propagation that JAX runs since version 0.7
// (docs/propagation.md, "Shardy").
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_SHARDY_MODE_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_SHARDY_MODE_H_

#include <vector>

#include "core/explain/propagation_findings.h"
#include "core/explain/recorder.h"
#include "ir/module.h"

namespace gshard::shardy {

struct ModeOptions {
  // One flag a leaf of the entry's parameters and of its root, or one for all; empty: all are free.
  // Those that are not free and have no annotation stay whole.
  std::vector<bool> free_parameters, free_results;
};

// Does the text speak Shardy: meshes of its in the header, which annotations of it name?
bool SpeaksShardy(const Module& module);

// Has it manual regions that gshard-opt has differentiated or pipelined? Values inside and outside
// of those share loops and tuples, which Shardy's form of regions does not have: GSPMD's mode takes
// them.
bool HasDerivedRegions(const Module& module);

// Infers shardings in place, of every instruction that Shardy's rules reach; true if anything
// changed. Shardy's attributes must have been imported (core/propagation/shardy_import.h), calls
// inlined. `Sharding` custom-calls and barriers become copies. A second run changes nothing, but
// where the boundary has dropped axes that do not divide a dim: they contradict nobody then.
// `findings` and `recorder` may be null.
bool PropagateAsShardy(Module& module, const ModeOptions& options, PropagationFindings* findings,
                       ExplainRecorder* recorder);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_SHARDY_MODE_H_
