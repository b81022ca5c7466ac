// Values that arrays are filled with: random ones that depend on seed, stream and place only, those
// of elided constants, and padding.
#ifndef GSHARD_BACKENDS_CPU_ARRAYS_FILL_H_
#define GSHARD_BACKENDS_CPU_ARRAYS_FILL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/literal.h"

namespace gshard::cpu {

// Elements [first, first + count) of a random array: floats about normal with deviation 0.1,
// except in arrays of rank 1, which are |x| + 0.5 (scales and variances must not be near zero);
// integers uniform in 0..3 (0..1 where the type holds no more); pred fair.
void FillRandom(DType dtype, int64_t rank, uint64_t seed, uint64_t stream, int64_t first,
                int64_t count, std::byte* out);

// Random bits for place `index` of a stream: what all random values are made of.
uint64_t RandomBits(uint64_t seed, uint64_t stream, int64_t index);

// Stands in for a constant whose values were elided ("{...}") in the text: random as above, the
// same for all constants of one shape.
void FillElided(const Shape* shape, uint64_t seed, std::span<std::byte> out);

// What stands in tiles beyond the whole array. Programs must not depend on it, so it is poison
// (NaN, large integers); where NaN are looked for it is ones and zeros.
enum class Padding : uint8_t { kPoisoned, kHarmless };

void FillPadding(DType dtype, Padding padding, std::byte* out, int64_t count);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ARRAYS_FILL_H_
