// A reduction of rows whose elements an elementwise program makes, some rows at a time: what goes
// into the reduction alone is never stored.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_PRODUCED_REDUCE_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_PRODUCED_REDUCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/elementwise/kernel.h"

namespace gshard::cpu {

class ProducedReduceKernel : public Kernel {
 public:
  struct Arrays {
    int64_t rows = 0, length = 0;   // results; elements of each
    std::vector<int64_t> operands;  // bytes of an element of each of the program's operands
    std::vector<int64_t> inputs;    // likewise of the reduction's inputs, and of its results
    std::vector<int32_t> produced;  // per input: the program's result, or -1
  };
  // Operands: the program's, then the reduction's inputs that are not produced and its initial
  // values. Both kernels run in ranges of single elements; `reduce` must outlive this one.
  ProducedReduceKernel(const Kernel& reduce, std::unique_ptr<Kernel> program, Arrays arrays);

  // `instruction` is a reduce over its trailing dims, of more elements than stay in cache, in rows
  // that do.
  static bool Pays(const Instruction& instruction, const Kernel& reduce);

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override;
  int64_t RangeGranule() const override { return 1; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override;
  int64_t Flops() const override { return reduce_.Flops() + program_->Flops(); }

 private:
  const Kernel& reduce_;
  std::unique_ptr<Kernel> program_;
  Arrays arrays_;
  int64_t rows_ = 1;  // at a time
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_PRODUCED_REDUCE_H_
