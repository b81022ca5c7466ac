// Files that ASTRA-sim's analytical back end reads beside the traces.
#ifndef GSHARD_CORE_REPORT_TRACE_ASTRA_SIM_H_
#define GSHARD_CORE_REPORT_TRACE_ASTRA_SIM_H_

#include <string>

#include "core/cost/chip.h"
#include "core/cost/priced_step.h"

namespace gshard {

// A dim for each part of the network that a mesh axis covers, those of neighbouring device numbers
// first: rings of a torus, switches, and the devices of a chip, which reach each other directly.
// GB/s and nanoseconds.
std::string AstraSimNetwork(const PricedStep& priced, const Chip& chip);

// Collectives as rings where there are rings; compute takes the time that the traces say.
std::string AstraSimSystem(const PricedStep& priced, const Chip& chip);

// No memory but the devices' own.
std::string AstraSimMemory();

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_TRACE_ASTRA_SIM_H_
