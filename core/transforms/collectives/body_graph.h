// Reads and calls within the body of a loop.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_BODY_GRAPH_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_BODY_GRAPH_H_

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/computation.h"

namespace gshard {

// Who reads what, and who calls whom, in a loop's body and in the branches in it.
class BodyGraph {
 public:
  // Operations in a row that are looked through.
  static constexpr int kMaxDepth = 1000;
  struct Use {
    Instruction* user;
    int64_t operand;
  };

  explicit BodyGraph(const Computation& body);

  // Without the get-tuple-elements of `x`, which are ElementsOf.
  std::span<const Use> UsesOf(const Instruction* x) const { return Of<Use>(uses_, x); }
  std::span<Instruction* const> ElementsOf(const Instruction* x, int64_t i) const {
    return Of<Instruction*>(elements_, std::pair(x, i));
  }
  // The conditionals in the body that call it, once a call.
  std::span<Instruction* const> CallersOf(const Computation* branch) const {
    return Of<Instruction*>(callers_, branch);
  }
  bool HasOneUse(const Instruction* x) const {
    return UsesOf(x).size() == 1 && x->parent()->root() != x;
  }

 private:
  template <typename T>
  static std::span<const T> Of(const auto& lists, const auto& key) {
    const auto found = lists.find(key);
    return found == lists.end() ? std::span<const T>() : std::span<const T>(found->second);
  }

  void AddUses(Instruction* x);

  std::unordered_map<const Instruction*, std::vector<Use>> uses_;
  std::map<std::pair<const Instruction*, int64_t>, std::vector<Instruction*>> elements_;
  std::unordered_map<const Computation*, std::vector<Instruction*>> callers_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_BODY_GRAPH_H_
