// How much of an attention kernel's scores its mask cuts off.
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_MASKED_SHARE_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_MASKED_SHARE_H_

#include <cstdint>
#include <vector>

#include "core/analysis/attention/position_values.h"
#include "ir/instruction.h"

namespace gshard {

// Of whom a masked share is where devices have different ones.
enum class MaskedOn : uint8_t {
  kBusiest,  // who has most to do: the least of the first, the last and two devices between them
  // Frameworks that give each device a piece from the front and one from the back of a sequence
  // (context parallelism of Megatron-LM and PyTorch): the mean of the first device and the last.
  kAverage,
};

// 0..1: of the scores, those that `operations` of their shape replace by zero or by something very
// low, or to which they add something very low, wherever that follows from positions: causal masks
// 1/2, a window of w of n positions about 1 - w/n. `operations`: selects and adds of one shape.
// Positions are sampled on a grid along the dims on which the mask depends. `on`: where it depends
// on the device, too (of `device_count`; positions cut over them).
double MaskedShare(const std::vector<const Instruction*>& operations, int64_t device_count,
                   MaskedOn on, PositionValues& values);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_MASKED_SHARE_H_
