// A module as Shardy sees it: tensors, and the operations between them in the order of the text.
//
// Tuples and their elements are no operations: a tensor is a leaf of an instruction's value, and
// tuple, get-tuple-element and control flow hand it on. Loops and branches become edges, each of
// which makes one tensor of several values; so do the borders of manual regions, whose two sides
// are one tensor seen from outside and from inside.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_GRAPH_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_GRAPH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/propagation/shardy/annotation.h"
#include "core/propagation/shardy/relations.h"
#include "core/propagation/shardy/tensor.h"
#include "ir/arena.h"
#include "ir/dims.h"
#include "ir/module.h"

namespace gshard::shardy {

// In which order operations take part (docs/propagation.md, "Shardy").
enum class OpClass : uint8_t {
  kPassThrough,   // element by element, reshapes and transposes; constraints, edges and results
  kDynamicSlice,  // dynamic-slice and dynamic-update-slice
  kOther,
  kBroadcast,
};

struct Operation {
  const Instruction* instruction = nullptr;  // that it stands for
  OpClass op_class = OpClass::kOther;
  bool is_constraint = false;
  bool is_result = false;  // a leaf of the program's result
  bool is_edge = false;    // of a loop, a branch, a barrier or the border of a region
  int allowed = 3;         // directions that a barrier lets through: 1 forward, 2 backward
  size_t operand_count = 0;
  std::span<const View> views;  // operands, then results; the graph owns them
  const IndexedRelation* relation = nullptr;

  std::span<const View> operands() const { return views.first(operand_count); }
  std::span<const View> results() const { return views.subspan(operand_count); }
};

struct Graph {
  static constexpr uint32_t kNoLeaves = UINT32_MAX;
  std::unique_ptr<Arena> arena = std::make_unique<Arena>();  // of dims and views
  std::unique_ptr<AxisTable> axes = std::make_unique<AxisTable>();
  std::unique_ptr<RelationTable> relations = std::make_unique<RelationTable>();
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;  // results of the program first, then in text order
  // By instruction id: where the tensors of its leaves begin in `leaves`; kNoLeaves for dead calls.
  std::vector<uint32_t> first_leaf;
  std::vector<View> leaves;
  // The leaves of an instruction of the module.
  std::span<const View> LeavesOf(const Instruction& x) const {
    // Instructions that are made afterwards have none: the copy whose sharding is the result's.
    if (x.id() >= first_leaf.size() || first_leaf[x.id()] == kNoLeaves) return {};
    const uint32_t first = first_leaf[x.id()];
    return std::span(leaves).subspan(first, At(x.shape()->leaf_count()));
  }
  const Mesh* mesh = nullptr;
  ShardingsBySpelling annotations;
  // The manual axes of the region that an instruction is in, by id; null: of none.
  std::vector<const AxisList*> region;
  std::vector<std::unique_ptr<AxisList>> regions;
  // Leaves of the program's result that have a sharding of their own: the leaf, and its tensor.
  std::vector<std::pair<size_t, int>> result_tensors;
  // Tensors of one sharding group.
  std::vector<std::vector<int>> groups;
};

// By tensor: the first instruction in the text that has it, which is the one that makes it.
std::vector<const Instruction*> MakersOf(const Graph& graph, const Module& module);

// Of flags as PropagationOptions has them: may leaf i take a sharding that propagation finds?
inline bool IsFree(const std::vector<bool>& flags, size_t i) {
  if (flags.empty()) return true;
  return flags.size() == 1 ? flags[0] : i < flags.size() && flags[i];
}

// `meshes`: those that the module's attributes name. `mesh` spans all devices. `free_results`:
// which leaves of the root propagation may lay out, one flag each or one for all; empty: all.
Graph MakeGraph(Module& module, const Mesh* mesh, const ShardyMeshes& meshes,
                const std::vector<bool>& free_results);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_GRAPH_H_
