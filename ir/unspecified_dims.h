// The dims that a `Sharding` call or a border of a manual region leaves open.
#ifndef GSHARD_IR_UNSPECIFIED_DIMS_H_
#define GSHARD_IR_UNSPECIFIED_DIMS_H_

#include <cstdint>
#include <vector>

#include "ir/instruction.h"

namespace gshard {

// "unspecified_dims=[0,2]" in a backend_config or opaque string: sorted dims; empty if none.
std::vector<int64_t> UnspecifiedDims(const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_IR_UNSPECIFIED_DIMS_H_
