// The loop over clock ticks, manual over the stage axis.
//
// A tick looks up in a table what the device does, runs that branch, and sends what it hands on to
// both neighbours: collective-permutes outside the branches. A turn of the loop is one period of
// ticks (plan/schedule.h), and of each phase only those take part in the permutes that ever have
// something to send then: nobody waits for a longer pass without need. What arrives is stored by
// micro-batch until it is used.
#ifndef GSHARD_CORE_PIPELINE_EMIT_REGION_H_
#define GSHARD_CORE_PIPELINE_EMIT_REGION_H_

#include <vector>

#include "core/pipeline/emit/stage_functions.h"

namespace gshard::pipeline {

struct RegionInputs {
  StageFunctionInputs functions;  // operand_shape is filled in
  const Schedule* schedule = nullptr;
  Computation* entry = nullptr;            // the loop is appended to it
  std::vector<Instruction*> weights;       // local, by slot of RegionState::weights
  std::vector<Instruction*> shared, data;  // local
};

struct RegionResults {
  std::vector<Instruction*> terms;    // local [R, ...], by slot
  std::vector<Instruction*> outputs;  // local [1, M, ...], by slot
  std::vector<Instruction*> made;     // all instructions of the region in the entry
};

RegionResults EmitRegion(RegionInputs inputs);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_REGION_H_
