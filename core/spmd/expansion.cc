#include "core/spmd/expansion.h"

#include <string_view>
#include <vector>

#include "core/analysis/host_transfers.h"

namespace gshard {

Expected<void> ExpandForBackend(Module& module, PassContext& context,
                                const ExpansionOptions& options) {
  std::vector<std::string_view> names = {"convert-mixed-precision"};
  if (HasNestedHostTransfers(module)) {
    names.insert(names.end(),
                 {"expand-scans", "unwrap-async", "inline-calls", "rotate-loops", "inline-calls"});
  }
  names.insert(names.end(), {"expand-host-transfers", "dynamic-padder", "expand-scans"});
  if (options.communication) {
    names.insert(names.end(),
                 {"resolve-channels", "expand-dynamic-roots", "expand-sliced-permutes"});
  }
  std::vector<const Pass*> passes;
  for (std::string_view name : names) passes.push_back(FindPass(name));
  return RunPasses(module, passes, context, options.passes);
}

}  // namespace gshard
