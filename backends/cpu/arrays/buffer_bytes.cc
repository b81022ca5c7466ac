#include "backends/cpu/arrays/buffer_bytes.h"

namespace gshard::cpu {

int64_t BufferBytes(const Shape* shape) {
  if (!shape->IsArray()) return 0;
  int64_t bytes = 0;
  const int64_t element = StorageBytes(shape->dtype());
  return __builtin_mul_overflow(shape->element_count(), element, &bytes) ? INT64_MAX : bytes;
}

}  // namespace gshard::cpu
