// How often a kernel of a GPU computes an element of a value that it does not write.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_EVALUATIONS_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_EVALUATIONS_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/analysis/kernels/kernel_drafts.h"
#include "ir/computation.h"
#include "ir/traversal.h"

namespace gshard {

// A thread computes each of its results by itself: what it needs of a value at one position it
// computes once, and again for each slice, pad, concatenation, .. that wants it elsewhere. The
// levels of an associative scan double that, as do those of a butterfly. Not thread-safe.
class Evaluations {
 public:
  // More of them, and XLA's compiler writes the value to memory.
  static constexpr int kMax = 15;

  // Both live as long as this.
  Evaluations(const Users& users, const KernelDrafts& drafts) : users_(users), drafts_(drafts) {}

  // Would the kernel, which computes all users of x that it needs, compute it more than kMax times?
  // False adds x to what the kernel computes.
  bool AreTooMany(int32_t kernel, const Instruction* x);

 private:
  // At whose positions a value is needed: those of movements, null: of the kernel's results.
  struct Needs {
    std::vector<const Instruction*> of;
    int count = 0;
  };
  // Null: once, at the positions of the results.
  const Needs* Find(int32_t kernel, const Instruction* x) const;
  void Add(int32_t kernel, const Instruction* of, Needs& needs) const;

  const Users& users_;
  const KernelDrafts& drafts_;
  std::unordered_map<int32_t, std::unordered_map<const Instruction*, Needs>> needs_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_EVALUATIONS_H_
