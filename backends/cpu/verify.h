// Compares what the devices hold with the unpartitioned result.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_H_
#define GSHARD_BACKENDS_CPU_VERIFY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/mesh_run.h"

namespace gshard::cpu {

struct Mismatch {
  std::string name;  // of an output ("o0") or an instruction
  std::vector<int64_t> index;
  uint32_t device = 0;
  std::string value, expected;
  double ulps = 0;  // distance in units of the last place of the expected value
};

// Element `at` of the whole array, of which `device` has element `local` of its shard; unnamed.
Mismatch MismatchAt(DType dtype, std::span<const int64_t> dims, const std::byte* want, int64_t at,
                    uint32_t device, const std::byte* have, int64_t local);

// A flipped decision changes few elements; more than this share is a wrong result.
inline constexpr double kDiscreteShare = 0.05;

// How far the instances of an array are from the whole one.
struct ArrayError {
  double largest = 0;  // |a - b|
  int64_t beyond = 0;  // elements beyond what is allowed
  int64_t elements = 0;
  Mismatch mismatch;  // where the largest is; without a name
};
ArrayError CompareInstances(std::span<const MeshRun::Instance> instances, const OutputArray& want,
                            double allowed);

// An instruction on the way of an error.
struct ErrorStep {
  std::string name;
  double rel_error = 0;
  double ulps = 0;
};

// All arrays that both graphs have by name (verify_instructions.h).
struct InstructionsResult {
  int64_t compared = 0;
  int64_t skipped = 0;  // random by nature, or without memory to hold them
  double max_rel_error = 0;
  std::string worst;
  std::optional<Mismatch> first;  // beyond its tolerance, in order of execution
  std::vector<ErrorStep> growth;  // from the inputs to the first, else to the worst
};

struct VerifyResult {
  bool ok = true;
  double max_abs_error = 0;
  double max_rel_error = 0;  // largest |a - b| / max|b| of an output
  std::string worst;         // the output that has it
  Mismatch mismatch;         // the worst element of the first output that fails, if !ok
  int64_t compared = 0;      // outputs
  int64_t shape_only = 0;    // outputs that depend on `rng`
  // Outputs downstream of top-k, arg-max or sort of floats: elements beyond the tolerance there.
  int64_t discrete_outputs = 0;
  int64_t discrete_differences = 0;
  int64_t discrete_elements = 0;
  std::optional<InstructionsResult> instructions;
};

// Tolerances by the output's type (docs/emulator.md): |a - b| <= tol * max|b| with 1e-4 for f32,
// 2e-2 for bf16 and f16, 1e-9 for f64, 0.25 for 8-bit floats; integers and pred exactly.
double ToleranceOf(DType dtype);

// Every device's instance of every output of `run` against `expected` (whole arrays of the
// unpartitioned module). `reference` is that module: its graph tells which outputs depend on random
// streams or on discrete decisions over floats.
VerifyResult VerifyOutputs(const MeshRun& run, const std::vector<OutputArray>& expected,
                           const Module& reference);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_H_
