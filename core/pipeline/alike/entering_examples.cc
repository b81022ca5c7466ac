#include "core/pipeline/alike/entering_examples.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/pipeline/plan/layers.h"
#include "core/pipeline/plan/phases.h"
#include "core/transforms/rewriter.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

bool IsFloatingExample(const Instruction* x, const Phases& phases) {
  return x->opcode() == Opcode::kParameter && phases.UsesExamples(x) && x->shape()->IsArray() &&
         ClassOf(x->shape()->dtype()) == DTypeClass::kFloat;
}

// The last layer whose forward pass reads it, through what is made of examples alone; -1: none.
int64_t LastReader(const Instruction* parameter, const LayerGraph& layers, const Users& users) {
  int64_t last = -1;
  std::unordered_set<const Instruction*> seen;
  std::vector<const Instruction*> open = {parameter};
  while (!open.empty()) {
    const Instruction* x = open.back();
    open.pop_back();
    for (const Instruction* user : users.of(x)) {
      if (!seen.insert(user).second) continue;
      if (!layers.IsPlaced(user)) {
        open.push_back(user);
      } else if (!layers.IsBackward(user)) {
        last = std::max(last, layers.LayerOf(user));
      }
    }
  }
  return last;
}

std::unordered_set<int64_t> NumbersEntering(const Module& module, const Phases& phases,
                                            const LayerGraph& layers) {
  const Users users(*module.entry());
  std::unordered_set<int64_t> numbers;
  for (const Instruction* x : module.entry()->parameters()) {
    if (IsFloatingExample(x, phases) && LastReader(x, layers, users) == 0) {
      numbers.insert(x->attributes<ParameterAttributes>().number);
    }
  }
  return numbers;
}

std::unordered_set<const Instruction*> Copy(Module& module,
                                            const std::unordered_set<int64_t>& numbers) {
  std::unordered_set<const Instruction*> copies;
  InsertAfterEach(module, module.entry(), [&](Instruction* x, Builder& builder) -> Instruction* {
    if (x->opcode() != Opcode::kParameter ||
        !numbers.contains(x->attributes<ParameterAttributes>().number)) {
      return x;
    }
    Instruction* copy = builder.Add(Opcode::kCopy, {x}, x->shape(), "examples");
    copies.insert(copy);
    return copy;
  });
  return copies;
}

int64_t CountRepeated(const LayerGraph& graph) {
  return std::ranges::count_if(graph.layers(),
                               [](const Layer& layer) { return layer.is_repeated; });
}

}  // namespace

Expected<std::unordered_set<const Instruction*>> CopyEnteringExamples(
    Module& module, const BatchDims& batch, const Updates& updates, const PipelineOptions& options,
    const ManualRegions& regions) {
  const Phases phases(module, batch);
  Expected<LayerGraph> graph = LayerGraph::Make(module, phases, updates, options, regions);
  if (!graph) return Fail(std::move(graph.error()));
  const std::unordered_set<int64_t> numbers = NumbersEntering(module, phases, *graph);
  if (numbers.empty()) return std::unordered_set<const Instruction*>();
  if (!graph->layers()[0].is_repeated) {
    std::unique_ptr<Module> tried = module.Clone();
    const Phases with(*tried, batch, Copy(*tried, numbers));
    Expected<LayerGraph> other = LayerGraph::Make(*tried, with, updates, options, regions);
    if (!other) return Fail(std::move(other.error()));
    if (CountRepeated(*other) <= CountRepeated(*graph)) {
      return std::unordered_set<const Instruction*>();
    }
  }
  return Copy(module, numbers);
}

}  // namespace gshard::pipeline
