// Orders and users of a computation, computed when asked for.
#ifndef GSHARD_IR_TRAVERSAL_H_
#define GSHARD_IR_TRAVERSAL_H_

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace gshard {

// Depth-first post-order as XLA prints: from the instructions without users in list order; control
// predecessors first (last listed first), then operands left to right. Iterative; O(edges).
std::vector<Instruction*> PostOrder(const Computation& computation);

// Computations reachable from the entry, callees before callers, each once.
std::vector<Computation*> CallPostOrder(const Module& module);

// The order in which the uses of a value were made, for values where it is not the text order.
// Inlining leaves one, and propagation, which asks users in turn, depends on it.
using UserOrderOverride = std::unordered_map<const Instruction*, std::vector<Instruction*>>;

// Users of every instruction of a module or one computation, in list order, each user once even if
// it uses the value several times. A snapshot: invalid after the graph changes.
class Users {
 public:
  explicit Users(const Computation& computation);
  // `order` may be null; entries that do not list exactly the users are ignored.
  explicit Users(const Module& module, const UserOrderOverride* order = nullptr);
  std::span<Instruction* const> of(const Instruction* instruction) const {
    const uint32_t i = instruction->id();
    return std::span<Instruction* const>(users_).subspan(begin_[i], count_[i]);
  }

 private:
  void Build(std::span<const Computation* const> computations, uint32_t limit);
  std::vector<uint32_t> begin_, count_;  // by instruction id: in users_
  std::vector<Instruction*> users_;      // one value's beside each other, with gaps between
};

// Removes instructions that neither the root nor a side effect needs (parameters stay), and
// computations nobody calls. True if something went.
bool RemoveDeadCode(Module& module);

}  // namespace gshard

#endif  // GSHARD_IR_TRAVERSAL_H_
