#include "core/analysis/attention/dependence_tree.h"

#include <algorithm>

namespace gshard {

DependenceTree::DependenceTree(const Computation& computation) {
  const std::span<Instruction* const> list = computation.instructions();
  uint32_t last = 0;
  for (const Instruction* x : list) {
    first_id_ = std::min(first_id_, x->id()), last = std::max(last, x->id());
  }
  if (list.empty()) return;
  constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    uint32_t parent = kNone;  // by id
    uint32_t depth = 0;       // instructions of the longest chain that ends here
    uint32_t size = 1;        // of the tree below
    uint32_t next = 0;        // number of the next child
  };
  std::vector<Node> nodes(last - first_id_ + 1);
  places_.resize(nodes.size());
  for (const Instruction* x : list) {
    Node& own = nodes[x->id() - first_id_];
    for (const Instruction* operand : x->operands()) {
      const uint32_t at = operand->id() - first_id_;
      if (own.parent == kNone || nodes[at].depth + 1 > own.depth) own.parent = at;
      own.depth = std::max(own.depth, nodes[at].depth + 1);
    }
  }
  for (size_t i = list.size(); i-- > 0;) {
    const Node& own = nodes[list[i]->id() - first_id_];
    if (own.parent != kNone) nodes[own.parent].size += own.size;
  }
  uint32_t roots = 0;
  for (const Instruction* x : list) {
    Node& own = nodes[x->id() - first_id_];
    uint32_t& number = own.parent == kNone ? roots : nodes[own.parent].next;
    places_[x->id() - first_id_] = {number, number + own.size};
    own.next = number + 1;
    number += own.size;
  }
}

}  // namespace gshard
