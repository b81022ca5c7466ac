// Makes forward computations give back more than they did: residuals for the reverse computation.
//
//   while (a, i)             ─►  while (a, i, n, stack[trips, ..]): iteration n writes its value
//   f32[8] conditional       ─►  (f32[8], residual, ..) conditional, read by get-tuple-element
#ifndef GSHARD_CORE_AUTODIFF_FORWARD_RESULTS_H_
#define GSHARD_CORE_AUTODIFF_FORWARD_RESULTS_H_

#include <vector>

#include "core/autodiff/reverse_scope.h"

namespace gshard {

// `values` are of the body of `loop`; returns, for each, the stack of it over the iterations, read
// from the loop. The loop keeps its elements and gets more.
std::vector<Instruction*> StackOverIterations(GradientState& state, Instruction* loop,
                                              int64_t trip_count,
                                              std::span<Instruction* const> values);

// values[k] are of called computation k of `call` (a call, fusion, conditional or async-done); each
// list is as long, of compatible shapes where not null (zeros stand in for null). Returns what the
// caller reads. `scope` learns what takes the place of `call`.
std::vector<Instruction*> ReturnMore(ReverseScope& scope, Instruction* call,
                                     std::span<const std::vector<Instruction*>> values);

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_FORWARD_RESULTS_H_
