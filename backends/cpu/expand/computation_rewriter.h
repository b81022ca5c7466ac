// Rebuilds the instruction list of a computation, some instructions replaced by others, so that
// text order stays an order of dependences.
#ifndef GSHARD_BACKENDS_CPU_EXPAND_COMPUTATION_REWRITER_H_
#define GSHARD_BACKENDS_CPU_EXPAND_COMPUTATION_REWRITER_H_

#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/builder.h"

namespace gshard::cpu {

// Old instructions are handed over in order, to be kept or replaced. What the builder makes goes
// before the next of them.
class ComputationRewriter {
 public:
  ComputationRewriter(Module& module, Computation* computation)
      : builder_(module, computation), made_(computation->instructions().size()) {}

  Builder& builder() { return builder_; }
  // From now on `x` reads the replacements.
  void UseReplacements(Instruction* x) {
    for (int64_t k = 0; k < x->operand_count(); ++k) {
      auto found = replaced_.find(x->operand(k));
      if (found != replaced_.end()) x->set_operand(k, found->second);
    }
  }
  Instruction* Replacement(Instruction* x) const {
    auto found = replaced_.find(x);
    return found == replaced_.end() ? x : found->second;
  }
  void Keep(Instruction* x) { TakeNew(), list_.push_back(x); }
  // Null: nobody reads it any more.
  void Replace(Instruction* x, Instruction* by) {
    TakeNew();
    if (by != nullptr) replaced_[x] = by;
  }
  // `x` stays, but others read `by` from now on.
  void Alias(Instruction* x, Instruction* by) { replaced_[x] = by; }
  Instruction* Token() { return builder_.Add(Opcode::kAfterAll, {}); }
  Instruction* WithToken(Instruction* data) {
    Instruction* elements[] = {data, Token()};
    return builder_.Tuple(elements);
  }
  // The result of a send or recv: (data, u32, token).
  Instruction* Started(Instruction* data) {
    Instruction* elements[] = {data, builder_.ScalarInt(DType::kU32, 0), Token()};
    return builder_.Tuple(elements);
  }
  void Finish() {
    TakeNew();
    Computation* computation = builder_.computation();
    Instruction* root = Replacement(computation->root());
    computation->SetInstructions(std::move(list_));
    computation->set_root(root);
  }

 private:
  // Whatever the builder has made since.
  void TakeNew() {
    const auto all = builder_.computation()->instructions();
    for (; made_ < all.size(); ++made_) list_.push_back(all[made_]);
  }

  Builder builder_;
  size_t made_;
  std::vector<Instruction*> list_;
  std::unordered_map<const Instruction*, Instruction*> replaced_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EXPAND_COMPUTATION_REWRITER_H_
