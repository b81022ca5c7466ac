// What two passes that should be one computation do differently, for the message.
#ifndef GSHARD_CORE_PIPELINE_EMIT_STAGE_DIFFERENCE_H_
#define GSHARD_CORE_PIPELINE_EMIT_STAGE_DIFFERENCE_H_

#include <string>

#include "ir/module.h"

namespace gshard::pipeline {

// The error E-PIPELINE-006: which operations of the user's text one of them has more of, at the
// first of these; if there are none, the first instruction of `b` that is none of `a`'s, with a
// note of what `a` has there. `stages` names both ("stages 0 and 2 of the shifting buffer").
Diagnostic UnlikeStages(const Module& module, const std::string& stages, const Computation& a,
                        const Computation& b);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_STAGE_DIFFERENCE_H_
