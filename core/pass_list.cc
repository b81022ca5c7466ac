// All passes: name, one line, what runs. Pipelines and `gshard-opt list-passes` read this list.

#include <array>

#include "core/pass.h"
#include "core/propagation/shardy_import.h"
#include "core/transforms/inline_calls.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

Expected<bool> RunImportShardy(Module& module, PassContext&) {
  return ImportShardyShardings(module);
}

Expected<bool> RunInlineCalls(Module& module, PassContext& context) {
  context.use_order.clear();
  return InlineCalls(module, &context.use_order);
}

Expected<bool> RunPropagate(Module& module, PassContext& context) {
  PropagationOptions options = context.propagation;
  options.warnings = &context.diagnostics;
  options.use_order = &context.use_order;
  return PropagateShardings(module, options, context.recorder);
}

Expected<bool> RunPartition(Module& module, PassContext& context) {
  PartitionOptions options = context.partition;
  options.recorder = context.recorder;
  Expected<PartitionStats> stats = PartitionModule(module, options);
  if (!stats) return Fail(std::move(stats.error()));
  context.statistics["partition.collectives"] = stats->collectives;
  context.statistics["partition.bytes_received"] = stats->bytes_received;
  context.statistics["partition.reshards"] = stats->reshards;
  context.statistics["partition.full_rematerializations"] = stats->full_rematerializations;
  return true;
}

Expected<bool> RunDeadCode(Module& module, PassContext&) { return RemoveDeadCode(module); }

constexpr std::array<Pass, 5> kPasses = {{
    {"import-shardy", "Turn shardings in Shardy's attributes into plain ones", RunImportShardy},
    {"inline-calls", "Replace every call by the body of its callee", RunInlineCalls},
    {"propagate", "Infer the sharding of every tensor from the annotated ones", RunPropagate},
    {"partition", "Rewrite a sharded program into the program of one device", RunPartition},
    {"dead-code", "Remove instructions and computations that nothing needs", RunDeadCode},
}};

}  // namespace

std::span<const Pass> AllPasses() { return kPasses; }

}  // namespace gshard
