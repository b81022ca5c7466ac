#include "backends/cpu/mesh_programs.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backends/cpu/given_reference.h"
#include "backends/cpu/verify/manual_reference.h"
#include "core/analysis/partition_record.h"
#include "core/analysis/partitioned.h"
#include "core/check/communication_check.h"
#include "core/spmd/expansion.h"
#include "core/spmd/per_device_module.h"
#include "ir/attribute_names.h"
#include "ir/compiled_text.h"
#include "ir/dims.h"
#include "ir/host_transfers.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

// What partitioning a graph in place leaves besides the program.
struct PartitionedGraph {
  std::vector<const Shape*> parameters, results;  // leaves, whole
  std::vector<LocalForm> forms;
  WholeGraph whole;
  std::vector<FeedCapacity> capacities;  // of all feeds: the program has the whole graph's room
  double seconds = 0;
  PropagationMode propagated_as = PropagationMode::kByText;
};

Expected<HostFeeds> Expand(Module& module, const ExpansionOptions& options, const DeviceGrid& grid,
                           const Inputs& inputs, const std::vector<FeedCapacity>& capacities) {
  PassContext context;
  context.devices = grid;
  context.host_transfers.capacities = capacities;
  context.host_transfers.file_dims = [&](const Module& of, size_t leaf) {
    return inputs.FileDims(ParameterLeaves(*of.entry())[leaf], leaf);
  };
  GSHARD_TRY(ExpandForBackend(module, context, options));
  return std::move(context.host_feeds);
}

// Every device has its own value of a {manual} parameter (p0 has one a device, stacked); the
// unpartitioned graph would have one for all.
Expected<void> RefuseManualParameters(const Module& graph) {
  for (const Instruction* parameter : graph.entry()->parameters()) {
    const Sharding* sharding = parameter->sharding();
    if (sharding == nullptr) continue;
    for (const Sharding* leaf : LeafShardings(parameter->shape(), sharding)) {
      if (!leaf->IsManual()) continue;
      Diagnostic error = graph.ErrorAt(
          parameter, "E-RUN-VERIFY",
          fmt::format("--verify: every device has its own value of {}, which is {{manual}}; an "
                      "unpartitioned graph has one for all",
                      parameter->name()));
      error.hint = "give the parameter tiles, and enter the region by SPMDFullToShardShape";
      return Fail(std::move(error));
    }
  }
  return {};
}

// Before anything is sharded: the graph's whole shapes, those of feeds among them, and the
// reference, unless that has manual regions.
Expected<void> TakeWhole(const Module& graph, bool is_reference, const Inputs& inputs,
                         PartitionedGraph& result) {
  const auto take_shapes = [&](const Module& module) {
    for (const Instruction* parameter : module.entry()->parameters()) {
      AppendLeafShapes(parameter->shape(), result.parameters);
    }
    AppendLeafShapes(module.entry()->root()->shape(), result.results);
  };
  if (!is_reference && !HasHostTransfers(graph)) {
    take_shapes(graph);
    return {};
  }
  std::unique_ptr<Module> whole = graph.Clone();
  ExpansionOptions expansion;
  expansion.communication = false;
  auto feeds = GSHARD_TRY(Expand(*whole, expansion, result.whole.grid, inputs, result.capacities));
  for (const HostFeed& feed : feeds.feeds) {
    result.capacities.push_back({feed.name, feed.capacity});
  }
  take_shapes(*whole);
  if (is_reference) result.whole.module = std::move(whole);
  return {};
}

// After propagation: what is manual runs on all devices in the reference as well.
Expected<WholeGraph> MakeManualReference(const Module& graph, const DeviceGrid& grid,
                                         const Inputs& inputs,
                                         const std::vector<FeedCapacity>& capacities) {
  WholeGraph whole;
  whole.module = graph.Clone();
  whole.grid = grid;
  ReplicateOutsideManual(*whole.module);
  PartitionOptions partition;
  partition.num_partitions = grid.partitions;
  partition.local_forms = &whole.forms;
  GSHARD_TRY(PartitionModule(*whole.module, partition));
  GSHARD_TRY(Expand(*whole.module, {}, grid, inputs, capacities));
  return whole;
}

// With which `program` was partitioned: the same values are then partial in its reference.
PartitionPolicies PoliciesOf(const Module& program) {
  const std::string as =
      FrontendAttribute(program.header().frontend_attributes, kPartitionedAsAttribute);
  return as == "xla" ? PartitionPolicies::AsXla() : PartitionPolicies();
}

// Partitions `graph` in place for `grid`; `num_partitions` as ReadDevices takes it.
Expected<PartitionedGraph> PartitionGraph(Module& graph, const DeviceGrid& grid,
                                          int64_t num_partitions, const PartitionPolicies& policies,
                                          const EmulateOptions& options, const Inputs& inputs,
                                          const std::vector<FeedCapacity>& capacities) {
  if (options.verify) {
    GSHARD_TRY(RefuseManualParameters(graph));
  }
  const bool manual = HasManualRegions(graph);
  options.Progress("partition", 0);
  const auto start = std::chrono::steady_clock::now();
  PartitionedGraph result;
  result.capacities = capacities;
  result.whole.grid.replicas = grid.replicas;
  PassContext context;
  context.propagation = options.propagation;
  context.partition.policies = policies;
  if (options.verify || !options.dumps.empty()) context.partition.local_forms = &result.forms;
  PerDeviceOptions way;
  way.num_partitions = num_partitions;
  way.passes = options.passes;
  way.before_sharding = [&](Module& inlined) {
    return TakeWhole(inlined, options.verify && !manual, inputs, result);
  };
  way.after_propagation = [&](Module& propagated) -> Expected<void> {
    if (options.verify && manual) {
      result.whole = GSHARD_TRY(MakeManualReference(propagated, grid, inputs, result.capacities));
    }
    if (options.unpartitioned) ReplicateOutsideManual(propagated);
    return {};
  };
  auto made = MakePerDeviceModule(graph, context, way);
  for (const Diagnostic& warning : context.diagnostics) options.Warn(warning);
  if (!made) return Fail(made.error());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  result.seconds = elapsed.count();
  result.propagated_as = context.propagated_as;
  return result;
}

enum class Partitioning : uint8_t {
  kNone,    // the module runs as it is
  kModule,  // the module is the whole graph
  kGiven,   // the module is partitioned: the given reference is, too, for its forms
};

Expected<Partitioning> ChoosePartitioning(const Module& module, bool partitioned, bool has_given,
                                          const DeviceGrid& grid, const EmulateOptions& options) {
  if (options.unpartitioned && (partitioned || !HasManualRegions(module))) {
    return Partitioning::kNone;
  }
  // The compiled text of one device has nothing that a partitioner left.
  const bool is_compiled = grid.partitions == 1 && IsCompiled(module);
  if (has_given && (partitioned || is_compiled)) return Partitioning::kGiven;
  if (has_given) {
    return Fail(MakeError("E-RUN-VERIFY",
                          "--reference goes with a program that is partitioned or compiled, and "
                          "this one is neither: --verify alone compares it with itself",
                          "gshard-opt partition IN | gshard-run - --reference FILE --verify"));
  }
  if (!partitioned && grid.partitions > 1) return Partitioning::kModule;
  if (options.verify && grid.device_count() > 1) {
    return Fail(MakeError("E-RUN-VERIFY",
                          "--verify needs the graph before partitioning, and this one is "
                          "partitioned already",
                          "name that graph: --reference FILE"));
  }
  return Partitioning::kNone;
}

// The reference in the micro-batches of the pipelined program, where that is another function.
Expected<void> TakeMicrobatches(MeshPrograms& made, const EmulateOptions& options,
                                const Inputs& inputs) {
  auto microbatched = MakeMicrobatchedReference(*made.program, *made.given);
  if (!microbatched) {
    // Compared with the whole batch all the same.
    Diagnostic warning = microbatched.error();
    warning.severity = Severity::kWarning;
    warning.message =
        "the reference cannot be split as the program's batch was: " + warning.message;
    options.Warn(warning);
    return {};
  }
  made.microbatched = std::move(*microbatched);
  if (made.microbatched.module == nullptr) return {};
  ExpansionOptions expansion;
  expansion.communication = false;
  GSHARD_TRY(Expand(*made.microbatched.module, expansion, {made.grid.replicas, 1}, inputs, {}));
  return {};
}

Diagnostic NoteOnComparedArrays(const PartitionedGraph& reference, size_t arrays) {
  Diagnostic note = MakeError(
      "", fmt::format("the reference, partitioned with the program's shardings of parameters and "
                      "results, is another program: besides outputs only {} of {} arrays are "
                      "compared, which both make alike",
                      reference.forms.size(), arrays));
  note.severity = Severity::kNote;
  return note;
}

// Partitions the given reference as the program was. Where the reference says too little for that,
// the shardings of parameters, then of results, are taken from the program; what was annotated in
// between cannot be told.
Expected<PartitionedGraph> PartitionGiven(MeshPrograms& made, const DeviceGrid& grid,
                                          const EmulateOptions& options, const Inputs& inputs,
                                          const std::vector<FeedCapacity>& capacities) {
  const Module& program = *made.program;
  const bool has_record = HasPartitionRecord(program) && !IsPipelined(program);
  std::optional<PartitionedGraph> chosen;
  std::unique_ptr<Module> partitioned;
  std::vector<Diagnostic> warnings;
  size_t arrays = 0;
  for (TakenShardings which : {TakenShardings::kNone, TakenShardings::kParameters,
                               TakenShardings::kParametersAndResults}) {
    std::unique_ptr<Module> reference = made.given->Clone();
    if (chosen && !TakeShardings(*reference, program, which)) continue;
    std::vector<Diagnostic> own_warnings;
    EmulateOptions silent = options;
    silent.warn = [&](const Diagnostic& warning) { own_warnings.push_back(warning); };
    auto result = PartitionGraph(*reference, grid, grid.partitions, PoliciesOf(program), silent,
                                 inputs, capacities);
    if (!result) {
      if (chosen) break;
      for (const Diagnostic& warning : own_warnings) options.Warn(warning);
      return result;
    }
    const bool is_alike = !has_record || (IsNamedAlike(program, *reference) &&
                                          (!chosen || HasNamesOf(program, *reference)));
    const size_t found = result->forms.size();
    if (!is_alike) {
      result->forms = FormsMadeAlike(program, *reference, std::move(result->forms));
      if (chosen && result->forms.size() <= chosen->forms.size()) continue;
    }
    arrays = found;
    chosen = std::move(*result);
    partitioned = std::move(reference);
    warnings = std::move(own_warnings);
    if (is_alike) break;
  }
  made.given = std::move(partitioned);
  for (const Diagnostic& warning : warnings) options.Warn(warning);
  if (chosen->forms.size() < arrays) options.Warn(NoteOnComparedArrays(*chosen, arrays));
  return std::move(*chosen);
}

// Partitions the one of the two graphs that is to be. `made` has both, and its grid.
Expected<PartitionedGraph> PartitionChosen(Partitioning way, MeshPrograms& made,
                                           const EmulateOptions& options, const Inputs& inputs,
                                           const std::vector<FeedCapacity>& capacities) {
  switch (way) {
    case Partitioning::kNone:
      break;
    case Partitioning::kModule:
      return PartitionGraph(*made.program, made.grid, options.num_partitions, {}, options, inputs,
                            capacities);
    case Partitioning::kGiven: {
      DeviceGrid grid = made.grid;
      if (IsPipelined(*made.program)) {
        auto own = GSHARD_TRY(ReadDevices(*made.given));
        // Only results are compared: the shardings over the mesh without stages may go, or, where
        // manual regions need its devices, the reference runs on that mesh.
        if (HasManualRegions(*made.given)) {
          grid = own;
        } else {
          GSHARD_TRY(TakeMicrobatches(made, options, inputs));
          ReplicateOutsideManual(*made.given);
        }
      }
      GSHARD_TRY(ReadDevices(*made.given, grid.partitions));
      auto result = PartitionGiven(made, grid, options, inputs, capacities);
      if (result) result->seconds = 0;  // not on the program's way
      return result;
    }
  }
  PartitionedGraph not_cut;
  not_cut.whole.grid = made.whole.grid;
  not_cut.capacities = capacities;
  return not_cut;
}

// What devices would wait in for ever is told before anything runs.
Expected<void> RefuseDeadlock(const Module& program, const DeviceGrid& grid) {
  if (grid.device_count() == 1) return {};
  CommunicationCheck check = CheckCommunication(program, grid);
  for (CommunicationFinding& finding : check.findings) {
    if (finding.IsError() && finding.diagnostic.code == "E-RUN-DEADLOCK") {
      return Fail(std::move(finding.diagnostic));
    }
  }
  return {};
}

// How the given reference's parameters and results are spread, where the program's text does not
// tell it of its own.
Expected<void> TakeSpreads(MeshPrograms& made, const EmulateOptions& options) {
  made.reference_results = GSHARD_TRY(ResultShardings(*made.program, *made.given));
  const std::vector<int64_t> taken =
      TakeParameterShardings(*made.program, *made.given, made.global_parameters);
  if (taken.empty()) return {};
  Diagnostic note = MakeError(
      "", fmt::format("the text does not say how its parameters are spread; those of the reference "
                      "are taken for {} of {}",
                      taken.size(), made.program->entry()->parameters().size()));
  note.severity = Severity::kNote;
  options.Warn(note);
  return {};
}

// Forms of values that the program still has: what expansion has replaced is not there to be
// compared.
void DropReplaced(const Module& program, std::vector<LocalForm>& forms) {
  if (forms.empty()) return;
  std::unordered_set<const Instruction*> there;
  for (const Computation* computation : program.computations()) {
    for (const Instruction* x : computation->instructions()) there.insert(x);
  }
  std::erase_if(forms, [&](const LocalForm& form) { return there.count(form.local) == 0; });
}

}  // namespace

Expected<MeshPrograms> MakeMeshPrograms(std::unique_ptr<Module> module,
                                        std::unique_ptr<Module> given,
                                        const EmulateOptions& options, const Inputs& inputs,
                                        const std::vector<FeedCapacity>& capacities) {
  MeshPrograms made;
  made.program = std::move(module);
  made.given = std::move(given);
  Module& program = *made.program;
  if (!options.output_shardings.empty()) {
    const bool is_whole = !options.partitioned.value_or(IsPartitioned(program));
    if (is_whole && made.given == nullptr) {
      return Fail(MakeError("E-RUN-SHARDINGS",
                            "--output-shardings: IN is not partitioned: its results are whole",
                            "for another split of its results, annotate them"));
    }
    if (auto parsed = ParseOutputShardings(program, options.output_shardings); !parsed) {
      Diagnostic error = parsed.error();
      error.message = "--output-shardings: " + error.message;
      return Fail(std::move(error));
    }
    ModuleHeader& header = program.header();
    header.frontend_attributes =
        WithFrontendAttribute(program.arena(), header.frontend_attributes,
                              kOutputShardingsAttribute, options.output_shardings);
  }
  const bool partitioned = options.partitioned.value_or(IsPartitioned(program));
  const bool has_given = made.given != nullptr;
  GSHARD_TRY(ReadDevices(program, partitioned ? 0 : options.num_partitions));
  made.grid = CountDevices(program, options.num_partitions);
  if (!partitioned || has_given) made.whole.grid.replicas = made.grid.replicas;
  auto way = GSHARD_TRY(ChoosePartitioning(program, partitioned, has_given, made.grid, options));
  if (way == Partitioning::kNone && options.unpartitioned) made.grid = made.whole.grid;
  auto result = GSHARD_TRY(PartitionChosen(way, made, options, inputs, capacities));
  made.global_parameters = std::move(result.parameters);
  made.global_results = std::move(result.results);
  made.forms = std::move(result.forms);
  made.whole = std::move(result.whole);
  made.partition_time_s = result.seconds;
  made.propagated_as = result.propagated_as;
  if (has_given) {
    GSHARD_TRY(TakeSpreads(made, options));
  } else if (partitioned && made.grid.partitions > 1) {
    auto recorded = GSHARD_TRY(RecordedWholeShapes(program));
    made.global_parameters = std::move(recorded.parameters);
    made.global_results = std::move(recorded.results);
  }
  made.model = ModelOneDevice(program);
  ExpansionOptions expansion;
  expansion.passes = options.passes;
  made.feeds = GSHARD_TRY(Expand(program, expansion, made.grid, inputs, result.capacities));
  GSHARD_TRY(RefuseDeadlock(program, made.grid));
  if (!has_given) {
    DropReplaced(program, made.forms);
    return made;
  }
  made.forms = FormsByName(program, std::move(made.forms));
  GSHARD_TRY(CheckParameters(program, made.global_parameters));
  return made;
}

}  // namespace gshard::cpu
