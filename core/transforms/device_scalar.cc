#include "core/transforms/device_scalar.h"

namespace gshard {

Instruction* DeviceScalar(Builder& builder, const DeviceFunction& f, DType dtype,
                          int64_t device_count) {
  Instruction* sum = nullptr;
  for (const DeviceSubAxis& sub_axis : f.sub_axes) {
    Instruction* value = builder.PartitionId();
    if (sub_axis.stride > 1) {
      value =
          builder.Binary(Opcode::kDivide, value, builder.ScalarInt(DType::kU32, sub_axis.stride));
    }
    if (sub_axis.stride * sub_axis.size < device_count) {
      value =
          builder.Binary(Opcode::kRemainder, value, builder.ScalarInt(DType::kU32, sub_axis.size));
    }
    value = builder.Convert(value, dtype);
    if (sub_axis.coefficient != 1) {
      value = builder.Multiply(value, builder.ScalarInt(dtype, sub_axis.coefficient));
    }
    sum = sum == nullptr ? value : builder.Add(sum, value);
  }
  if (sum == nullptr) return builder.ScalarInt(dtype, f.bias);
  return f.bias == 0 ? sum : builder.Add(sum, builder.ScalarInt(dtype, f.bias));
}

}  // namespace gshard
