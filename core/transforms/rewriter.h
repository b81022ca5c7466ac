// Replaces instructions in one forward sweep over a computation.
//
// A pass says for every instruction, operands before users, what is to stand in for it; the
// rewriter redirects later uses, puts new instructions where they are needed in the list and counts
// uses as they change. What nobody needs any more stays in the list: passes end with
// RemoveDeadCode. Linear in the size of the computation; one rewriter serves all computations of a
// module.
#ifndef GSHARD_CORE_TRANSFORMS_REWRITER_H_
#define GSHARD_CORE_TRANSFORMS_REWRITER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/builder.h"

namespace gshard {

class Rewriter {
 public:
  explicit Rewriter(Module& module) : module_(module) {}
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  // Returns what stands in for `x` from now on: x itself, something that stands before it, or
  // something made by builder(), of a compatible shape. Its operands are redirected already.
  using Visit = std::function<Instruction*(Instruction* x, Rewriter& rewriter)>;

  // True if something was replaced. Instructions with control dependencies are left alone, and a
  // sharding is never lost: an annotated instruction is replaced by a new one, which takes it over,
  // or by one with the same.
  bool Run(Computation* computation, const Visit& visit);

  // Within a sweep: uses by instructions that are still needed (an operand used twice counts
  // twice), the root counting once.
  int64_t UseCount(const Instruction* x) const {
    return x->id() < uses_.size() ? uses_[x->id()] : 0;
  }
  // Is the instruction being visited the only user of x?
  bool IsOnlyUse(const Instruction* x) const { return UseCount(x) == 1; }
  // Of the computation being swept; derives from the instruction being visited.
  Builder& builder() { return *builder_; }

 private:
  void CountUses(const Computation& computation);
  void Replace(Instruction* x, Instruction* by, bool is_new);
  void Release(Instruction* x);
  Instruction*& ValueOf(const Instruction* x) { return value_[x->id()]; }

  Module& module_;
  Builder* builder_ = nullptr;
  std::vector<Instruction*> value_;  // by id: what stands in; null: itself
  std::vector<int32_t> uses_;        // by id
};

// Passes over all computations: runs `visit` on each, then removes dead code. True if the module
// changed.
bool RewriteModule(Module& module, const Rewriter::Visit& visit);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_REWRITER_H_
