#include "backends/cpu/arrays/buffer_bytes.h"

namespace gshard::cpu {

int64_t BufferBytes(const Shape* shape) {
  if (!shape->IsArray()) return 0;
  return shape->element_count() * StorageBytes(shape->dtype());
}

}  // namespace gshard::cpu
