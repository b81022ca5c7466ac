// Dot-like contractions: which dims of the operands and the result belong together. Dots have one
// by their attributes; convolutions have one where their windows are trivial.
#ifndef GSHARD_CORE_PROPAGATION_DOT_DIMS_H_
#define GSHARD_CORE_PROPAGATION_DOT_DIMS_H_

#include <cstdint>
#include <vector>

#include "core/propagation/rules.h"

namespace gshard {

struct DotDims {
  struct Dim {
    int64_t lhs = -1, rhs = -1, output = -1;  // -1: the side has no such dim
  };
  std::vector<Dim> batch, contracting, lhs_free, rhs_free;
};

DotDims DotDimsOf(const Instruction& dot);

// Forward: what each operand would give the result; ordered by the rule for two survivors
// (lookahead, then the larger operand).
void DotLikeForward(const RuleContext& c, const Instruction& x, const DotDims& dims,
                    Offers& offers);
const Sharding* DotLikeBackward(const RuleContext& c, const Instruction& user, const DotDims& dims,
                                const Sharding* s, const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_DOT_DIMS_H_
