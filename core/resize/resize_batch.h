// The same program with more or fewer examples a step, as if it had been printed so:
// `gshard-cost sweep --batch 64,128`.
#ifndef GSHARD_CORE_RESIZE_RESIZE_BATCH_H_
#define GSHARD_CORE_RESIZE_RESIZE_BATCH_H_

#include <cstdint>
#include <map>

#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard {

struct BatchSize {
  std::map<int64_t, int64_t> dimension;  // entry parameter -> its dim that counts examples
  int64_t from = 0, to = 0;              // examples of a step, as it is and as it is to be
};

// In place. Every dim that counts examples grows from `from` to `to` parts, and sizes that
// attributes say with it; the values of scalars (a mean's divisor) stay, as no cost depends on
// them. Sizes that the user's program computed of the batch, but that no operation ties to it,
// stay: an expert's capacity. Errors, each at an instruction: those of ExampleDims
// (example_dims.h); E-BATCH-002 (an array of constants with a value for each example, or sizes that
// do not go together); E-BATCH-003 (`from` examples are no whole number of examples there). After
// an error the module must not be used further.
Expected<void> ResizeBatch(Module& module, const BatchSize& batch);

}  // namespace gshard

#endif  // GSHARD_CORE_RESIZE_RESIZE_BATCH_H_
