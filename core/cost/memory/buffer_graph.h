// The buffers of one computation and who defines, reads and may overwrite them.
//
// Nodes are the instructions that run as kernels of their own; values that the fusion model
// computes on the fly (core/analysis/kernels/fusion.h) belong to the kernels of their users. Every
// leaf of a node's result has a buffer: a new one, or that of an operand where the instruction only
// renames it (tuples, bitcasts, barriers, -done operations, what a loop carries unchanged).
#ifndef GSHARD_CORE_COST_MEMORY_BUFFER_GRAPH_H_
#define GSHARD_CORE_COST_MEMORY_BUFFER_GRAPH_H_

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/analysis/kernels/module_kernels.h"
#include "core/cost/memory/buffer_size.h"
#include "ir/computation.h"

namespace gshard {

// Lists of lists in two arrays.
class AdjacencyLists {
 public:
  void Append(uint32_t value) { values_.push_back(value); }
  void EndList() { begin_.push_back(static_cast<uint32_t>(values_.size())); }
  size_t size() const { return begin_.size() - 1; }
  std::span<const uint32_t> operator[](size_t i) const {
    return std::span<const uint32_t>(values_).subspan(begin_[i], begin_[i + 1] - begin_[i]);
  }

 private:
  std::vector<uint32_t> begin_ = {0}, values_;
};

// Of the lists of nodes before each node, those behind each; the other way round, too. Nodes of a
// list are in ascending order.
AdjacencyLists Reversed(const AdjacencyLists& lists);

struct Buffer {
  const Instruction* owner = nullptr;  // that allocates it
  uint32_t leaf = 0;                   // of the owner's shape
  int64_t bytes = 0;
  bool is_loop_invariant = false;  // a loop carries it unchanged
  int64_t part_bytes = 0;          // of it as a kernel reads or updates parts of it; 0: it is whole
};

// What a caller must know of a callee: for each leaf of its result the leaf of its parameters (in
// order, tuples flattened) whose value it is unchanged, or -1; the same for those that it updates
// in place.
struct CalleeFacts {
  std::vector<int32_t> unchanged, in_place;
};
using FactsOfCallees = std::unordered_map<const Computation*, CalleeFacts>;

// A result that some branches of a conditional give back from an operand and the others compute:
// these may compute it in the operand's memory once nothing in them reads that.
struct BranchHome {
  uint32_t node = 0;                      // the conditional
  uint32_t leaf = 0;                      // of its result
  uint32_t operand = 0;                   // the buffer
  std::vector<int32_t> parameter_leaves;  // by branch: where it is among the parameters, or -1
};

struct BufferGraph {
  const Computation* computation = nullptr;
  std::vector<const Instruction*> nodes;  // in text order
  std::vector<Buffer> buffers;
  AdjacencyLists leaves;        // node -> the buffers of its result, tuples flattened
  AdjacencyLists allocates;     // node -> its new buffers
  AdjacencyLists reads;         // node -> buffers it reads, each once
  AdjacencyLists predecessors;  // node -> nodes that must run before it
  AdjacencyLists overwrites;    // buffer -> those whose memory it may take over, best first
  std::vector<uint32_t> parameter_leaves;  // buffers
  std::vector<uint32_t> root_leaves;
  // By node: a copy from the host that needs nothing but arguments, and what it needs.
  std::vector<bool> starts_early;
  std::vector<BranchHome> branch_homes;  // in text order; an operand is home to one result

  bool IsParameter(uint32_t buffer) const {
    return buffers[buffer].owner->opcode() == Opcode::kParameter;
  }
};

struct BufferGraphOptions {
  // Compiled text, in which nothing is fused any more and every copy is written out.
  bool is_scheduled = false;
  Tiling tiling = Tiling::kLayout;
  bool by_sharding = false;  // arrays count as their tile on one device
  // Whose memory counts: what lies in the other takes none.
  bool counts_host = false;
  // Its `for_tpu`, too: all-reduces write their results over operands that die there, and copies
  // from the host start as soon as they can.
  FusionOptions fusion;
  // All results of a kernel come when all that it reads is there. False: each comes when what it is
  // made of is there, so that the text's order is one.
  bool runs_kernels_whole = false;
};

// `kernels`: of the module. `facts`: of all computations that this one calls.
BufferGraph MakeBufferGraph(const Computation& computation, ModuleKernels& kernels,
                            const BufferGraphOptions& options, const FactsOfCallees& facts);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_BUFFER_GRAPH_H_
