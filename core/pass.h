// What a pass is and what it may use.
//
// A pass changes a module in place and says whether it did. Diagnostics that are no errors
// (warnings, notes) go to the context, never to a stream. Passes are single-threaded per module.
#ifndef GSHARD_CORE_PASS_H_
#define GSHARD_CORE_PASS_H_

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/analysis/device_grid.h"
#include "core/partition/partitioner.h"
#include "core/propagation/propagation.h"
#include "core/transforms/collectives/collective_combiner.h"
#include "core/transforms/constant_splitter.h"
#include "core/transforms/expand/host_transfer_expander.h"
#include "core/transforms/weight_update_sharding.h"
#include "core/transforms/collectives/windowed_einsum.h"
#include "ir/module.h"

namespace gshard {

// Options of all passes, and what they leave behind beside the module.
struct PassContext {
  PropagationOptions propagation;
  PartitionOptions partition;
  CombineOptions combine;
  WeightUpdateOptions weight_update;
  WindowedEinsumOptions windowed_einsum;
  HostTransferOptions host_transfers;
  std::optional<DeviceGrid> devices;  // of expand-dynamic-roots; nothing: as the module says
  // Whose rules the last `propagate` followed; kByText: none has run.
  PropagationMode propagated_as = PropagationMode::kByText;
  UserOrderOverride use_order;        // from inline-calls to propagate
  std::vector<ConstantCopy> constant_copies;  // from split-constants to merge-constants
  ExplainRecorder* recorder = nullptr;        // null: nothing is recorded
  std::vector<Diagnostic> diagnostics;        // warnings and notes, in order
  std::map<std::string, int64_t> statistics;
  HostFeeds host_feeds;  // of expand-host-transfers
};

struct Pass {
  std::string_view name;         // kebab-case, the word used on command lines
  std::string_view description;  // one line
  Expected<bool> (*run)(Module& module, PassContext& context);
};

// All passes, in the order a pipeline would use them. The one list: core/pass_list.cc.
std::span<const Pass> AllPasses();
const Pass* FindPass(std::string_view name);
// The same for what a user wrote: an error, with near names, in place of null.
Expected<const Pass*> PassNamed(std::string_view name);
// What `gshard-opt optimize` runs if no passes are named, in order: names, and passes.
std::span<const std::string_view> DefaultOptimization();
std::vector<const Pass*> DefaultOptimizationPasses();

struct PassTiming {
  std::string name;
  double milliseconds = 0;
};

struct PassManagerOptions {
  bool verify_each = false;
  std::string print_after;                     // pass name; empty: none
  std::function<void(std::string_view)> sink;  // receives the text of print_after
  bool print_after_all = false;                // every pass, headed by a comment with its name
};

// Runs passes in order, timing each and verifying after each if asked. A verifier error after a
// pass is an InternalError that names the pass.
Expected<void> RunPasses(Module& module, std::span<const Pass* const> passes, PassContext& context,
                         const PassManagerOptions& options,
                         std::vector<PassTiming>* timings = nullptr);

}  // namespace gshard

#endif  // GSHARD_CORE_PASS_H_
