// What it costs that each of several kernels computes a value that all of them need, rather than
// that one writes it and all read it.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_COPY_COSTS_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_COPY_COSTS_H_

#include <cstdint>
#include <vector>

#include "core/analysis/kernels/copied_chains.h"
#include "core/analysis/kernels/kernel_drafts.h"
#include "core/analysis/kernels/roles.h"

namespace gshard {

// The time of kernels in bytes of memory: they move these, or work as long as they could move more.
struct CopyCost {
  double apart = 0;     // the value is written once and read by each kernel
  double together = 0;  // each kernel computes it
};

// Not thread-safe.
class CopyCosts {
 public:
  // `drafts` lives as long as this. `vector_operations_per_byte`: as in FusionOptions.
  CopyCosts(KernelDrafts& drafts, double vector_operations_per_byte)
      : drafts_(drafts), vector_operations_per_byte_(vector_operations_per_byte) {}

  // Of x, the end of a chain.
  CopyCost Of(const Instruction* x, const CopiedChain& chain, KernelDrafts::KernelList kernels);
  // Is what x is made of no more to read, and to keep in memory, than x itself?
  bool ReadsNoMore(const Instruction* x, KernelRole role);

 private:
  using Values = std::vector<const Instruction*>;

  // The arrays that the kernel reads beside x, if it computes all that it can: what the elementwise
  // chains behind its members start at, as far as they are looked at. Valid until the next call.
  const Values& OtherSources(int32_t kernel, const Instruction* x);

  KernelDrafts& drafts_;
  double vector_operations_per_byte_;
  Values sources_, open_, counted_;  // memory of walks over operands
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_COPY_COSTS_H_
