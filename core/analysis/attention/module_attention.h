// The attention kernels of a whole module, and what nobody computes because they do it themselves.
//
// A kernel makes the masks it needs from positions (flash attention, arXiv 2205.14135, skips what a
// causal mask or a window cuts off) and computes scores again backwards. So masks that only such
// kernels read, and scores saved for them, are never in memory and take no time: wherever the text
// computes them, before a loop, in another one, or one slice a trip.
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_MODULE_ATTENTION_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_MODULE_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/analysis/attention/attention_kernels.h"
#include "core/analysis/attention/carried_values.h"
#include "core/analysis/attention/known_masked_shares.h"
#include "core/analysis/attention/masked_share.h"
#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard {

// A snapshot: invalid after the module changes.
class ModuleAttention {
 public:
  // `users`: of the whole module. A few passes over it, and for each kernel its region. `masked`:
  // whose masked shares the kernels have; null: none, which is half of the work (memory does not
  // depend on them). `known`: shares that other programs had, to which those of this one are added;
  // null: of this one only.
  ModuleAttention(const Module& module, const Users& users, std::optional<MaskedOn> masked,
                  KnownMaskedShares* known = nullptr);

  // In text order; empty where there is none.
  const std::vector<AttentionKernel>& KernelsOf(const Computation& computation) const;

  // Never computed: an array, or element `element` of a tuple, that only attention kernels need, as
  // masks or as saved scores. What has come into the module since is not.
  bool IsSpared(const Instruction* x, int64_t element = 0) const {
    if (spared_.empty() || x->id() >= begin_.size()) return false;
    return spared_[begin_[x->id()] + static_cast<size_t>(element)];
  }

 private:
  using Kernels = std::unordered_map<const Computation*, std::vector<AttentionKernel>>;

  void FindMasks(const CarriedValues& carried, int64_t device_count, MaskedOn on,
                 KnownMaskedShares& known);
  void ShareMasks(const CarriedValues& carried);
  void FindSpared(const Module& module, const CarriedValues& carried);

  Kernels kernels_;
  std::vector<size_t> begin_;  // by instruction id
  std::vector<bool> spared_;   // empty: nothing
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_MODULE_ATTENTION_H_
