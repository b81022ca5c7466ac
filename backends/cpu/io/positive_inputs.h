// Floats that a program is given and takes roots or logarithms of: second moments of optimizers,
// variances, probabilities. Random values of either sign would make NaN of half of them.
#ifndef GSHARD_BACKENDS_CPU_IO_POSITIVE_INPUTS_H_
#define GSHARD_BACKENDS_CPU_IO_POSITIVE_INPUTS_H_

#include <cstdint>
#include <vector>

#include "ir/module.h"

namespace gshard::cpu {

// By ascending number, in pre-order over all parameters: leaves of the entry's parameters that, if
// they are positive, keep the argument of a sqrt, an rsqrt, a logarithm or a power with a fraction
// positive. Such arguments are followed back through moves, sums, products, quotients, calls, loops
// and branches; not through what is positive whatever it is made of, such as squares, nor through
// differences.
std::vector<int64_t> FindPositiveInputs(const Module& module);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_IO_POSITIVE_INPUTS_H_
