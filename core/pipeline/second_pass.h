// Steps with two passes over the batch, one after the other: the first changes weights by a sum
// over all examples, which the second takes through the changed weights.
//
//   step of a GAN              the discriminator's update, then the generator's loss through it
//   sharpness-aware descent    gradients at w + e, where e is the gradient at w
#ifndef GSHARD_CORE_PIPELINE_SECOND_PASS_H_
#define GSHARD_CORE_PIPELINE_SECOND_PASS_H_

#include <optional>

#include "core/pipeline/plan/batch.h"
#include "ir/module.h"

namespace gshard::pipeline {

// E-PIPELINE-003 at the first such weight, where examples meet it again; nothing: there is none, or
// the dims that count examples are not known. Before the batch is split; calls must be inlined.
std::optional<Diagnostic> FindSecondPass(const Module& module, const BatchDims& batch);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_SECOND_PASS_H_
