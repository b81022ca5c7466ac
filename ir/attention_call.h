// Attention that a library computes, where no name says so: by the dims of what goes in and out.
#ifndef GSHARD_IR_ATTENTION_CALL_H_
#define GSHARD_IR_ATTENTION_CALL_H_

#include <cstdint>
#include <optional>

#include "ir/instruction.h"

namespace gshard {

struct AttentionCall {
  bool is_backward = false;
  int64_t heads_dim = 0;  // of q, k and v: 1 or 2
};

// The first operands are q, k and v, of floats, [examples, rows, heads, width] or with rows and
// heads the other way round; k and v are alike but for the width. Forward the first result has q's
// dims with the width of v, backward the first three results are the operands' gradients. Of rows
// and heads of k the longer dim counts rows.
std::optional<AttentionCall> AttentionByDims(const Instruction& call);

}  // namespace gshard

#endif  // GSHARD_IR_ATTENTION_CALL_H_
