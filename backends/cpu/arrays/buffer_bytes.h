// The size of an array in memory.
#ifndef GSHARD_BACKENDS_CPU_ARRAYS_BUFFER_BYTES_H_
#define GSHARD_BACKENDS_CPU_ARRAYS_BUFFER_BYTES_H_

#include <cstdint>

#include "ir/shape.h"

namespace gshard::cpu {

// Bytes of one array as buffers hold it (StorageBytes per element), saturating; 0 for tokens.
int64_t BufferBytes(const Shape* shape);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ARRAYS_BUFFER_BYTES_H_
