// What a compiled text says of its own kernels' times.
#ifndef GSHARD_CORE_COST_TEXT_CYCLES_H_
#define GSHARD_CORE_COST_TEXT_CYCLES_H_

#include <cstdint>
#include <optional>

#include "ir/instruction.h"

namespace gshard {

// XLA's compiler for TPUs writes `"estimated_cycles":"30242"` into the backend_config of its
// fusions: its estimate for one core at the chip's clock. Nothing where there is none, or where the
// compiler gave up (2^62 and more).
std::optional<int64_t> EstimatedCycles(const Instruction& kernel);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_TEXT_CYCLES_H_
