// Rounding, or wrong? Rounding shrinks with the precision, a wrong program's error does not.
//
// Both graphs were run once more, widened to double precision (core/precision/float_widening.h).
// With a, b an output on the mesh and of the unpartitioned graph, in its own type (32) and in f64,
// `rounding` = max|b32 - b64| is what the unpartitioned graph itself rounds. Per output:
//
// 1. The same function: max|a64 - b64| <= 1e-9 · max|b64| + rounding/10^4. Where the mesh's program
//    has constants that the unpartitioned graph has not, rounded to their type (1/3 for a division
//    by 3), two units of that type instead of 1e-9.
// 2. The same precision: the mesh computes in no coarser type than the unpartitioned graph, has
//    no NaN or infinity of its own, and, where the output follows from no comparison or other jump
//    of floats, max|a32 - b32| <= 1000 · rounding.
//
// All outputs meet 1, those that differ 2: that is rounding. One does not meet 1, and its error in
// f64 is more than 10 times its rounding: it is wrong. Anything else is undecided.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_WIDENED_OUTPUTS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_WIDENED_OUTPUTS_H_

#include <vector>

#include "backends/cpu/verify/verify.h"

namespace gshard::cpu {

// `narrow`: what VerifyOutputs has made of the programs as they are, `program` on the mesh and
// `reference`, whose whole results were `narrow_expected`. `run` and `expected`: the same of both
// widened; the run is done.
WidenedResult JudgeWidened(const VerifyResult& narrow,
                           const std::vector<OutputArray>& narrow_expected, const Module& program,
                           const Module& reference, const MeshRun& run,
                           const std::vector<OutputArray>& expected);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_WIDENED_OUTPUTS_H_
