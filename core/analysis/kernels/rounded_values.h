// f32 values that a TPU keeps in memory as bf16: transposed copies made for a loop that passes them
// on unchanged, which only converts to bf16, and dots and convolutions at DEFAULT precision read.
//
//   w_t = f32[32,4096,1792] transpose(w)      kept as bf16: half the bytes
//   loop: y = dot(x, dynamic-slice(w_t, i))   rounds its operands to bf16 anyway
//
// The unit rounds f32 operands (cloud.google.com/tpu/docs/bfloat16: the compiler inserts the
// conversion), and a compiler that has to copy a value for it rounds while it copies: programs
// compiled for TPU v5e do. Values that something else reads, arguments, results, what collectives
// move, what elementwise operations make, and copies that no loop is given (which layouts may
// spare) stay as they are. Looked through: reshapes, further transposes, slices.
#ifndef GSHARD_CORE_ANALYSIS_KERNELS_ROUNDED_VALUES_H_
#define GSHARD_CORE_ANALYSIS_KERNELS_ROUNDED_VALUES_H_

#include <unordered_set>

#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard {

class RoundedValues {
 public:
  RoundedValues() = default;  // none
  // `users`: of the whole module.
  RoundedValues(const Module& module, const Users& users);

  bool Has(const Instruction* x) const { return values_.contains(x); }
  // Of an array in memory.
  int64_t BytesOf(const Instruction* x) const {
    const int64_t bytes = x->shape()->byte_size();
    return Has(x) ? bytes / 2 : bytes;
  }

 private:
  std::unordered_set<const Instruction*> values_;  // and their other names
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_KERNELS_ROUNDED_VALUES_H_
