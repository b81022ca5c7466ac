// Names of dims: which dims of a program must be cut alike for nothing to be sent.
//
// Dims that share a factor of some operation (core/op_dims) get one name, through loops, branches
// and tuples, as in Automap and TOAST (docs/auto.md): thousands of dims come to about ten names,
// such as the batch, the model's width, the heads. What is made of constants alone ties nothing.
// Layers that are written out are tied, too: parameters of one shape whose op_names differ only in
// numbers within, and then the dims that no parameter has (the width of a head) of products alike
// in op_name, opcode, shape and the names of their other dims, where there are many.
#ifndef GSHARD_CORE_AUTOSHARD_DIM_NAMES_H_
#define GSHARD_CORE_AUTOSHARD_DIM_NAMES_H_

#include <cstdint>
#include <vector>

#include "core/autoshard/alike_values.h"
#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard::autoshard {

class DimNames {
 public:
  // `module` must be free of calls. A snapshot: invalid after the module changes.
  explicit DimNames(const Module& module);

  // Dense, from 0; the same for the same program whatever its instructions are called.
  int Of(const Instruction* x, int64_t leaf, int64_t dim) const;
  int count() const { return count_; }

 private:
  using Node = uint32_t;
  void AddNodes(const Module& module);
  void TieAliases(const Module& module);
  void TieLayers(const Module& module, const KindsByRound& kinds, const Users& users);
  void TieProducts(const Module& module, const std::vector<int>& kinds);
  void TieAlike(const std::vector<const Instruction*>& values);
  void TieComputation(const Computation& computation);
  void TieOperation(const Instruction* x, const std::vector<bool>& is_constant);
  // Leaf by leaf, from a leaf of each on, `leaves` of them.
  void TieValues(const Instruction* a, int64_t leaf_a, const Instruction* b, int64_t leaf_b,
                 int64_t leaves);
  void TieControlFlow(const Instruction* x);
  Node NodeOf(const Instruction* x, int64_t leaf, int64_t dim) const {
    return first_[x->id()][static_cast<size_t>(leaf)] + static_cast<Node>(dim);
  }
  int64_t RankOf(const Instruction* x, int64_t leaf) const;
  Node Find(Node node) const;
  void Tie(Node a, Node b);

  std::vector<std::vector<Node>> first_;  // by instruction id and leaf, and one more: the end
  mutable std::vector<Node> parent_;
  std::vector<int> name_;  // of roots of the union-find
  int count_ = 0;
};

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_DIM_NAMES_H_
