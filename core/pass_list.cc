// All passes: name, one line, what runs. Pipelines and `gshard-opt list-passes` read this list.

#include "core/analysis/device_grid.h"
#include "core/pass.h"
#include "core/precision/float_widening.h"
#include "core/precision/mixed_precision.h"
#include "core/propagation/canonicalizer.h"
#include "core/propagation/shardy_import.h"
#include "core/transforms/algebraic_simplifier.h"
#include "core/transforms/collectives/all_reduce_folder.h"
#include "core/transforms/collectives/all_reduce_reassociate.h"
#include "core/transforms/annotations/strip_shardings.h"
#include "core/transforms/collectives/collective_mover.h"
#include "core/transforms/collectives/collective_permute_folder.h"
#include "core/transforms/cse.h"
#include "core/transforms/expand/async_unwrapper.h"
#include "core/transforms/expand/channel_resolver.h"
#include "core/transforms/expand/dynamic_padder.h"
#include "core/transforms/expand/dynamic_root_expander.h"
#include "core/transforms/expand/library_call_expander.h"
#include "core/transforms/expand/loop_rotation.h"
#include "core/transforms/expand/scan_expander.h"
#include "core/transforms/expand/sliced_permute_expander.h"
#include "core/transforms/inline_calls.h"
#include "core/transforms/collectives/reduce_scatter_creator.h"
#include "core/transforms/collectives/while_loop_all_reduce_code_motion.h"
#include "core/transforms/collectives/while_loop_invariant_code_motion.h"
#include "core/transforms/while_loop_simplifier.h"
#include "ir/traversal.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

Expected<bool> RunImportShardy(Module& module, PassContext&) {
  Expected<bool> imported = ImportShardyShardings(module);
  if (!imported || !*imported) return imported;
  // Only now is it seen whether all shardings are for one number of devices: the user's error.
  if (Expected<void> ok = VerifyShardings(module); !ok) return Fail(ok.error());
  return imported;
}

Expected<bool> RunInlineCalls(Module& module, PassContext& context) {
  context.use_order.clear();
  const Expected<bool> imported = RunImportShardy(module, context);
  if (!imported) return imported;
  Expected<bool> inlined = InlineCalls(module, &context.use_order, &context.diagnostics);
  if (inlined && *imported) return true;
  return inlined;
}

Expected<bool> RunCanonicalize(Module& module, PassContext&) { return Canonicalize(module); }

Expected<bool> RunSplitConstants(Module& module, PassContext& context) {
  context.constant_copies.clear();
  const bool as_shardy = ModeFor(module, context.propagation.mode) == PropagationMode::kShardy;
  const bool apart = as_shardy || context.propagation.by_relations;
  return SplitConstants(module, apart ? ConstantUses::kElements : ConstantUses::kInstructions,
                        context.constant_copies, context.use_order);
}

Expected<bool> RunMergeConstants(Module& module, PassContext& context) {
  return MergeConstantCopies(module, context.constant_copies);
}

Expected<bool> RunPropagate(Module& module, PassContext& context) {
  PropagationOptions options = context.propagation;
  options.warnings = &context.diagnostics;
  options.use_order = &context.use_order;
  options.mode = context.propagated_as = ModeFor(module, options.mode);
  return PropagateShardings(module, options, context.recorder);
}

Expected<bool> RunPartition(Module& module, PassContext& context) {
  PartitionOptions options = context.partition;
  options.recorder = context.recorder;
  if (options.num_partitions == 0) {  // nobody has looked yet
    options.num_partitions = module.DeviceCount();
    auto verified = VerifyForPartitions(module, options.num_partitions);
    if (!verified) return Fail(verified.error());
  }
  Expected<PartitionStats> stats = PartitionModule(module, options);
  if (!stats) return Fail(std::move(stats.error()));
  context.statistics["partition.collectives"] = stats->collectives;
  context.statistics["partition.bytes_received"] = stats->bytes_received;
  context.statistics["partition.reshards"] = stats->reshards;
  context.statistics["partition.full_rematerializations"] = stats->full_rematerializations;
  return true;
}

Expected<bool> RunDeadCode(Module& module, PassContext&) { return RemoveDeadCode(module); }

Expected<bool> RunAlgebraicSimplifier(Module& module, PassContext&) {
  return SimplifyAlgebra(module);
}

Expected<bool> RunCommonSubexpressions(Module& module, PassContext&) {
  return MergeCommonSubexpressions(module);
}

Expected<bool> RunAllReduceFolder(Module& module, PassContext&) { return FoldAllReduces(module); }

Expected<bool> RunAllReduceReassociate(Module& module, PassContext&) {
  return ReassociateAllReduces(module);
}

Expected<bool> RunReduceScatterCreator(Module& module, PassContext&) {
  return CreateReduceScatters(module);
}

Expected<bool> RunCollectiveMover(Module& module, PassContext&) { return MoveCollectives(module); }

Expected<bool> RunCollectivePermuteFolder(Module& module, PassContext&) {
  return FoldCollectivePermutes(module);
}

Expected<bool> RunLoopInvariants(Module& module, PassContext&) {
  return HoistInvariantCollectives(module);
}

Expected<bool> RunLoopAllReduces(Module& module, PassContext&) {
  return MoveAllReducesOutOfLoops(module, PartNames::kNew);
}

Expected<bool> RunLoopSimplifier(Module& module, PassContext&) {
  const bool merged = MergeEqualLoopState(module);
  return RemoveDeadLoopState(module) || merged;
}

Expected<bool> RunWeightUpdateSharding(Module& module, PassContext& context) {
  return ShardWeightUpdate(module, context.weight_update);
}

Expected<bool> RunWindowedEinsum(Module& module, PassContext& context) {
  return MakeWindowedEinsums(module, context.windowed_einsum);
}

template <StrippedShardings which>
Expected<bool> RunStripShardings(Module& module, PassContext& context) {
  const Expected<bool> imported = RunImportShardy(module, context);
  if (!imported) return imported;
  return StripShardings(module, which) || *imported;
}

Expected<bool> RunDynamicPadder(Module& module, PassContext&) { return PadDynamicSizes(module); }

Expected<bool> RunUnwrapAsync(Module& module, PassContext&) { return UnwrapAsync(module); }

Expected<bool> RunRotateLoops(Module& module, PassContext&) { return RotateLoops(module); }

Expected<bool> RunExpandHostTransfers(Module& module, PassContext& context) {
  Expected<HostFeeds> feeds = ExpandHostTransfers(module, context.host_transfers);
  if (!feeds) return Fail(std::move(feeds.error()));
  context.host_feeds = *std::move(feeds);
  return true;
}

Expected<bool> RunExpandLibraryCalls(Module& module, PassContext&) {
  return ExpandLibraryCalls(module);
}

Expected<bool> RunConvertMixedPrecision(Module& module, PassContext&) {
  return ConvertMixedPrecision(module);
}

Expected<bool> RunExpandScans(Module& module, PassContext&) { return ExpandScans(module); }

Expected<bool> RunResolveChannels(Module& module, PassContext&) { return ResolveChannels(module); }

Expected<bool> RunExpandDynamicRoots(Module& module, PassContext& context) {
  return ExpandDynamicRoots(module, context.devices.value_or(CountDevices(module)));
}

Expected<bool> RunExpandSlicedPermutes(Module& module, PassContext&) {
  return ExpandSlicedPermutes(module);
}

Expected<bool> RunWidenFloats(Module& module, PassContext&) { return WidenFloats(module); }

template <Opcode opcode>
Expected<bool> RunCombiner(Module& module, PassContext& context) {
  return CombineCollectives(module, opcode, context.combine);
}

constexpr Pass kPasses[] = {
    {"import-shardy", "Turn shardings in Shardy's attributes into plain ones", RunImportShardy},
    {"strip-shardings", "Take all annotations away but those of manual regions",
     RunStripShardings<StrippedShardings::kAll>},
    {"strip-inner-shardings", "The same, but parameters and results of the program keep theirs",
     RunStripShardings<StrippedShardings::kInner>},
    {"inline-calls", "Replace every call by the body of its callee", RunInlineCalls},
    {"dynamic-padder", "Arrays of sizes known at run time become arrays of their bounds, masked",
     RunDynamicPadder},
    {"weight-update-sharding", "Cut optimizer state and weight updates along the batch's axes",
     RunWeightUpdateSharding},
    {"canonicalize",
     "Leave out what XLA's import leaves out: movements of nothing, equal constants",
     RunCanonicalize},
    {"split-constants", "A copy of each constant for every user, so that each lays out its own",
     RunSplitConstants},
    {"propagate", "Infer the sharding of every tensor from the annotated ones", RunPropagate},
    {"merge-constants", "Copies that split-constants made and propagate laid out alike: one again",
     RunMergeConstants},
    {"partition", "Rewrite a sharded program into the program of one device", RunPartition},
    {"algsimp", "Clean up arithmetic and movements; tables of partition-id become arithmetic",
     RunAlgebraicSimplifier},
    {"cse", "Do equal computations once, collectives among them", RunCommonSubexpressions},
    {"all-reduce-folder", "Reductions in a row become one, or the smaller one goes first",
     RunAllReduceFolder},
    {"all-reduce-reassociate", "A sum of all-reduces becomes the all-reduce of a sum",
     RunAllReduceReassociate},
    {"reduce-scatter-creator", "An all-reduce of which each device keeps its part: reduce-scatter",
     RunReduceScatterCreator},
    {"collective-permute-folder", "Chains of collective-permutes become one",
     RunCollectivePermuteFolder},
    {"collective-mover", "Cheap operations go before a collective where it then moves less",
     RunCollectiveMover},
    {"while-loop-simplifier", "Loops carry and compute what somebody reads, once",
     RunLoopSimplifier},
    {"while-loop-invariant-code-motion",
     "Collectives that are the same in every iteration: before it", RunLoopInvariants},
    {"while-loop-all-reduce-code-motion", "All-reduces that a loop adds up: one behind it",
     RunLoopAllReduces},
    {"windowed-einsum", "Large gathers and scatters of a dot: a loop that overlaps them with it",
     RunWindowedEinsum},
    {"all-gather-combiner", "Many small all-gathers become few large ones",
     RunCombiner<Opcode::kAllGather>},
    {"all-reduce-combiner", "The same for all-reduces", RunCombiner<Opcode::kAllReduce>},
    {"reduce-scatter-combiner", "The same for reduce-scatters",
     RunCombiner<Opcode::kReduceScatter>},
    {"dead-code", "Remove instructions and computations that nothing needs", RunDeadCode},
    {"expand-library-calls", "Calls that compilers for GPUs and TPUs make become plain operations",
     RunExpandLibraryCalls},
    {"unwrap-async", "Asynchronous computations with host transfers become calls", RunUnwrapAsync},
    {"rotate-loops", "Loops whose condition has host transfers compute it at the end of the body",
     RunRotateLoops},
    {"expand-host-transfers", "What the host feeds and is fed: parameters and results of the entry",
     RunExpandHostTransfers},
    {"convert-mixed-precision", "Operations that read floats of several types get converts",
     RunConvertMixedPrecision},
    {"expand-scans", "Scans whose bodies have loops, branches or collectives become while loops",
     RunExpandScans},
    {"resolve-channels", "A send and the recv of its channel become a collective-permute",
     RunResolveChannels},
    {"expand-dynamic-roots", "Broadcasts from a root known at run time become all-reduces",
     RunExpandDynamicRoots},
    {"expand-sliced-permutes", "Permutes of slices become whole ones between slices and updates",
     RunExpandSlicedPermutes},
    {"widen-floats", "The same program in double precision, to tell rounding from wrong",
     RunWidenFloats},
};

constexpr std::string_view kDefaultOptimization[] = {
    "algsimp",
    "cse",
    "all-reduce-folder",
    "reduce-scatter-creator",
    "all-reduce-reassociate",
    "collective-mover",
    "collective-permute-folder",
    "while-loop-simplifier",
    "while-loop-invariant-code-motion",
    "while-loop-all-reduce-code-motion",
    "algsimp",
    "cse",
    "all-gather-combiner",
    "all-reduce-combiner",
    "reduce-scatter-combiner",
};

}  // namespace

std::span<const Pass> AllPasses() { return kPasses; }
std::span<const std::string_view> DefaultOptimization() { return kDefaultOptimization; }

std::vector<const Pass*> DefaultOptimizationPasses() {
  std::vector<const Pass*> passes;
  for (std::string_view name : kDefaultOptimization) passes.push_back(FindPass(name));
  return passes;
}

}  // namespace gshard
