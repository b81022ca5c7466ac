// Compares what the devices hold of every instruction with the unpartitioned graph's value, to find
// where an error comes from.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_INSTRUCTIONS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_INSTRUCTIONS_H_

#include <cstdint>
#include <functional>
#include <span>

#include "backends/cpu/inputs.h"
#include "backends/cpu/mesh_run.h"
#include "backends/cpu/verify.h"
#include "core/partition/partitioner.h"

namespace gshard::cpu {

struct InstructionsOptions {
  MeshRunOptions mesh;       // of the partitioned module
  int64_t budget_bytes = 0;  // for values that are held to be compared
  RunOptions run;            // stop
  std::function<void(double)> progress;
};

// Every array that `whole` has by the name of one of `forms` (of `partitioned`). Both graphs run as
// often as the budget asks for: values are compared in the order of execution, so many at a time
// as it holds. Inside loops the last turn counts; branches, loops that may not run and computations
// that are called several times are left out.
//
// An element may be off by ToleranceOf times the array's scale: its own largest magnitude, or what
// its operands' was before they cancelled each other. Errors: of planning and running.
Expected<InstructionsResult> VerifyInstructions(const Module& whole, const Module& partitioned,
                                                std::span<const LocalForm> forms,
                                                const Inputs& inputs,
                                                const InstructionsOptions& options);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_INSTRUCTIONS_H_
