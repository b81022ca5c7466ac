// How much of an attention kernel's scores its mask cuts off.
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_MASKED_SHARE_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_MASKED_SHARE_H_

#include <vector>

#include "core/analysis/attention/position_values.h"
#include "ir/instruction.h"

namespace gshard {

// 0..1: of the scores, those that `operations` of their shape replace by zero or by something very
// low, or to which they add something very low, wherever that follows from positions: causal masks
// 1/2, a window of w of n positions about 1 - w/n. `operations`: selects and adds of one shape.
// Positions are sampled on a grid along the dims on which the mask depends. Where it depends on the
// device, too (of `device_count`; positions cut over them), it is the least of the first, the last
// and two devices between them: that of who has most to do.
double MaskedShare(const std::vector<const Instruction*>& operations, int64_t device_count,
                   PositionValues& values);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_MASKED_SHARE_H_
