// What a rematerialization did, by values: those that are computed again, and those that are still
// kept from the forward pass for the backward pass. `gshard-opt remat --report`.
#ifndef GSHARD_CORE_REMAT_REMAT_RECORD_H_
#define GSHARD_CORE_REMAT_REMAT_RECORD_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/propagation/propagation.h"
#include "core/remat/rematerialization.h"
#include "ir/module.h"

namespace gshard {

struct RematValue {
  std::string name;     // of its instruction, in the program with its calls inlined
  std::string source;   // "gpt.py:22", the innermost line of the user's program; empty: not known
  std::string op_name;  // may be empty
  std::string shape;    // of the value in the whole program
  int64_t bytes = 0;  // on one device; of a loop's value, of the stack that saves it for all trips
  // Computed by the forward pass and read by the backward pass, within the program itself or from
  // one loop to the other: what a policy of jax.checkpoint decides about.
  bool is_residual = false;
  // A loop carries it from trip to trip, such as a layer's input, or gives it back at its end:
  // jax.checkpoint of the loop's body keeps it whatever its policy. Source, operation and name are
  // of what makes it in the trip before.
  bool is_carried = false;
};

struct RematRecord {
  std::vector<RematValue> recomputed, kept;  // kept: residuals only; both in the text's order
  std::map<std::string, double> flops;  // that one device does again, by source line, all trips
};

struct RematRecordInput {
  const Module& before;  // as it was given
  const Module& after;
  std::span<const DroppedValue> dropped;
  int64_t num_partitions = 0;  // 0: as the module says
  bool is_whole = false;       // still to be partitioned
  MemoryOptions memory;
  PropagationOptions propagation;
};

// Errors: those of propagation and partitioning.
Expected<RematRecord> MakeRematRecord(const RematRecordInput& input);

}  // namespace gshard

#endif  // GSHARD_CORE_REMAT_REMAT_RECORD_H_
