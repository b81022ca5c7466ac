// A dot or convolution whose rows go through an elementwise program while they are in cache:
// biases, activations, scales and conversions cost no pass over memory, and the product is never
// stored.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_EPILOGUE_KERNEL_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_EPILOGUE_KERNEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/elementwise/kernel.h"

namespace gshard::cpu {

class EpilogueKernel : public Kernel {
 public:
  struct Arrays {
    int64_t count = 0;                       // elements of the product and of every result
    int64_t product_bytes = 0;               // of an element of the product
    std::vector<int64_t> operands, results;  // bytes of an element of each of the program's
  };
  // `program` reads the result of `product` as its operand `through`, which must move with its
  // results. Operands: those of the product, then the program's but for `through`; results: the
  // program's. The product must outlive the kernel.
  EpilogueKernel(const Kernel& product, size_t product_operands, std::unique_ptr<Kernel> program,
                 size_t through, Arrays arrays);

  // Whether a product of so many bytes would leave the cache before its user comes to it, and can
  // be made in pieces that do not.
  static bool Pays(const Kernel& product, int64_t count, int64_t element_bytes);

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override;
  bool InPlace(int64_t operand) const override;
  int64_t RangeGranule() const override { return product_.RangeGranule(); }
  bool IsElementwiseIn(int64_t operand) const override;
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override;
  int64_t Flops() const override { return product_.Flops() + program_->Flops(); }

 private:
  // The program's operand that the kernel's operand is.
  int64_t OfProgram(int64_t operand) const;

  const Kernel& product_;
  int64_t product_operands_;
  std::unique_ptr<Kernel> program_;
  int64_t through_;
  Arrays arrays_;
  int64_t panel_;  // elements at a time
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_EPILOGUE_KERNEL_H_
