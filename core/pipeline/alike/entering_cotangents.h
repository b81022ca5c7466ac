// Cotangents that enter the last stage of a shifting buffer, made like those of the stages before.
#ifndef GSHARD_CORE_PIPELINE_ALIKE_ENTERING_COTANGENTS_H_
#define GSHARD_CORE_PIPELINE_ALIKE_ENTERING_COTANGENTS_H_

#include <unordered_set>

#include "core/pipeline/emit/stages.h"
#include "ir/module.h"

namespace gshard::pipeline {

// The backward pass of the last alike stage may begin otherwise than those of the others: with a
// constant, or with examples, under a loss that merely adds up; without a summand where they add to
// the gradient of a value that all layers use, such as an encoder's. Copies what begins it, or adds
// a copy of zero to it, so that the layers behind the buffer hand it on as stages hand on
// cotangents (Phases, `entering`). Adds the copies to `copies`, which holds those of earlier calls.
// Returns false if there is nothing to copy.
bool CopyEnteringCotangents(Module& module, const StageGraph& stages,
                            std::unordered_set<const Instruction*>& copies);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ALIKE_ENTERING_COTANGENTS_H_
