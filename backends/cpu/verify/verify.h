// Compares what the devices hold with the unpartitioned result.
//
// Reference: the unpartitioned program, or graph. Partitioned program, or mesh: what the emulated
// devices run. In formulas a is a value of the partitioned program, b the reference's.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_VERIFY_H_
#define GSHARD_BACKENDS_CPU_VERIFY_VERIFY_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/run/mesh_run.h"

namespace gshard::cpu {

struct Mismatch {
  std::string name;  // of an output ("o0") or an instruction
  std::vector<int64_t> index;
  uint32_t device = 0;
  std::string value, expected;
  double ulps = 0;  // distance in units of the last place of the expected value
  // Numbers for the whole array, on all devices that may differ: elements that are off by more than
  // is allowed, and elements compared.
  int64_t differences = 0, elements = 0;
  // Another device that holds the same element and has the expected value.
  std::optional<uint32_t> right_device;
};

// Describes element `at` (flat) of the whole array `want`, which `device` has as element `local`
// (flat) of its shard `have`. The result has no name.
Mismatch MismatchAt(DType dtype, std::span<const int64_t> dims, const std::byte* want, int64_t at,
                    uint32_t device, const std::byte* have, int64_t local);

// Absolute error that is allowed where the expected values are all zero.
inline constexpr double kSmallestAllowed = 1e-30;

// A flipped decision changes few elements; more than this share is a wrong result.
inline constexpr double kDiscreteShare = 0.05;

// Difference between the devices' instances of an array and the whole one.
struct ArrayError {
  double largest = 0;    // |a - b|
  int64_t beyond = 0;    // number of elements that are off by more than is allowed
  int64_t elements = 0;  // number of elements compared
  Mismatch mismatch;     // where the largest error is; without a name
};
ArrayError CompareInstances(std::span<const MeshRun::Instance> instances, const OutputArray& want,
                            double allowed);

// An instruction on the way of an error.
struct ErrorStep {
  std::string name;
  double rel_error = 0;
  double ulps = 0;
};

// A near tie: both programs make a discrete choice differently although its inputs are equal within
// tolerance (near_ties.h).
struct NearTie {
  std::string opcode;  // of what picks: compare, reduce (arg-max), sort, ..
  Mismatch pick;       // the first element that differs; its ulps mean nothing
  // Elements that the choice was made from: the mesh's pick, then the reference's; or the sides of
  // a comparison; or what was rounded. Empty: the picks do not tell.
  struct Candidate {
    std::string name;
    std::vector<int64_t> index;
    std::string value, expected;  // the mesh's, the unpartitioned graph's
  };
  std::vector<Candidate> candidates;
  // Distance between the two candidates as the reference has them; if there is one candidate,
  // between the two programs. `ulps` counts units in the last place of the larger one: many near
  // zero.
  double apart = 0, ulps = 0;
  double allowed = 0;  // error of a float that decides
};

// All arrays that both graphs have by name (verify_instructions.h).
struct InstructionsResult {
  int64_t compared = 0;
  int64_t skipped = 0;            // random by nature, or without memory to hold them
  double max_rel_error = 0;       // largest |a - b| / max|b| of an array
  std::string worst;              // name of the array that has it
  std::optional<Mismatch> first;  // beyond its tolerance, in order of execution
  std::vector<ErrorStep> growth;  // from the inputs to the first, else to the worst
  // In order of execution. All else in this struct was compared with the unpartitioned graph making
  // the mesh's picks there: what follows from a near tie is no divergence, and `first` is another.
  std::vector<NearTie> near_ties;
  // Peak memory of both programs together, of values that wait to be compared and of the mesh's
  // values that the reference goes on with.
  int64_t peak_memory_bytes = 0;
  // Set with near ties: true if the outputs agree then, every element of them.
  std::optional<bool> outputs_agree;
};

// The first array that is wrong in itself (step_check.h).
struct Finding {
  Mismatch mismatch;      // with the instruction's name, or the output's
  std::string diagnosis;  // what kind of mistake, in words; empty: none is recognised
  std::string file;       // of the user's program, else of the HLO text
  int64_t line = 0;
  std::string cause;                 // of the collective, as the partitioner recorded it
  std::vector<std::string> made_by;  // per-device instructions from right arrays to the wrong one
  bool is_output = false;            // no step is wrong, but what an output is made of them
};

// Instruction at which rounding is magnified most.
struct IllConditioned {
  std::string name;      // instruction
  double rel_error = 0;  // of its result
  double growth = 0;     // rel_error over that of the array before it; 0: it is the first
};

// One compared output, on the device where it is off most.
struct OutputError {
  size_t output = 0;
  double error = 0;      // |a - b|
  double magnitude = 0;  // the largest expected |b|
  double tolerance = 0;  // relative, of the types that it was computed in
  bool differs = false;  // by more than is allowed
  Mismatch mismatch;     // if it does
  // Expected elements, and those that are NaN: they show nothing, as a wrong program has them, too.
  int64_t elements = 0, nans = 0;
};

// Differences of outputs that remain when both programs compute in double precision
// (widened_outputs.h).
struct WidenedResult {
  enum class Outcome : uint8_t {
    kRounding,   // nothing: they were rounding
    kRemains,    // of `worst`, which the unpartitioned graph rounds by far less
    kUndecided,  // `reason` tells why
  };
  Outcome outcome = Outcome::kUndecided;
  std::string reason;
  bool was_run = false;      // else the figures say nothing
  double max_rel_error = 0;  // of an output in f64, to its largest magnitude in either type
  std::string worst;         // the output that has it; kRemains: the one that tells most clearly
  struct Output {
    Mismatch mismatch;     // in its own type
    Mismatch widened;      // in f64, where it remains
    double error = 0;      // in f64
    double rel_error = 0;  // the same, relative
    double rounding = 0;   // the unpartitioned graph's: its own type against f64
    bool remains = false;  // `error` is beyond what is allowed in f64
  };
  std::vector<Output> outputs;  // that differ in their own types, or in f64
};

// Sums of a pipelined program over a micro-batch that return to its examples (W-PIPELINE-001).
// Arrays that follow from them were compared with the reference in the same micro-batches, all else
// with the reference on the whole batch.
struct MicrobatchSums {
  int64_t microbatches = 1;
  struct Sum {
    std::string name;             // of the instruction that sums
    std::string op_name, source;  // of the front end; may be empty
  };
  std::vector<Sum> sums;
  std::vector<size_t> outputs;  // that follow from them
  // Errors of these outputs against the reference on the whole batch; the output with the largest.
  double max_abs_error = 0, max_rel_error = 0;
  std::string worst;
};

enum class VerifyStatus : uint8_t {
  kOk,
  kNearTie,         // equal but for near ties and what follows from them
  kIllConditioned,  // right, and the program magnifies roundings
  kMicrobatchSums,  // right, but another function than the reference, as W-PIPELINE-001 says
  kMismatch,
};

struct VerifyResult {
  // False if an operation is wrong, or if an output differs by more than is allowed and that is
  // explained neither by near ties nor as rounding; a tolerance that the user gave is a demand,
  // which rounding does not meet either. WidenedResult::Outcome::kUndecided leaves it false. True
  // does not mean that --verify passes: RunReport::FailedChecks (run_report.h), from which the exit
  // code follows, also looks at micro-batch sums and, if asked to, at near ties.
  bool ok = true;
  double max_abs_error = 0;  // largest |a - b| of an output
  double max_rel_error = 0;  // largest |a - b| / max|b| of an output
  std::string worst;         // name of the output that has it
  Mismatch mismatch;         // the worst element of the first output that fails, if !ok
  int64_t compared = 0;      // number of outputs compared
  // Number of outputs whose values are not compared, because they depend on `rng`.
  int64_t shape_only = 0;
  // Outputs that differ and follow from constants whose values the text of the mesh's program
  // leaves out, where the reference has them: neither right nor wrong.
  std::vector<std::string> undetermined;
  // Outputs downstream of top-k, arg-max or sort of floats: elements beyond the tolerance there.
  int64_t discrete_outputs = 0;
  int64_t discrete_differences = 0;
  int64_t discrete_elements = 0;
  // Reason why a pass proves nothing about partitioning, such as "there is one device"; empty: it
  // proves something.
  std::string trivial;
  std::vector<NearTie> near_ties;
  std::optional<InstructionsResult> instructions;
  std::optional<Finding> finding;                 // with !ok
  std::optional<IllConditioned> ill_conditioned;  // with ok
  std::vector<OutputError> outputs;               // that were compared
  std::optional<WidenedResult> widened;           // where outputs differ and no step explains it
  std::optional<MicrobatchSums> microbatch_sums;  // of a pipelined program that has any

  // True if any compared output differs by more than is allowed; few differences after a discrete
  // choice count here, too, though `ok` lets them pass.
  bool OutputsDiffer() const {
    return std::any_of(outputs.begin(), outputs.end(),
                       [](const OutputError& output) { return output.differs; });
  }
  int64_t OutputsWithNan() const {
    return std::count_if(outputs.begin(), outputs.end(),
                         [](const OutputError& output) { return output.nans > 0; });
  }
  bool HasNearTies() const { return !near_ties.empty() || discrete_differences > 0; }
  VerifyStatus Status() const {
    if (!ok) return VerifyStatus::kMismatch;
    if (microbatch_sums) return VerifyStatus::kMicrobatchSums;
    if (ill_conditioned || widened) return VerifyStatus::kIllConditioned;
    return HasNearTies() ? VerifyStatus::kNearTie : VerifyStatus::kOk;
  }
};

// Tolerances by the output's type (docs/verification.md): |a - b| <= tol * max|b| with 1e-4 for
// f32, 2e-2 for bf16 and f16, 1e-9 for f64, 0.25 for 8-bit floats; integers and pred exactly.
double ToleranceOf(DType dtype);

// Tolerance that the user gives instead of ToleranceOf: |a - b| <= absolute + relative * max|b|.
struct OutputTolerance {
  std::optional<double> relative, absolute;
  bool IsGiven() const { return relative.has_value() || absolute.has_value(); }
};

// Compares every device's instance of every output of `run` with `expected` (whole arrays of the
// unpartitioned module). `reference` is that module: its graph tells which outputs depend on random
// streams or on discrete choices over floats, and which were computed in coarser types on their
// way, whose tolerance they then have.
VerifyResult VerifyOutputs(const MeshRun& run, const std::vector<OutputArray>& expected,
                           const Module& reference, const OutputTolerance& tolerance = {});

// Returns an error (E-RUN-ELIDED), located at a constant whose values the text leaves out, if
// `verify` is ok but for outputs that follow from such constants.
Expected<void> CheckDetermined(const VerifyResult& verify, const MeshRun& run);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_VERIFY_H_
