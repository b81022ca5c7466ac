#include "backends/cpu/prepared_run.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/io/positive_inputs.h"
#include "backends/cpu/result_files.h"
#include "backends/cpu/run/workers.h"
#include "core/analysis/index_inputs.h"
#include "core/analysis/partitioned.h"
#include "ir/dims.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

Expected<std::unique_ptr<Inputs>> OpenInputs(const Module& module, const EmulateOptions& options) {
  if (options.input.empty() && !options.arguments.empty()) {
    return Inputs::FromLiterals(options.arguments, *module.entry(), options.seed);
  }
  return Inputs::Open(options.input, options.seed);
}

// A name of the graph that was partitioned means that whole array, whatever holds it.
void KeepDumps(const EmulateOptions& options, const std::vector<LocalForm>& forms,
               MeshRunOptions& mesh) {
  for (const EmulateOptions::Dump& dump : options.dumps) {
    const auto form =
        std::ranges::find_if(forms, [&](const LocalForm& f) { return f.name == dump.name; });
    const bool known = form != forms.end();
    mesh.keep.push_back(known ? std::string(form->local->name()) : dump.name);
    mesh.keep_forms.push_back(known ? MeshRunOptions::WholeForm{form->sharding, form->whole}
                                    : MeshRunOptions::WholeForm());
  }
}

MeshRunOptions MeshOptions(const EmulateOptions& options, const MeshPrograms& programs) {
  MeshRunOptions mesh;
  mesh.grid = programs.grid;
  mesh.ranks = options.ranks;
  mesh.threads = ThreadsFor(options.threads);
  mesh.seed = options.seed;
  mesh.memory_limit = options.memory_limit;
  mesh.fuse = !options.check_nan;
  mesh.padding = options.check_nan ? Padding::kHarmless : Padding::kPoisoned;
  mesh.global_parameters = programs.global_parameters;
  mesh.global_results = programs.global_results;
  KeepDumps(options, programs.forms, mesh);
  return mesh;
}

// Of the whole graph's runs, by the tiles of the mesh.
std::unique_ptr<IndexCoverage> CoverageOf(const MeshPrograms& programs,
                                          std::span<const IndexInput> inputs) {
  const Module& whole = programs.Reference();
  std::vector<LocalForm> forms;
  if (programs.whole.forms.empty()) {
    forms = programs.forms;
    // Parameters are known by their number, too.
    const std::vector<ParameterLeaf> leaves = ParameterLeaves(*programs.program->entry());
    int64_t leaf = 0;
    for (const Instruction* parameter : whole.entry()->parameters()) {
      const bool has_shard = parameter->shape()->IsArray() && At(leaf) < leaves.size();
      if (has_shard) {
        forms.push_back(
            {parameter->name(), nullptr, leaves[At(leaf)].sharding, parameter->shape()});
      }
      leaf += parameter->shape()->leaf_count();
    }
  }
  return std::make_unique<IndexCoverage>(whole, forms, inputs);
}

// The groups of a partitioned program do not fit a single device.
Diagnostic WithPartitionedHint(Diagnostic error, const Module& program,
                               const EmulateOptions& options) {
  if (options.unpartitioned && error.hint.empty() && IsPartitioned(program)) {
    error.hint = "this program is partitioned already: without --unpartitioned all devices run it";
  }
  return error;
}

}  // namespace

Expected<PreparedRun> PrepareRun(std::unique_ptr<Module> module, std::unique_ptr<Module> given,
                                 const EmulateOptions& options,
                                 const std::vector<FeedCapacity>& capacities, bool writes) {
  PreparedRun prepared;
  prepared.inputs = GSHARD_TRY(OpenInputs(*module, options));
  const Module& meant = given != nullptr ? *given : *module;
  prepared.inputs->SetIndexInputs(FindIndexInputs(meant, meant.DeviceCount()));
  prepared.inputs->SetPositiveInputs(FindPositiveInputs(meant));
  prepared.programs = GSHARD_TRY(
      MakeMeshPrograms(std::move(module), std::move(given), options, *prepared.inputs, capacities));
  prepared.mesh = MeshOptions(options, prepared.programs);
  if (options.verify) {
    prepared.coverage = CoverageOf(prepared.programs, prepared.inputs->index_inputs());
    prepared.mesh.whole_index_observer = prepared.coverage.get();
  }
  if (writes) {
    GSHARD_TRY(CheckFiles(options, prepared.mesh.grid.device_count()));
  }
  options.Progress("plan", 0);
  const Module& program = *prepared.programs.program;
  auto run = MeshRun::Prepare(program, *prepared.inputs, prepared.mesh);
  if (!run) return Fail(WithPartitionedHint(run.error(), program, options));
  prepared.run = std::move(*run);
  GSHARD_TRY(CheckResultNames(prepared, options));
  for (const Diagnostic& warning : prepared.run->warnings()) options.Warn(warning);
  return prepared;
}

}  // namespace gshard::cpu
