// Steps that make a module smaller, each over numbered items of it: results, instructions, loops,
// dims, attributes. A step may leave a module that does not verify: that candidate is given up.
#ifndef GSHARD_CORE_REDUCE_STEPS_H_
#define GSHARD_CORE_REDUCE_STEPS_H_

#include <cstdint>
#include <span>

#include "ir/module.h"

namespace gshard::reduce {

struct Step {
  const char* name;                  // "instructions become parameters"
  int64_t (*count)(Module& module);  // of items; the same for equal texts
  // Does it to items [begin, end). False: there is nothing to do.
  bool (*apply)(Module& module, int64_t begin, int64_t end);
  // For programs with inputs only, of which it keeps the last elements of dims that shrink, where
  // other steps keep the first.
  bool keeps_ends = false;
};

// Those that cut most come first.
std::span<const Step> AllSteps();

// Drops what nothing needs: dead code, parameters of the entry without users (the others keep their
// order), what the header says of parameters and results that are no more as they were.
void CleanUp(Module& module);

int64_t CountInstructions(const Module& module);

}  // namespace gshard::reduce

#endif  // GSHARD_CORE_REDUCE_STEPS_H_
