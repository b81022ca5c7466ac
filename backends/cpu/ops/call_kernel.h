// A computation over arrays, run instruction by instruction with its kernels. For bodies of
// operations that are kernels themselves (scan); the executor has plans for everything else.
#ifndef GSHARD_BACKENDS_CPU_OPS_CALL_KERNEL_H_
#define GSHARD_BACKENDS_CPU_OPS_CALL_KERNEL_H_

#include <memory>
#include <vector>

#include "backends/cpu/elementwise/kernel.h"
#include "ir/computation.h"

namespace gshard::cpu {

class CallKernel {
 public:
  // Errors: control flow and collectives inside (E-RUN-002), or what a kernel reports. Calls and
  // fusions are followed.
  static Expected<CallKernel> Make(const Computation& computation);

  // Arguments and results: leaves of the parameters in order, and of the root.
  void Run(ConstBuffers arguments, Buffers results, Scratch& scratch) const;

 private:
  struct Step {
    std::unique_ptr<Kernel> kernel;
    std::vector<size_t> operands, results;  // slots
  };
  struct Slot {
    int64_t bytes = 0;
    const std::byte* constant = nullptr;
    int64_t argument = -1;
  };
  Expected<std::vector<size_t>> Add(const Computation& computation,
                                    const std::vector<size_t>& arguments);
  size_t AddSlot(const Shape* shape);
  void AddConstant(const Literal& literal, std::vector<size_t>& result);

  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  std::vector<size_t> roots_;
  std::vector<std::vector<std::byte>> elided_;  // stand in for constants left out of the text
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_OPS_CALL_KERNEL_H_
