// Manual regions in Shardy's form, as JAX lowers shard_map: a custom-call
// xla.sdy.GlobalToLocalShape, a call of the region's body on local shapes, and a custom-call
// xla.sdy.LocalToGlobalShape. They become SPMDFullToShardShape and SPMDShardToFullShape calls with
// manual shardings (docs/propagation.md, "Partial annotations and manual regions").
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_REGIONS_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_REGIONS_H_

#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/shardy_text.h"

namespace gshard {

// Must come before the calls of bodies are inlined: afterwards nothing tells which instructions
// without operands are of a region. True if anything changed. Errors: E-SDY-*.
Expected<bool> ImportManualRegions(Module& module, const ShardyMeshes& meshes);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_REGIONS_H_
