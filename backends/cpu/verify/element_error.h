// Distances between elements of buffers, for verification.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_ELEMENT_ERROR_H_
#define GSHARD_BACKENDS_CPU_VERIFY_ELEMENT_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace gshard::cpu {

// |a[i] - b[j]|, of complex numbers the larger part's. NaN equals NaN, infinities equal themselves,
// anything else non-finite is infinitely far; integers that differ are at least 1 apart. A complex
// number is NaN where one of its parts is, as in numpy: which one depends on the order of a sum.
double ElementError(DType dtype, const std::byte* a, int64_t i, const std::byte* b, int64_t j);
std::string FormatElement(DType dtype, const std::byte* data, int64_t index);
// Of complex numbers the real part; integers and pred as numbers.
double ElementValue(DType dtype, const std::byte* data, int64_t index);
double ElementMagnitude(DType dtype, const std::byte* data, int64_t index);
// Of the finite elements; 1 for integers and pred, whose errors are not relative.
double LargestMagnitude(DType dtype, std::span<const std::byte> data);
// Number of NaN; of complex numbers with such a part.
int64_t CountNan(DType dtype, std::span<const std::byte> data);
// Two arrays at once: the largest magnitude of `a`, and whether any bit of `b` is another one.
struct ArraysLook {
  double magnitude = 0;
  bool differs = false;
};
ArraysLook LookAtArrays(DType dtype, const std::byte* a, const std::byte* b, int64_t count);
// Distance of neighbouring numbers of the type at this magnitude; 1 for integers.
double UnitInLastPlace(DType dtype, double magnitude);

// What comparing elements found.
struct RowError {
  double largest = 0;  // |a - b|
  int64_t at = -1;     // the element that has it
  int64_t beyond = 0;  // elements with more than what is allowed
};
// Adds the elements a[0, count) against b[0, count), which are elements first, first + 1, ..
void CompareRow(DType dtype, const std::byte* a, const std::byte* b, int64_t count, double allowed,
                int64_t first, RowError& error);
// The same of floats that may be off by so many units in the last place of themselves.
void CompareRowInUlps(DType dtype, const std::byte* a, const std::byte* b, int64_t count,
                      double ulps, RowError& error);

std::vector<int64_t> IndexOf(int64_t flat, std::span<const int64_t> dims);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_ELEMENT_ERROR_H_
