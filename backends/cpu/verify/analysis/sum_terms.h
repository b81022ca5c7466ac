// How many numbers an instruction adds up in one element of its result.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_SUM_TERMS_H_
#define GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_SUM_TERMS_H_

#include <cstdint>

#include "ir/module.h"

namespace gshard::cpu {

// Of a reduction, its windowed and running forms, a scatter, and a collective that adds up, whose
// partial results may be rounded to the type of x: the most that an element may have, of a scatter
// all its updates. 1 for what adds nothing up so: products and convolutions have sums in f32, which
// are rounded once. `device_count`: of the program's collectives.
int64_t MostTermsOf(const Instruction& x, int64_t device_count);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_ANALYSIS_SUM_TERMS_H_
