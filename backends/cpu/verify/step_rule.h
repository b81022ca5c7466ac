// Tolerance of one step: how much the unpartitioned graph's result may differ from the mesh's for
// the same operands (step_check.h, which says what a step is).
#ifndef GSHARD_BACKENDS_CPU_VERIFY_STEP_RULE_H_
#define GSHARD_BACKENDS_CPU_VERIFY_STEP_RULE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/verify/analysis/compared_arrays.h"

namespace gshard::cpu {

// Roundings of elementwise kernels, which may take another way at the end of a row.
inline constexpr double kStepUlps = 4;

// Rule for one compared array. Its step reaches from the nearest compared arrays behind it to
// itself.
struct StepRule {
  // Compared arrays from which this one is computed; the tolerance covers all operations between
  // them and it.
  std::vector<const Instruction*> anchors;
  // Relative to the scale of the terms: by the array's type, or by a coarser one in the step.
  double tolerance = 0;
  // A pick among floats that are not compared: it may flip.
  bool may_flip = false;
  // Both graphs make each element from the same elements by the same one operation: it is equal
  // but for kStepUlps of its own magnitude, where the anchors are the same on all devices.
  bool is_one_operation = false;
  // The coarsest unit roundoff of f16 and bf16 that the step, or the mesh's, rounds to; 0: none.
  double short_roundoff = 0;
  // Error that sums in f16 or bf16 in the step may have, relative to the scale of its operands: n
  // terms t are added up within n u sum|t| (N. Higham, Accuracy and Stability of Numerical
  // Algorithms, 4.2), with u the unit roundoff, by both graphs. 0: the step has no such sums.
  double short_sums = 0;
  // Floats are computed from others that are computed on the way and not compared, such as in the
  // body of a manual region: what that magnifies has no bound, so the tolerance tells what is right
  // and not what is wrong.
  bool spans_steps = false;
};

// Returns the rules by candidate. `partitioned` is the module with their local forms.
std::vector<StepRule> StepRulesOf(const Module& whole, const Module& partitioned,
                                  std::span<const Candidate> candidates);

// Returns the unit roundoff of f16 or bf16, half the distance between 1 and the next larger number;
// 0 for other types.
double ShortRoundoff(DType dtype);

// Returns the tolerance of one step for rounding in sums, relative to the scale of its terms.
double StepToleranceOf(DType dtype);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_STEP_RULE_H_
