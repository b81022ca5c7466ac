// Rematerialization: values that are kept over the memory peak are computed again where they are
// read, until the peak fits a limit.
//
// As in "Training Deep Nets with Sublinear Memory Cost" (Chen et al., 2016), but chosen value by
// value from the live ranges, cheapest recomputation per byte first. Example, with the peak at p:
//
//   a = tanh(x)                      x' = opt-barrier(x, g)     after p, when g is known
//   p = ..               becomes     a' = tanh(x')
//   r = multiply(a, g)               r = multiply(a', g)
//
// The barrier, as JAX's checkpoint writes it, keeps compilers from merging a' with a and from
// computing it early.
#ifndef GSHARD_CORE_REMAT_REMATERIALIZATION_H_
#define GSHARD_CORE_REMAT_REMATERIALIZATION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cost/memory/peak_memory.h"
#include "ir/module.h"

namespace gshard {

struct RematOptions {
  int64_t limit_bytes = 0;
  MemoryOptions memory;
};

// A value that is no longer kept.
struct DroppedValue {
  std::string name;   // of its instruction
  int64_t bytes = 0;  // that it took; of a loop's stack in a program still to be partitioned, whole
};

struct RematStats {
  int64_t peak_before = 0, peak_after = 0;  // bytes
  int64_t values = 0;                       // no longer kept
  int64_t instructions = 0;                 // added to compute them again
  std::vector<DroppedValue> dropped;        // the values
};

struct Rematerialized {
  std::unique_ptr<Module> module;
  RematStats stats;
};

// Returns a copy of `module` in which values of the entry, of loop bodies and of other called
// computations are computed again; the module must have no calls of computations that are called
// twice (core/transforms/inline_calls.h). It is the first whose peak fits, or, where nothing helps
// any more, the one of the least peak: then peak_after is over the limit. The text's order becomes
// the schedule. Values with side effects, collectives, control flow and results are never computed
// again.
Rematerialized Rematerialize(const Module& module, const RematOptions& options);

}  // namespace gshard

#endif  // GSHARD_CORE_REMAT_REMATERIALIZATION_H_
