// What a TPU's compiler weighs when several kernels need an elementwise value: each of them reads
// it, or computes it again from what its chain of elementwise operations starts at.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_COPIED_CHAINS_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_COPIED_CHAINS_H_

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/analysis/kernels/roles.h"
#include "ir/computation.h"
#include "ir/traversal.h"

namespace gshard {

// A chain of elementwise operations that ends at one value.
struct CopiedChain {
  std::vector<const Instruction*> sources;  // arrays that it reads, each once
  int64_t source_bytes = 0;
  // Of the sources, a product of as many elements that nothing but the chain reads: its kernel can
  // write the chain's end instead.
  const Instruction* product = nullptr;
  double operations = 0;  // on vectors, of an element of the value, as the compiler counts them
  bool is_wide = false;   // computes in 32 bits or more
  bool is_slow = false;   // has a division, a root, an exponential, ..
};

class CopiedChains {
 public:
  // `kinds` and `places` by id from `first_id` on, places in an order of execution. All live as
  // long as this. `has_row_statistics`: what a row statistic goes into is found, too.
  CopiedChains(const Computation& computation, const Users& users, uint32_t first_id,
               std::span<const KernelKind> kinds, std::span<const size_t> places,
               bool has_row_statistics);

  // The chain down to values that are not elementwise, and to values that are in memory since a
  // row statistic is in their kernel. `is_private`: also down to values that others read, if
  // these are made of more than they have. What is small beside x is read as it is. False: more
  // than is looked at.
  bool Find(const Instruction* x, bool is_private, CopiedChain& chain) const;

  // A sum or maximum over one dim of an array of three dims or more, which only goes into an
  // elementwise chain over the same array (x - max(x)): one kernel, which reads the array once,
  // computes both. The compiler makes a window of it (reduce-window over whole rows).
  bool IsRowStatistic(const Instruction* reduce) const { return statistics_.contains(reduce); }
  // The end of such a chain: it is written, as no other kernel computes a row statistic again.
  bool EndsRowStatistic(const Instruction* x) const { return ends_.contains(x); }
  // Are the rows of x, of which a row statistic is taken, made by a kernel before? Rows that lie
  // across the lanes, as those that are no longer than they are many, are: of one array those of
  // 4,096, with a mask those of 1,536. (The compiler's kernels make rows of 2,048 and 1,024.)
  bool HasTooLongRows(const Instruction* x) const;
  // Does x start at one value of fewer bytes, through operations on that alone? Then that is
  // written, where several kernels need x.
  bool StartsNarrower(const Instruction* x) const;

 private:
  void FindRowStatistic(const Instruction* reduce);
  // Does x start at no more bytes than it has? All kernels that need it compute it then.
  bool IsMadeOfLess(const Instruction* x) const;
  const KernelKind& KindOf(const Instruction* x) const { return kinds_[x->id() - first_id_]; }
  size_t PlaceOf(const Instruction* x) const { return places_[x->id() - first_id_]; }

  const Users& users_;
  uint32_t first_id_;
  std::span<const KernelKind> kinds_;
  std::span<const size_t> places_;
  std::unordered_set<const Instruction*> statistics_, ends_;
  // Memory of Find; leaving_: what others read, and what they read is made of.
  mutable std::vector<const Instruction*> open_, expanded_, leaving_;
  mutable std::unordered_map<const Instruction*, bool> made_of_less_;
};

// Operations on vectors that the compiler counts for one element of x: of most one, of a division
// ten (as its decisions tell: docs/kernels.md).
double VectorOperations(const Instruction* x);

// Does x add what a collective gives to something? The compiler writes such a sum where the next
// one reads it, though fewer bytes would move if each kernel computed it (docs/against_tpu.md).
bool AddsReceived(const Instruction* x);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_COPIED_CHAINS_H_
