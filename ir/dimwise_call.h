// Custom calls of which nothing is known but how the dims of the result follow the operand's.
//
// Dim d of the result follows dim d of the one operand, of the same rank, be it of another size: so
// equal tiles of the operand make equal tiles of the result. The target is
// `gshard.dimwise:ID:D,E`: ID says which call it is, and the dims D and E follow nothing.
// Pipelining puts such calls in place of what only the devices of the mesh see
// (core/pipeline/plan/manual_regions.h).
#ifndef GSHARD_IR_DIMWISE_CALL_H_
#define GSHARD_IR_DIMWISE_CALL_H_

#include <cstdint>
#include <string_view>

#include "ir/instruction.h"

namespace gshard {

inline constexpr std::string_view kDimwiseTarget = "gshard.dimwise:";

bool IsDimwiseCall(const Instruction& x);
// Of such a call.
bool FollowsOperandDim(const Instruction& call, int64_t dim);

}  // namespace gshard

#endif  // GSHARD_IR_DIMWISE_CALL_H_
