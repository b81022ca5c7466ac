// Small random programs for automatic sharding: few groups of tensors, so that all plans of a
// program can be priced, large enough that launches do not decide.
#ifndef GSHARD_TESTS_AUTOSHARD_RANDOM_STEP_H_
#define GSHARD_TESTS_AUTOSHARD_RANDOM_STEP_H_

#include <string>

#include "tests/unit/random.h"

namespace gshard::autoshard {

struct RandomStep {
  std::string family;        // "chain", "training", "attention", "loop", "embedding"
  std::string text;          // HLO
  bool has_updates = false;  // weights are returned updated, so that ZeRO is a choice
};

RandomStep MakeRandomStep(Random& random);

}  // namespace gshard::autoshard

#endif  // GSHARD_TESTS_AUTOSHARD_RANDOM_STEP_H_
