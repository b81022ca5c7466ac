// How much memory the machine can still give this process.
#ifndef GSHARD_IR_FREE_MEMORY_H_
#define GSHARD_IR_FREE_MEMORY_H_

#include <cstdint>

namespace gshard {

// Bytes of memory and swap that are free on the machine, with the `held` bytes that the process has
// but does not use, at most the limit of the control group that the process runs in, and what a
// limit of its address space (ulimit -v) leaves. INT64_MAX where the system tells none of these.
// Reads files under /proc and /sys at each call. Thread-safe.
int64_t FreeMemory(int64_t held = 0);

}  // namespace gshard

#endif  // GSHARD_IR_FREE_MEMORY_H_
