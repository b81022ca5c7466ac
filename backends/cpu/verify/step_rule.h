// What one step of the unpartitioned graph may be off by from the mesh's, for the operands that it
// had (step_check.h).
#ifndef GSHARD_BACKENDS_CPU_VERIFY_STEP_RULE_H_
#define GSHARD_BACKENDS_CPU_VERIFY_STEP_RULE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/verify/analysis/compared_arrays.h"

namespace gshard::cpu {

// Roundings of elementwise kernels, which may take another way at the end of a row.
inline constexpr double kStepUlps = 4;

// From an array back to the nearest compared ones that it is made of.
struct StepRule {
  std::vector<const Instruction*> anchors;
  // In units of the scale of its terms: of the type, or of a coarser one on the way that is not
  // compared itself.
  double tolerance = 0;
  // A pick among floats that are not compared: it may flip.
  bool may_flip = false;
  // Both graphs make each element from the same elements by the same one operation: it is equal
  // but for kStepUlps of its own magnitude, where the anchors are the same on all devices.
  bool is_one_operation = false;
  // The coarsest unit roundoff of f16 and bf16 that the step, or the mesh's, rounds to; 0: none.
  double short_roundoff = 0;
  // What short sums of the step may be off by, in units of the scale of its operands: n terms t are
  // added up within n u sum|t| (N. Higham, Accuracy and Stability of Numerical Algorithms, 4.2),
  // with u the unit roundoff, by both graphs. 0: it has none.
  double short_sums = 0;
  // Floats are computed from others that are computed on the way and not compared, such as in the
  // body of a manual region: what that magnifies has no bound, so the tolerance tells what is right
  // and not what is wrong.
  bool spans_steps = false;
};

// By candidate. `partitioned` has their local forms.
std::vector<StepRule> StepRulesOf(const Module& whole, const Module& partitioned,
                                  std::span<const Candidate> candidates);

// The unit roundoff of f16 and bf16, half the distance of neighbouring numbers from 1 on; else 0.
double ShortRoundoff(DType dtype);

// Tolerance of one step: roundings of sums, in units of the scale of its terms.
double StepToleranceOf(DType dtype);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_STEP_RULE_H_
