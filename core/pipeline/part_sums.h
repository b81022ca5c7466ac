// What the parts of a merged loop add up (accumulated_parts.h).
#ifndef GSHARD_CORE_PIPELINE_PART_SUMS_H_
#define GSHARD_CORE_PIPELINE_PART_SUMS_H_

#include <string_view>

#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard::pipeline {

// The target of the custom call that marks what a part adds; followed by how many parts there are,
// and a colon.
inline constexpr std::string_view kPartMark = "gshard.dimwise:part";
// What the parts are given from before the loop: sums over all examples in it are no part's own.
inline constexpr std::string_view kGivenMark = "gshard.dimwise:given:";

// Of the program of one micro-batch of a merged step: removes the marks, and multiplies what each
// part adds of no examples, such as a decay of weights, by the number of parts. Errors:
// E-PIPELINE-003 at what is not linear in sums over examples, such as a mean over the
// words of a part that the model itself picks.
Expected<void> CheckPartSums(Module& module);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PART_SUMS_H_
