// How many flags allow_spmd_sharding_propagation_to_parameters and .._to_output may have, in a
// module's header or on a command line: one for all, or one for each parameter (element of a single
// tuple parameter) or output (element of a tuple).
#ifndef GSHARD_IR_PROPAGATION_FLAGS_H_
#define GSHARD_IR_PROPAGATION_FLAGS_H_

#include <optional>
#include <string>
#include <string_view>

#include "ir/computation.h"

namespace gshard {

// What is wrong with `flags` of them (0: not given) for this entry, where the user calls them
// `name`; nothing if they fit.
std::optional<std::string> ParameterFlagsProblem(std::string_view name, size_t flags,
                                                 const Computation& entry);
std::optional<std::string> OutputFlagsProblem(std::string_view name, size_t flags,
                                              const Computation& entry);

}  // namespace gshard

#endif  // GSHARD_IR_PROPAGATION_FLAGS_H_
