// Two arrays of floats, looked at once: do they differ, and how large is what they hold?
#ifndef GSHARD_BACKENDS_CPU_KERNELS_COMPARE_BITS_H_
#define GSHARD_BACKENDS_CPU_KERNELS_COMPARE_BITS_H_

#include <cstdint>

namespace gshard::cpu {

struct BitsLook {
  uint64_t largest = 0;  // magnitude below infinity, as bits
  bool differs = false;
};

// Of `count` numbers of `bytes` (2, 4 or 8) whose magnitudes order as their bits without the sign
// do: the largest of `a` below the bits `infinity`, and whether a bit of `b` is another one.
// `b` may be `a`.
BitsLook LookAtBits(const void* a, const void* b, int64_t count, int bytes, uint64_t infinity);

// The largest |a - b|, rounded; NaN, or infinite, if an element of a difference is.
float LargestDistance(const float* a, const float* b, int64_t count);
double LargestDistance(const double* a, const double* b, int64_t count);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_COMPARE_BITS_H_
