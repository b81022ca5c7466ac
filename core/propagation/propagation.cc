#include "core/propagation/propagation.h"

#include <algorithm>

#include "core/propagation/annotation_checks.h"
#include "core/propagation/annotations.h"
#include "core/propagation/boundary.h"
#include "core/propagation/engine.h"
#include "core/propagation/shard_groups.h"
#include "core/propagation/shardy/shardy_mode.h"
#include "core/propagation/shardy_import.h"
#include "ir/device_subsets.h"

namespace gshard {
namespace {

bool AnyTrue(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

void RecordAnnotations(const Module& module, ExplainRecorder* recorder) {
  if (recorder == nullptr) return;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() == nullptr) continue;
      recorder->Record(
          {x, nullptr, ShardingEdge::kAnnotation, -1, x->sharding(), nullptr, x->sharding()});
    }
  }
}

// The copy at the root goes again where what it copies has no sharding either.
void RemoveIdleOutputCopy(Module& module, const Annotations& annotations) {
  const Instruction* copy = annotations.output_copy;
  if (copy == nullptr || copy->operand(0)->sharding() != nullptr) return;
  Computation* entry = module.entry();
  std::vector<Instruction*> list(entry->instructions().begin(), entry->instructions().end());
  list.erase(std::find(list.begin(), list.end(), copy));
  Instruction* root = copy->operand(0);
  entry->SetInstructions(std::move(list));
  entry->set_root(root);
}

void WriteBack(Module& module, const Annotations& annotations, const Engine& engine) {
  for (const Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      // The user's spelling stays where the meaning did.
      if (engine.of(x) != nullptr && !SameSharding(x->sharding(), engine.of(x))) {
        x->set_sharding(engine.of(x));
      }
    }
  }
  RemoveIdleOutputCopy(module, annotations);
}

// The program boundary has the last word; what it says reaches instructions that have no sharding
// yet, parameters and results too unless they are refused one. Everything else is fixed by now.
Expected<void> SpreadFromBoundary(Module& module, DerivedShardings* derived,
                                  ExplainRecorder* recorder) {
  const ModuleHeader& header = module.header();
  const Engine::Options allowed{
      header.propagation_to_parameters.empty(),
      header.propagation_to_output.empty() && module.entry()->root()->sharding() == nullptr,
      derived};
  AnnotationOptions preparation;  // annotated parameters are fixed
  preparation.output_allowed = allowed.output_allowed;
  Expected<Annotations> fixed = PrepareAnnotations(module, preparation, nullptr, recorder);
  if (!fixed) return Fail(fixed.error());
  Engine engine(module, *fixed, allowed, recorder);
  ShardGroups none(*fixed);
  engine.Run(none);
  WriteBack(module, *fixed, engine);
  return {};
}

Expected<bool> InferAsShardy(Module& module, const BoundaryFlags& boundary, bool imported,
                             const PropagationOptions& options, ExplainRecorder* recorder) {
  if (Expected<void> ok = CheckAnnotations(module); !ok) return Fail(ok.error());
  if (options.warnings != nullptr) WarnOfDifferingMeshes(module, *options.warnings);
  RecordAnnotations(module, recorder);
  const bool changed = shardy::PropagateAsShardy(module, {boundary.parameters, boundary.results},
                                                 options.findings, recorder);
  RecordBoundary(module, boundary);
  if (options.warnings != nullptr) {
    if (auto note = FreeBoundaryNote(module, boundary)) {
      options.warnings->push_back(std::move(*note));
    }
  }
  return changed || imported;
}

}  // namespace

std::string_view ModeName(PropagationMode mode) {
  switch (mode) {
    case PropagationMode::kByText:
      return "";
    case PropagationMode::kGspmd:
      return "gspmd";
    case PropagationMode::kShardy:
      return "shardy";
  }
  return "";
}

PropagationMode ModeFor(const Module& module, PropagationMode wanted) {
  if (wanted == PropagationMode::kByText) {
    wanted = shardy::SpeaksShardy(module) ? PropagationMode::kShardy : PropagationMode::kGspmd;
  }
  return shardy::HasDerivedRegions(module) ? PropagationMode::kGspmd : wanted;
}

Expected<bool> PropagateShardings(Module& module, const PropagationOptions& options,
                                  ExplainRecorder* recorder) {
  Expected<bool> imported = ImportShardyShardings(module);
  if (!imported) return Fail(imported.error());
  const Expected<BoundaryFlags> resolved =
      ResolveBoundary(module, options.allow_to_parameters, options.allow_to_output);
  if (!resolved) return Fail(resolved.error());
  const BoundaryFlags& boundary = *resolved;
  if (ModeFor(module, options.mode) == PropagationMode::kShardy) {
    return InferAsShardy(module, boundary, *imported, options, recorder);
  }
  Engine::Options allowed{AnyTrue(boundary.parameters), AnyTrue(boundary.results), options.derived,
                          options.by_relations};
  const bool has_subsets = HasDeviceSubsets(module);
  const int64_t devices = module.DeviceCount();
  RecordAnnotations(module, recorder);
  Expected<Annotations> annotations = PrepareAnnotations(
      module, {allowed.parameters_allowed, allowed.output_allowed, options.use_order},
      options.warnings, recorder);
  if (!annotations) return Fail(annotations.error());

  Engine engine(module, *annotations, allowed, recorder);
  ShardGroups groups(*annotations);
  bool changed = engine.Run(groups);
  if (groups.Align(engine, module, options.warnings)) {
    engine.RunLevel(3, groups);
    changed = true;
  }
  if (options.findings != nullptr) engine.FindConflicts(*options.findings);
  WriteBack(module, *annotations, engine);
  const bool restored = RestoreBoundary(module, *annotations, boundary, recorder);
  RecordBoundary(module, boundary);
  // Derived shardings do not say of how many devices theirs are some.
  if (has_subsets) module.header().num_partitions = devices;
  if (restored) {
    changed = true;
    if (auto done = SpreadFromBoundary(module, options.derived, recorder); !done) return Fail(done.error());
  }
  if (options.warnings != nullptr) {
    if (auto note = FreeBoundaryNote(module, boundary)) {
      options.warnings->push_back(std::move(*note));
    }
  }
  return changed || *imported;
}

}  // namespace gshard
