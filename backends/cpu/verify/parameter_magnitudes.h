// How large the numbers are that a program begins with.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_PARAMETER_MAGNITUDES_H_
#define GSHARD_BACKENDS_CPU_VERIFY_PARAMETER_MAGNITUDES_H_

#include <vector>

#include "backends/cpu/io/inputs.h"
#include "core/analysis/device_grid.h"
#include "ir/module.h"

namespace gshard::cpu {

// The largest magnitude in each parameter of the entry, by parameter number; of a tuple, in any of
// its leaves. 0 where it has no floats, or where `inputs` cannot be read: a run says why. Reads all
// floats of the inputs, a piece at a time.
std::vector<double> ParameterMagnitudes(const Module& module, const Inputs& inputs,
                                        const DeviceGrid& grid);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_PARAMETER_MAGNITUDES_H_
