// Which operations are one kernel where a framework launches call by call, as PyTorch does: those
// of one function of its library, forwards or backwards.
//
//   op_name=".. jvp(jit(silu))/mul", ".. jvp(jit(silu))/logistic"   one: a function's name
//   x*x*x, tanh(..), 0.5*x*(1+tanh)                                   one: a function of x alone
//   (gelu) a + b, then tanh(a + b)                                           two
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_EAGER_CALLS_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_EAGER_CALLS_H_

#include <tsl/robin_map.h>

#include <span>

#include "ir/instruction.h"

namespace gshard {

// A snapshot: invalid after the computation changes. Goes by the names that JAX's differentiation
// leaves in op_name; without them everything may be one call.
class EagerCalls {
 public:
  // `operands_first`: all instructions of a computation, each after its operands. Linear.
  explicit EagerCalls(std::span<Instruction* const> operands_first);

  // Is x, elementwise, made in the kernel of its user? Statistics and scales of a norm or softmax,
  // casts, and the update of weights outside of derivatives (fused optimizers) are, too.
  bool AreOne(const Instruction& x, const Instruction& user) const;

 private:
  const Instruction* FindArgument(const Instruction& x) const;

  // The array that an instruction is a function of; itself where there are several, or where it
  // computes nothing. In a backward pass what was saved does not count beside the cotangent.
  tsl::robin_map<const Instruction*, const Instruction*> argument_of_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_EAGER_CALLS_H_
