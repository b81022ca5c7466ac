// Compares what the devices hold of every instruction with the unpartitioned graph's value, to find
// where an error comes from.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_VERIFY_INSTRUCTIONS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_VERIFY_INSTRUCTIONS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backends/cpu/io/inputs.h"
#include "backends/cpu/run/mesh_run.h"
#include "backends/cpu/verify/mesh_runs.h"
#include "backends/cpu/verify/verify.h"
#include "core/partition/partitioner.h"

namespace gshard::cpu {

struct InstructionsOptions {
  MeshRunOptions mesh;  // of the partitioned module
  // Where the whole graph runs on several devices (manual regions): they, and the arrays that each
  // of them holds whole, by the names that `forms` has.
  DeviceGrid whole_grid;
  std::span<const LocalForm> whole_forms;
  int64_t budget_bytes = 0;  // for values that wait to be compared
  // Compares only discrete choices and what they are made from, to find near ties.
  bool only_choices = false;
  // By instruction of the whole graph (id): steps that are right by themselves, so that their picks
  // follow from the mesh's floats. Of others these are asked (MakesPick).
  std::vector<uint8_t> right;
  // By instruction of the whole graph (id): the right ones in double precision (widened_steps.h).
  // Such a step may be off by what sums of its terms may round in f16 or bf16. Empty: none.
  std::vector<uint8_t> right_when_widened;
  size_t output_count = SIZE_MAX;  // results beyond are no outputs
  // Where the user gave the whole graph: how its results are spread, by leaf, in the partitioned
  // module's context. What the partitioned one does not say is found (FindResultSpreads).
  bool has_reference = false;
  std::span<const Sharding* const> reference_results;
  OutputTolerance tolerance;
  RunOptions run;  // stop
  MeshRuns runs;   // over several ranks: of the one that verifies
  std::function<void(double)> progress;
};

// Every array that `whole` has by the name of one of `forms` (of `partitioned`), each time it is
// computed: in loops iteration by iteration (in-place updates of arrays and what a loop passes on:
// in the last iteration), in branches where both graphs take them. Computations that are called
// from several places are left out.
//
// Both graphs run once, in turns: the mesh goes on until it has computed what the whole graph is
// about to compare. Values that find no room within the budget are compared in another such pass.
// Where memory does not allow both arenas, the mesh runs first and fills the budget.
//
// Where a discrete choice flips though the floats that decide agree (near_ties.h), it is a near
// tie, and the whole graph goes on with the mesh's picks: what diverges behind it has another
// cause. So a tie behind another one shows in the same run.
//
// An element may be off by ToleranceOf times the array's ErrorScale. Errors: of planning and
// running.
Expected<InstructionsResult> VerifyInstructions(const Module& whole, const Module& partitioned,
                                                std::span<const LocalForm> forms,
                                                const Inputs& inputs,
                                                const InstructionsOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_VERIFY_INSTRUCTIONS_H_
