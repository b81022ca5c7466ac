// Observes what indexes arrays while a program runs: starts of slices, rows that are gathered and
// scattered to, branches.
#ifndef GSHARD_BACKENDS_CPU_PLAN_INDEX_OBSERVER_H_
#define GSHARD_BACKENDS_CPU_PLAN_INDEX_OBSERVER_H_

#include <cstdint>
#include <memory>

#include "backends/cpu/elementwise/kernel.h"
#include "ir/instruction.h"

namespace gshard::cpu {

class IndexObserver {
 public:
  virtual ~IndexObserver() = default;
  // Whether what indexes in `x` is to be observed; asked once, when its kernel is made.
  virtual bool Observes(const Instruction& x) const = 0;
  // `x`, which is observed, is about to run with these operands. From any thread, several at once.
  virtual void Indexed(const Instruction& x, ConstBuffers operands) = 0;
  // The conditional `x`, which is observed, is about to run this branch, or, out of range, the last
  // one. From the running thread.
  virtual void Chosen(const Instruction& x, int64_t branch) = 0;
};

// `kernel` of `x`, which tells `observer` of every run; both outlive the result.
std::unique_ptr<Kernel> ObservedKernel(std::unique_ptr<Kernel> kernel, const Instruction& x,
                                       IndexObserver& observer);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_INDEX_OBSERVER_H_
