// What errors of an instruction's value are relative to: its largest magnitude, or what its terms
// had before they cancelled each other, so that sums of numbers around zero are not taken for
// errors. Not thread-safe.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_ERROR_SCALE_H_
#define GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_ERROR_SCALE_H_

#include <span>
#include <vector>

#include "backends/cpu/verify/analysis/graph_walk.h"
#include "ir/module.h"

namespace gshard::cpu {

class ErrorScale {
 public:
  explicit ErrorScale(const Module& module);

  // The scale of x, whose value was just computed and has this magnitude: never below it. Operands
  // that were not given count by what they are made of.
  double Of(const Instruction& x, double magnitude);

  // The entry's parameters have these magnitudes, by number, and no errors of their own.
  void SetParameters(std::span<const double> magnitudes);

  // x is off by `error` at most, where `tolerance` times its scale was allowed. What follows from x
  // inherits errors of that size and no larger ones: without it a long graph's scales, of what its
  // errors might be, grow with every layer until nothing is an error.
  void Observe(const Instruction& x, double error, double tolerance);

 private:
  struct State {
    double magnitude = 0, scale = 0;
  };
  const State& StateOf(const Instruction& x) const;
  double OfUnseenFactor(const Instruction& x) const;
  double ScaleOfOperand(const Instruction& x, int depth) const;
  // Of what a parameter, or an element of a tuple, is made of.
  double LargestBehind(const Instruction& x, int depth) const;

  const Computation* entry_;
  std::vector<State> states_;  // by instruction id
  GraphWalk walk_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_ERROR_SCALE_H_
