// What a collective reads of other devices, to copy it.
#ifndef GSHARD_BACKENDS_CPU_PLAN_COLLECTIVE_READS_H_
#define GSHARD_BACKENDS_CPU_PLAN_COLLECTIVE_READS_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "backends/cpu/plan/program.h"

namespace gshard::cpu {

// Of an all-to-all along a dim, whose blocks go from others straight into the results.
bool IsSplit(const Op& op);

// `visit(operand, source, block)` for every instance that result `k` of a copying collective on
// `device` is made of: that of device `source`, whole (block < 0) or one block of the split dim. Of
// a ragged-all-to-all only what tells which rows of operand 0 are read. Reductions: nothing.
void ForEachRead(const Op& op, size_t k, uint32_t device,
                 const std::function<void(ValueId, uint32_t, int64_t)>& visit);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_COLLECTIVE_READS_H_
