// The shifting buffer as a region that is manual over the stage axis.
//
// Stages are alike, so each device applies one function at every tick to its slice of the buffer,
// and the buffer moves on by collective-permute; there is no branch. What comes before and after
// the alike layers is computed outside, micro-batch j by device j mod K: its results are fed to
// stage 0 by a register that rotates by one device a tick, and those of the last stage go back to
// their devices the same way.
//
//   layers before ─► [in] ─► rotate to stage 0 ─► buffer, K + R*M - 1 ticks ─► rotate back ─► [out]
//   layers after, and their backward pass ─► cotangents ─► the same with time reversed ─► layers
//   before, backward
#ifndef GSHARD_CORE_PIPELINE_EMIT_SHIFT_REGION_H_
#define GSHARD_CORE_PIPELINE_EMIT_SHIFT_REGION_H_

#include "core/pipeline/emit/region.h"
#include "core/pipeline/plan/shift_schedule.h"

namespace gshard::pipeline {

// The layers before, in and after the buffer. Each with slots of its own (RegionState), of which
// those of the boundaries are the same.
struct ShiftInputs {
  ShiftClock clock;
  Computation* entry = nullptr;
  RegionInputs before, alike, after;
};
struct ShiftResults {
  RegionResults before, alike, after;  // `made` is all in `alike`
};

// Fails with E-PIPELINE-006 where the stages of the buffer do not compute the same.
Expected<ShiftResults> EmitShiftRegion(ShiftInputs inputs);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_SHIFT_REGION_H_
