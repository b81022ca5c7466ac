#include "core/propagation/propagation.h"

#include <algorithm>

#include "core/propagation/annotations.h"
#include "core/propagation/boundary.h"
#include "core/propagation/engine.h"
#include "core/propagation/shard_groups.h"
#include "core/propagation/shardy_import.h"

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

// Barriers have done their work; their users take the operand instead.
bool RemoveBarriers(Module& module) {
  bool removed = false;
  for (Computation* computation : module.computations()) {
    auto is_barrier = [](const Instruction* x) {
      return IsCustomCallTo(*x, kShardBarrierFrom) || IsCustomCallTo(*x, kShardBarrierTo);
    };
    auto through = [&](Instruction* x) {
      while (is_barrier(x)) x = x->operand(0);
      return x;
    };
    std::vector<Instruction*> list;
    for (Instruction* x : computation->instructions()) {
      if (!is_barrier(x)) list.push_back(x);
    }
    if (list.size() == computation->instructions().size()) continue;
    removed = true;
    for (Instruction* x : list) {
      for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, through(x->operand(i)));
    }
    Instruction* root = through(computation->root());
    computation->SetInstructions(std::move(list));
    computation->set_root(root);
  }
  return removed;
}

}  // namespace

Expected<bool> PropagateShardings(Module& module, const PropagationOptions& options,
                                  ExplainRecorder* recorder) {
  const std::vector<bool>& to_parameters = options.allow_to_parameters.empty()
                                               ? module.header().propagation_to_parameters
                                               : options.allow_to_parameters;
  const std::vector<bool>& to_output = options.allow_to_output.empty()
                                           ? module.header().propagation_to_output
                                           : options.allow_to_output;
  Engine::Options allowed{AnyTrue(to_parameters), AnyTrue(to_output)};
  Expected<bool> imported = ImportShardyShardings(module);
  if (!imported) return Fail(imported.error());
  RecordAnnotations(module, recorder);
  Expected<Annotations> annotations = PrepareAnnotations(
      module, {allowed.parameters_allowed, allowed.output_allowed, options.use_order},
      options.warnings, recorder);
  if (!annotations) return Fail(annotations.error());

  Engine engine(module, *annotations, allowed, recorder);
  ShardGroups groups(*annotations);
  bool changed = engine.Run(groups);
  if (groups.Align(engine)) {
    engine.RunLevel(3, groups);
    changed = true;
  }
  if (options.findings != nullptr) engine.FindConflicts(*options.findings);
  for (const Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      // The user's spelling stays where the meaning did.
      if (engine.of(x) != nullptr && !SameSharding(x->sharding(), engine.of(x))) {
        x->set_sharding(engine.of(x));
      }
    }
  }
  changed = RemoveBarriers(module) || changed;
  RestoreBoundary(module, *annotations, to_parameters, to_output, recorder);
  return changed || *imported;
}

}  // namespace gshard
