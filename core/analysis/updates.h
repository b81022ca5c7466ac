// What of a training step is state: weights, moments of an optimizer, averages of weights.
#ifndef GSHARD_CORE_ANALYSIS_UPDATES_H_
#define GSHARD_CORE_ANALYSIS_UPDATES_H_

#include <map>
#include <unordered_set>
#include <vector>

#include "ir/module.h"

namespace gshard {

// The results of a module, one by one where its root is a tuple.
std::vector<Instruction*> OutputsOf(const Computation& entry);

// Parameters that some result is an update or the gradient of, and those results.
//
// By the header's gradients, if it has any. Else by its aliases (donated arguments), and by
// elementwise operations from one to the other, through branches. Beside donated parameters the
// latter alone makes a parameter state if it has the dims of a donated one, as moments have, or if
// the loss does not depend on it: `labels - predictions` is no update of the labels.
struct Updates {
  std::unordered_set<int64_t> parameters, outputs;
  std::map<int64_t, int64_t> parameter_of;  // by output; of several the first found
};
Updates FindUpdates(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_UPDATES_H_
