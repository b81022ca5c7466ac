// From the program of one device to what a backend runs: operations that a backend need not know,
// in terms of those that it does.
//
//   expand-library-calls ─► convert-mixed-precision ─►
//   [expand-scans ─► unwrap-async ─► inline-calls ─► rotate-loops ─► inline-calls ─►]
//   expand-host-transfers ─► dynamic-padder ─► expand-scans ─►
//   resolve-channels ─► expand-dynamic-roots ─► expand-sliced-permutes
//
// The second line only where loops, branches or calls have host transfers. Each step is a pass of
// core/pass_list.cc and takes its options from the PassContext.
#ifndef GSHARD_CORE_SPMD_EXPANSION_H_
#define GSHARD_CORE_SPMD_EXPANSION_H_

#include "core/pass.h"

namespace gshard {

struct ExpansionOptions {
  bool communication = true;  // false: a whole graph for one device, no last line
  PassManagerOptions passes;
};

// In place; context.host_feeds tells of the transfers inside loops and branches afterwards. Errors:
// those of the passes. After an error the module must not be used further.
Expected<void> ExpandForBackend(Module& module, PassContext& context,
                                const ExpansionOptions& options = {});

// The same for StableHLO, in place: what it has no words for is said in its words, and the module
// is verified as one of the devices that it is then written for. Shardings stay.
Expected<void> ExpandForStableHlo(Module& module, PassContext& context);

}  // namespace gshard

#endif  // GSHARD_CORE_SPMD_EXPANSION_H_
