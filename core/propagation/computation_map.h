// Which instruction calls a while body, condition, branch or callee, and which instructions must
// share one sharding because control flow passes a value between them (docs/propagation.md,
// "Control flow"). Computations of reduce, sort, scatter, fusion and the like are not mapped.
#ifndef GSHARD_CORE_PROPAGATION_COMPUTATION_MAP_H_
#define GSHARD_CORE_PROPAGATION_COMPUTATION_MAP_H_

#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace gshard {

class ComputationMap {
 public:
  explicit ComputationMap(const Module& module);

  // The while, conditional or call that runs `computation`; null if none does.
  Instruction* CallerOf(const Computation* computation) const {
    auto it = callers_.find(computation);
    return it == callers_.end() ? nullptr : it->second;
  }
  // The operand that a branch or callee parameter receives; null for all else (also for the
  // parameters of a while, which its related set covers).
  Instruction* CallerOperandOf(const Instruction* parameter) const;
  // Parameters of branches or callees that receive operand `index` of `caller`.
  void AppendParametersOf(const Instruction* caller, const Instruction* operand,
                          std::vector<Instruction*>& out) const;

  // {while, body root, body parameter, condition parameter}, {conditional, branch roots..},
  // {call, callee root}; empty if `caller` is none of these.
  static std::vector<Instruction*> RelatedSetOf(Instruction* caller);
  // All instructions that share a sharding with `x` at one remove, `x` excluded: the sets of which
  // it is a member as caller, as root and as parameter.
  std::vector<Instruction*> RelatedTo(Instruction* x) const;
  // Cheap test whether RelatedTo(x) can be non-empty.
  bool MayHaveRelated(const Instruction* x) const;

 private:
  std::unordered_map<const Computation*, Instruction*> callers_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_COMPUTATION_MAP_H_
