// The floating-point operations that a program asks for, however it is partitioned.
#ifndef GSHARD_CORE_COST_USEFUL_FLOPS_H_
#define GSHARD_CORE_COST_USEFUL_FLOPS_H_

#include "ir/module.h"

namespace gshard {

// Of one execution of an unpartitioned program, on all devices together: loops multiplied, of a
// conditional the branch with the most, manual regions by the devices that run them (their shapes
// are local), without what is rematerialised.
double TotalFlops(const Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_USEFUL_FLOPS_H_
