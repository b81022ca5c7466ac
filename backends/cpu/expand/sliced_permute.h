// collective-permute that moves slices of its input into its output, in terms of whole ones.
#ifndef GSHARD_BACKENDS_CPU_EXPAND_SLICED_PERMUTE_H_
#define GSHARD_BACKENDS_CPU_EXPAND_SLICED_PERMUTE_H_

#include "ir/module.h"

namespace gshard::cpu {

// collective-permute(input, output, input_starts, output_starts), slice_sizes={{..},..}, and its
// start: every slice is a dynamic-slice of the source's input, a permute, and a
// dynamic-update-slice of the target's output, at the starts that each of the two has. Devices that
// are nobody's target keep their output. Starts are a tuple of scalars, or a tuple of those for
// several slices; input and output may be tuples of arrays, with starts for each. After
// partitioning. Errors: E-RUN-GROUPS where starts and sizes do not fit the arrays.
Expected<void> ExpandSlicedPermutes(Module& module);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EXPAND_SLICED_PERMUTE_H_
