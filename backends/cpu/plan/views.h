// Values that need no buffer of their own because they are parts of other buffers: contiguous
// slices, known shards of a replicated value, what collectives only pass on (permute, broadcast,
// groups of one, all-gathers of shards that lie next to each other), selects by device.
#ifndef GSHARD_BACKENDS_CPU_PLAN_VIEWS_H_
#define GSHARD_BACKENDS_CPU_PLAN_VIEWS_H_

#include "backends/cpu/plan/program.h"

namespace gshard::cpu {

// Sets Value::view where it pays. Classes must be final.
void FindViews(Program& program);

// Where instance `c` of a value lies, through all views: base is a value without view, or kNoValue
// for zeros.
View::Entry Locate(const Program& program, ValueId value, uint32_t c);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_VIEWS_H_
