// Elements of integer arrays of any type as int64: start indices, group sizes, dimension sizes.
#ifndef GSHARD_BACKENDS_CPU_ARRAYS_INDEX_VALUE_H_
#define GSHARD_BACKENDS_CPU_ARRAYS_INDEX_VALUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ir/dtype.h"

namespace gshard::cpu {

template <typename T>
T LoadElement(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Element `index` read by the signedness of its own type; u64 beyond int64 saturates.
inline int64_t IndexValue(DType dtype, const std::byte* data, int64_t index) {
  switch (dtype) {
    case DType::kS1:
    case DType::kS2:
    case DType::kS4:
    case DType::kS8:
      return LoadElement<int8_t>(data, index);
    case DType::kS16:
      return LoadElement<int16_t>(data, index);
    case DType::kS32:
      return LoadElement<int32_t>(data, index);
    case DType::kS64:
      return LoadElement<int64_t>(data, index);
    case DType::kU16:
      return LoadElement<uint16_t>(data, index);
    case DType::kU32:
      return LoadElement<uint32_t>(data, index);
    case DType::kU64:
      return static_cast<int64_t>(
          std::min<uint64_t>(LoadElement<uint64_t>(data, index), INT64_MAX));
    default:
      return LoadElement<uint8_t>(data, index);
  }
}

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ARRAYS_INDEX_VALUE_H_
