#include "core/transforms/device_scalar.h"

namespace gshard {

Instruction* DeviceScalar(Builder& builder, const DeviceFunction& f, DType dtype,
                          int64_t device_count) {
  Instruction* sum = nullptr;
  for (const DeviceDigit& digit : f.digits) {
    Instruction* value = builder.PartitionId();
    if (digit.stride > 1) {
      value = builder.Binary(Opcode::kDivide, value, builder.ScalarInt(DType::kU32, digit.stride));
    }
    if (digit.stride * digit.size < device_count) {
      value = builder.Binary(Opcode::kRemainder, value, builder.ScalarInt(DType::kU32, digit.size));
    }
    value = builder.Convert(value, dtype);
    if (digit.coefficient != 1) {
      value = builder.Multiply(value, builder.ScalarInt(dtype, digit.coefficient));
    }
    sum = sum == nullptr ? value : builder.Add(sum, value);
  }
  if (sum == nullptr) return builder.ScalarInt(dtype, f.bias);
  return f.bias == 0 ? sum : builder.Add(sum, builder.ScalarInt(dtype, f.bias));
}

}  // namespace gshard
