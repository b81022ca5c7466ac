// What a pass of a stage is given, and where in the tuple that it takes.
#ifndef GSHARD_CORE_PIPELINE_EMIT_PASS_INPUTS_H_
#define GSHARD_CORE_PIPELINE_EMIT_PASS_INPUTS_H_

#include "core/pipeline/emit/region_state.h"
#include "core/pipeline/emit/stages.h"

namespace gshard::pipeline {

struct PassInput {
  enum class Kind : uint8_t {
    kNone,        // the pass computes the value itself
    kExamples,    // rows of a parameter
    kMicrobatch,  // the number of the micro-batch
    kWhole,       // an element of the tuple, as it is
    kPiece,       // of an element, at `place` (packs.h)
    kRow,         // of an element, the one that is numbered by element `row`
  };
  Kind kind = Kind::kNone;
  int64_t element = 0;  // kExamples: which of RegionState::data
  PassNumber row = PassNumber::kMicrobatch;
  const WeightPacks::Place* place = nullptr;
};

// `state` is that of the stages' region, and lives as long as what is returned.
PassInput FindPassInput(const StageGraph& stages, const RegionState& state, Pass pass, int64_t v,
                        Instruction* x);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_PASS_INPUTS_H_
