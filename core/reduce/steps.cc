// See steps.h.

#include "core/reduce/steps.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/reduce/loop_steps.h"
#include "core/reduce/shape_steps.h"
#include "core/reduce/value_steps.h"
#include "ir/traversal.h"

namespace gshard::reduce {
namespace {

// One item, "all", of what is cheap to drop at once.
int64_t One(Module&) { return 1; }

bool DropMetadata(Module& module, int64_t, int64_t) {
  module.set_debug_tables({});
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      x->set_metadata({});
      if (x->control_predecessors().empty()) x->set_extras(nullptr);
    }
  }
  return true;
}

bool DropHeader(Module& module, int64_t, int64_t) {
  ModuleHeader& header = module.header();
  header.input_output_alias.clear();
  header.buffer_donor.clear();
  header.alias_passthrough_params.reset();
  header.entry_parameter_layouts.clear();
  header.entry_result_layout = nullptr;
  header.origin_recovery_table = {};
  header.debug_attributes = {};
  header.frontend_attributes = {};
  header.propagation_to_parameters.clear();
  header.propagation_to_output.clear();
  return true;
}

int64_t CountAll(Module& module) { return CountInstructions(module); }

// Calls `visit` with the instructions of the numbers from `begin` to `end`.
template <typename Visit>
bool ForEachOf(Module& module, int64_t begin, int64_t end, const Visit& visit) {
  int64_t number = 0;
  bool changed = false;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      if (number >= begin && number < end) changed |= visit(x);
      ++number;
    }
  }
  return changed;
}

bool DropAttributes(Module& module, int64_t begin, int64_t end) {
  return ForEachOf(module, begin, end, [](Instruction* x) {
    const bool has_any =
        !x->frontend_attributes().empty() || !x->backend_config().empty() || x->extras() != nullptr;
    x->set_frontend_attributes({});
    x->set_backend_config({});
    x->set_extras(nullptr);
    return has_any;
  });
}

bool DropShardings(Module& module, int64_t begin, int64_t end) {
  return ForEachOf(module, begin, end, [](Instruction* x) {
    const bool has_any = x->sharding() != nullptr;
    x->set_sharding(nullptr);
    return has_any;
  });
}

bool DropLayouts(Module& module, int64_t, int64_t) {
  bool changed = false;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      changed |= x->shape() != x->shape()->bare();
      x->set_shape(x->shape()->bare());
    }
  }
  return changed;
}

// Parameters that nobody reads go; the others are numbered anew, in their order.
void DropUnusedParameters(Module& module) {
  Computation* entry = module.entry();
  std::vector<bool> used(module.instruction_limit());
  for (const Instruction* x : entry->instructions()) {
    for (const Instruction* operand : x->operands()) used[operand->id()] = true;
    for (const Instruction* before : x->control_predecessors()) used[before->id()] = true;
  }
  used[entry->root()->id()] = true;
  std::vector<Instruction*> list;
  std::vector<Instruction*> parameters;
  for (Instruction* x : entry->instructions()) {
    if (x->opcode() == Opcode::kParameter && !used[x->id()]) continue;
    if (x->opcode() == Opcode::kParameter) parameters.push_back(x);
    list.push_back(x);
  }
  std::ranges::stable_sort(parameters, {}, [](const Instruction* x) {
    return x->attributes<ParameterAttributes>().number;
  });
  for (size_t k = 0; k < parameters.size(); ++k) {
    parameters[k]->mutable_attributes<ParameterAttributes>().number = static_cast<int64_t>(k);
  }
  entry->SetInstructions(std::move(list));
}

constexpr std::array kSteps = {
    Step{"names and lines are dropped", One, DropMetadata},
    Step{"an instruction becomes the result", CountCones, ResultFromCone},
    Step{"results are dropped", CountResults, DropResults},
    Step{"calls are inlined", CountCalls, InlineAllCalls},
    // What makes a run shorter: all tests that follow take less time.
    Step{"loops run twice", CountLongLoops, LoopsRunTwice},
    Step{"loops run half as often", CountLongLoops, LoopsRunHalf},
    Step{"dims that are tied shrink", CountTiedDims, ShrinkTiedDims},
    Step{"dims that are tied shrink to their ends", CountTiedDims, ShrinkTiedDims,
         /*keeps_ends=*/true},
    Step{"dims shrink", CountDimSizes, ShrinkDims},
    Step{"dims shrink to their ends", CountDimSizes, ShrinkDims, /*keeps_ends=*/true},
    Step{"instructions become parameters", CountEntryValues, ValuesToParameters},
    Step{"instructions become sharded parameters", CountEntryValues, ValuesToShardedParameters},
    Step{"instructions become their operands", CountPassThrough, ValuesToOperands},
    Step{"loops and branches become calls", CountControlFlow, ControlFlowToCalls},
    Step{"loops carry less", CountStateElements, DropStateElements},
    Step{"instructions become zeros", CountInnerValues, ValuesToZeros},
    Step{"parameters are merged", CountTwinParameters, MergeParameters},
    Step{"the header is dropped", One, DropHeader},
    Step{"attributes are dropped", CountAll, DropAttributes},
    Step{"shardings are dropped", CountAll, DropShardings},
    Step{"layouts are dropped", One, DropLayouts},
    Step{"the mesh shrinks", CountMeshAxes, ShrinkMesh},
};

}  // namespace

std::span<const Step> AllSteps() { return kSteps; }

void CleanUp(Module& module) {
  const Instruction* root = module.entry()->root();
  const size_t parameters = module.entry()->parameters().size();
  RemoveDeadCode(module);
  DropUnusedParameters(module);
  ModuleHeader& header = module.header();
  // What is said by parameter, or by leaf of the result, is of others now.
  if (module.entry()->parameters().size() != parameters || header.entry_result_layout != nullptr) {
    const bool same_result = header.entry_result_layout != nullptr &&
                             Compatible(header.entry_result_layout, root->shape());
    if (module.entry()->parameters().size() != parameters || !same_result) {
      header.entry_parameter_layouts.clear();
      header.entry_result_layout = nullptr;
      header.input_output_alias.clear();
      header.buffer_donor.clear();
      if (header.propagation_to_parameters.size() > 1) header.propagation_to_parameters.clear();
      if (header.propagation_to_output.size() > 1) header.propagation_to_output.clear();
    }
  }
}

int64_t CountInstructions(const Module& module) {
  int64_t count = 0;
  for (const Computation* computation : module.computations()) {
    count += static_cast<int64_t>(computation->instructions().size());
  }
  return count;
}

}  // namespace gshard::reduce
