// What to do about a collective that mixes examples of different micro-batches.
#ifndef GSHARD_CORE_PIPELINE_ROWS_MIXING_HINTS_H_
#define GSHARD_CORE_PIPELINE_ROWS_MIXING_HINTS_H_

#include <functional>
#include <string>

#include "ir/module.h"

namespace gshard::pipeline {

// The hint of E-PIPELINE-003 at `x`, a collective of the program of one micro-batch: what the loop
// or branch around it does, or that a product compares each example with all others. Empty: neither
// is so. `varies`: is an instruction of the entry another in each micro-batch?
std::string HintOfMixing(const Module& module, const Instruction* x,
                         const std::function<bool(const Instruction*)>& varies);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_ROWS_MIXING_HINTS_H_
