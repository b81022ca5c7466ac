// Checks that every step of the partitioned program ("the mesh") is right by itself. Here and in
// the other headers of this folder a step is what leads from compared arrays to the next compared
// one: one operation, or several if those in between are not compared. Each array is compared with
// what the unpartitioned graph makes of the mesh's own operands.
//
// A run that starts from the same inputs and goes its own way shows differences that grew on the
// way: a quotient of small numbers or a sum that cancels magnifies roundings without being wrong.
// Here the unpartitioned graph goes on with the mesh's value of every array it has computed, so
// that the next one differs by the rounding of one step, however ill-conditioned the program is:
// what differs by more is wrong, even where no output shows it.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_STEP_CHECK_H_
#define GSHARD_BACKENDS_CPU_VERIFY_STEP_CHECK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/verify/analysis/compared_arrays.h"
#include "backends/cpu/verify/kept_choices.h"
#include "backends/cpu/verify/verify_instructions.h"

namespace gshard::cpu {

struct StepCheckResult {
  std::string no_room;       // why nothing was judged: both graphs find no room at once; else empty
  int64_t judged = 0;        // arrays, in loops each time they are made
  int64_t unsettled = 0;     // whose operands found no room in memory, or where a pick may flip
  // Beyond the tolerance, of a way through several steps without bound, and right in double
  // precision: outputs tell whether the devices lose precision there.
  int64_t right_in_f64 = 0;
  int64_t arrays = 0;        // judged, each counted once
  int64_t left_out = 0;      // of random streams
  double max_rel_error = 0;  // of a step, to the magnitude of its array
  std::string worst;         // the array that has it
  // The first array, in order of execution, that no rounding of its operands explains.
  struct Fault {
    const Instruction* x = nullptr;
    const LocalForm* form = nullptr;
    int64_t iteration = 0;
    Mismatch mismatch;
    OutputArray want;  // of the mesh's operands
    double error = 0, allowed = 0;
    // True for a step that rounds to f16 or bf16, or that spans several operations: double
    // precision is to tell whether it is wrong.
    bool may_be_rounding = false;
    // Devices of the reference, which has several for manual regions, hold different copies too.
    bool reference_varies = false;
  };
  std::optional<Fault> fault;
  // A step that rounds to f16 or bf16 is off by more than one such rounding is, and by no more than
  // sums of them may be: double precision tells whether it is right.
  bool is_suspect = false;
  std::vector<uint8_t> is_right;  // by instruction id of the whole graph: judged, and right
  // Without a fault: true if the outputs agree with those that the unpartitioned graph computes
  // when it goes on with the mesh's value of every array.
  bool outputs_agree = false;
  Mismatch output_mismatch;
  // Error by output that sums in f16 or bf16 in its last step may have, also where their elements
  // are only moved or converted from there on; 0: there are no such sums, or nothing is known.
  std::vector<double> output_roundings;
  int64_t peak_memory_bytes = 0;
};

// Both programs and their results after a check without a fault.
struct StepCheckRuns {
  int64_t most_kept_bytes = 0;    // given: more than that is not kept of choices
  std::unique_ptr<MeshRun> mesh;  // after its step, with all arrays shown
  double mesh_time_s = 0;         // of the step, without waiting for the unpartitioned graph
  // Outputs of the unpartitioned graph run by itself; set if every array that it took from the mesh
  // had the same bits as its own.
  std::optional<std::vector<OutputArray>> outputs;
  // Its choices with the mesh's picks, from where it went on with other bits (kept_choices.h);
  // null: none.
  std::unique_ptr<KeptChoices> choices;
};

// As VerifyInstructions. Where devices that hold the same part of an array differ, the lowest's and
// the highest's instances are compared, and the unpartitioned graph goes on with the lowest's.
Expected<StepCheckResult> CheckSteps(const Module& whole, const Module& partitioned,
                                     std::span<const LocalForm> forms, const Inputs& inputs,
                                     const InstructionsOptions& options,
                                     StepCheckRuns* runs = nullptr);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_STEP_CHECK_H_
