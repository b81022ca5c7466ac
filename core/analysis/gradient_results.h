// Which results of a program are gradients of which parameters: `gshard-opt grad` says so in the
// header, for passes that tell weights from examples.
#ifndef GSHARD_CORE_ANALYSIS_GRADIENT_RESULTS_H_
#define GSHARD_CORE_ANALYSIS_GRADIENT_RESULTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace gshard {

// (result, parameter) pairs.
using GradientResults = std::vector<std::pair<int64_t, int64_t>>;

void SetGradientResults(Module& module, const GradientResults& results);
// Empty where the header says nothing, or nothing that fits the entry's signature.
GradientResults GradientResultsOf(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_GRADIENT_RESULTS_H_
