// Dot-like contractions: which dims of the operands and the result belong together. Dots have one
// by their attributes; convolutions have one where their windows are trivial. Opcodes whose row in
// rule_table.cc names DotLikeForward and DotLikeBackward (core/propagation/rules.h) are propagated
// by it; ComparesOperands (engine.cc) must name them, too.
#ifndef GSHARD_CORE_PROPAGATION_DOT_DIMS_H_
#define GSHARD_CORE_PROPAGATION_DOT_DIMS_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ir/instruction.h"

namespace gshard {

struct DotDims {
  struct Dim {
    int64_t lhs = -1, rhs = -1, output = -1;  // -1: the side has no such dim
  };
  std::vector<Dim> batch, contracting, lhs_free, rhs_free;
  std::vector<Dim> spatial;  // of convolutions: dims with a true window

  // MapDims arguments, -1 where a dim is dropped; [k] for operand k.
  std::vector<int64_t> operand_to_output[2], output_to_operand[2];
  // From the other operand to operand k.
  std::vector<int64_t> other_to_operand[2];
};

DotDims DotDimsOf(const Instruction& dot_or_convolution);

// Keeps the DotDims of each instruction: they depend on attributes and shapes alone, so they are
// computed once. Not thread-safe. References stay valid until the cache is destroyed.
class DotDimsCache {
 public:
  const DotDims& Of(const Instruction& x);

 private:
  std::unordered_map<const Instruction*, DotDims> cache_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_DOT_DIMS_H_
