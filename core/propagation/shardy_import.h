// Shardings that come in Shardy's form: the frontend attribute `xla.sdy.sharding` on instructions,
// its meshes in the module's header, xla.sdy.FuncResultSharding custom-calls and manual regions
// (core/propagation/shardy_regions.h), as JAX prints them. `sharding=` where present leads.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_IMPORT_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_IMPORT_H_

#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard {

// Gives instructions that have only the attribute its sharding in XLA's mesh form, turns
// FuncResultSharding into Sharding calls, and drops Sharding calls from functions of elements (of
// reductions, scatters, sorts). True if anything changed. Errors: E-SDY-*.
Expected<bool> ImportShardyShardings(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_IMPORT_H_
