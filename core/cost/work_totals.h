// What a schedule comes to, its loops and calls included.
#ifndef GSHARD_CORE_COST_WORK_TOTALS_H_
#define GSHARD_CORE_COST_WORK_TOTALS_H_

#include <unordered_map>

#include "core/cost/step_model.h"

namespace gshard {

struct WorkTotals {
  double busy_s = 0;       // of kernels on the compute stream
  double exposed_s = 0;    // compute waits for collectives and copies
  double recompute_s = 0;  // of both, what is done again, be it by loops that are done again
  double copy_s = 0;       // of it, for copies
  double idle_s = 0;       // waits for devices whose branch of a conditional takes longer
  double flops = 0;
  double recompute_flops = 0;  // of it
  double masked_flops = 0;     // of the others, what masks cut off
  double sent_bytes = 0;
};

// Remembers what it has summed: shared callees count once each time they run, not each time they
// are looked at.
class WorkTotalsTable {
 public:
  // Of all trips that `cost` covers.
  const WorkTotals& Of(const ComputationCost& cost);

 private:
  std::unordered_map<const ComputationCost*, WorkTotals> known_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_WORK_TOTALS_H_
