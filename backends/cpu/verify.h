// Compares what the devices hold with the unpartitioned result.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_H_
#define GSHARD_BACKENDS_CPU_VERIFY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cpu/mesh_run.h"

namespace gshard::cpu {

struct Mismatch {
  std::string output;  // "o0"
  std::vector<int64_t> index;
  uint32_t device = 0;
  std::string value, expected;
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
