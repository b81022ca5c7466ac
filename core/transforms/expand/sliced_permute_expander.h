// collective-permute that moves slices of its input into its output, in terms of whole ones.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_SLICED_PERMUTE_EXPANDER_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_SLICED_PERMUTE_EXPANDER_H_

#include "ir/module.h"

namespace gshard {

// collective-permute(input, output, input_starts, output_starts), slice_sizes={{..},..}, and its
// start: every slice is a dynamic-slice of the source's input, a permute, and a
// dynamic-update-slice of the target's output, at the starts that each of the two has. Devices that
// are nobody's target keep their output. Starts are a tuple of scalars, or a tuple of those for
// several slices; input and output may be tuples of arrays, with starts for each. Of the
// program of one device. Errors: E-RUN-GROUPS where starts and sizes do not fit the arrays.
// True if there were some.
Expected<bool> ExpandSlicedPermutes(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_SLICED_PERMUTE_EXPANDER_H_
