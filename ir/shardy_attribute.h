// Where the frontend attribute `xla.sdy.sharding` of an instruction is an annotation.
#ifndef GSHARD_IR_SHARDY_ATTRIBUTE_H_
#define GSHARD_IR_SHARDY_ATTRIBUTE_H_

#include <string_view>

#include "ir/arena.h"
#include "ir/instruction.h"

namespace gshard {

// Shardy reads the attribute of HLO text on parameters, constraints, results and Python callbacks.
// Everywhere else it is stale: XLA's passes copy attributes to what they make of an instruction,
// whatever its shape, and Shardy drops it there. An instruction that has `sharding=` beside it
// comes from StableHLO, where any operation may be annotated.
bool HasStaleShardyAttribute(const Instruction& x);

// Frontend attributes as text without those of which `goes` is true; in `arena` if any went.
std::string_view WithoutFrontendAttributes(Arena& arena, std::string_view text,
                                           bool (*goes)(std::string_view key));

}  // namespace gshard

#endif  // GSHARD_IR_SHARDY_ATTRIBUTE_H_
