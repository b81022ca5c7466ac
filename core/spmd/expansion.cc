#include "core/spmd/expansion.h"

#include <span>
#include <string_view>
#include <vector>

#include "core/analysis/device_grid.h"
#include "ir/host_transfers.h"

namespace gshard {
namespace {

Expected<void> RunNamed(std::span<const std::string_view> names, Module& module,
                        PassContext& context, const PassManagerOptions& options) {
  std::vector<const Pass*> passes;
  for (const std::string_view name : names) passes.push_back(FindPass(name));
  return RunPasses(module, passes, context, options);
}

}  // namespace

Expected<void> ExpandForBackend(Module& module, PassContext& context,
                                const ExpansionOptions& options) {
  std::vector<std::string_view> names = {"expand-library-calls", "convert-mixed-precision"};
  if (HasNestedHostTransfers(module)) {
    names.insert(names.end(),
                 {"expand-scans", "unwrap-async", "inline-calls", "rotate-loops", "inline-calls"});
  }
  names.insert(names.end(), {"expand-host-transfers", "dynamic-padder", "expand-scans"});
  if (options.communication) {
    names.insert(names.end(),
                 {"resolve-channels", "expand-dynamic-roots", "expand-sliced-permutes"});
  }
  return RunNamed(names, module, context, options.passes);
}

Expected<void> ExpandForStableHlo(Module& module, PassContext& context) {
  if (auto verified = VerifyForPartitions(module, module.DeviceCount()); !verified) {
    return verified;
  }
  constexpr std::string_view kNames[] = {"convert-mixed-precision", "expand-dynamic-roots",
                                         "expand-sliced-permutes"};
  return RunNamed(kNames, module, context, {});
}

}  // namespace gshard
