// One device's step written out: every kernel and every collective that it runs, loops trip by
// trip, with what each waits for. What simulators of clusters take (docs/traces.md).
#ifndef GSHARD_CORE_REPORT_TRACE_UNROLLED_STEP_H_
#define GSHARD_CORE_REPORT_TRACE_UNROLLED_STEP_H_

#include <cstdint>
#include <vector>

#include "core/cost/priced_step.h"

namespace gshard {

struct UnrolledNode {
  // Null: it only joins what is before it, so that what follows need not wait for each of them.
  const StepNode* step = nullptr;
  double seconds = 0;
  int64_t execution = 0;        // of this instruction on this device: 0, 1, ..
  std::vector<uint32_t> after;  // nodes before it, ascending

  // The collective itself, also where the instruction is the async-start around it; null: none.
  const Instruction* Collective() const;
};

// Devices that run the same nodes: all of them, or those of one stage of a pipeline.
struct UnrolledStep {
  std::vector<uint32_t> devices;  // ascending
  std::vector<UnrolledNode> nodes;
};

// Of all devices of the step. Of conditionals the most expensive branch is taken, where it is not
// known which one each device takes. Points into `priced`. Errors (E-TRACE-001): more than a
// million nodes on a device.
Expected<std::vector<UnrolledStep>> UnrollStep(const PricedStep& priced);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_TRACE_UNROLLED_STEP_H_
