// Writes functions of the device as arithmetic on partition-id.
#ifndef GSHARD_CORE_TRANSFORMS_DEVICE_SCALAR_H_
#define GSHARD_CORE_TRANSFORMS_DEVICE_SCALAR_H_

#include "core/analysis/device_function.h"
#include "ir/builder.h"

namespace gshard {

// The value of `f` on the device that runs the program, a scalar of the integer type `dtype`.
Instruction* DeviceScalar(Builder& builder, const DeviceFunction& f, DType dtype,
                          int64_t device_count);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_DEVICE_SCALAR_H_
