// Values of the reference evaluator: every element in the widest type, rounded to its own.
#ifndef GSHARD_TESTS_REFERENCE_VALUE_H_
#define GSHARD_TESTS_REFERENCE_VALUE_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/literal.h"
#include "ir/shape.h"

namespace gshard::cpu {

// Integers and pred are in `i` (u64 by its bits), floats and complex numbers in `z`.
struct Number {
  int64_t i = 0;
  std::complex<double> z = 0;
};

struct ReferenceValue {
  const Shape* shape = nullptr;
  std::vector<Number> data;              // arrays, row-major
  std::vector<ReferenceValue> elements;  // tuples
};

// What is left of `number` in the type: integers wrap, floats round to nearest even.
Number RoundTo(DType dtype, Number number);

ReferenceValue Zeros(const Shape* shape);
ReferenceValue FromBytes(const Shape* shape, std::span<const std::byte> bytes);
ReferenceValue FromLiteral(const Literal& literal);
// In the layout of kernels' buffers.
std::vector<std::byte> ToBytes(const ReferenceValue& value);

// --- index tuples
using Index = std::vector<int64_t>;

int64_t Flatten(std::span<const int64_t> dims, std::span<const int64_t> index);
bool IsInside(std::span<const int64_t> dims, std::span<const int64_t> index);

// visit(index) for all indices below `dims` in row-major order.
template <typename Visit>
void ForEachIndex(std::span<const int64_t> dims, Visit visit) {
  for (const int64_t size : dims) {
    if (size == 0) return;
  }
  Index index(dims.size(), 0);
  for (;;) {
    visit(const_cast<const Index&>(index));
    size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

inline Number& At(ReferenceValue& value, const Index& index) {
  return value.data[static_cast<size_t>(Flatten(value.shape->dims(), index))];
}
inline const Number& At(const ReferenceValue& value, const Index& index) {
  return value.data[static_cast<size_t>(Flatten(value.shape->dims(), index))];
}

}  // namespace gshard::cpu

#endif  // GSHARD_TESTS_REFERENCE_VALUE_H_
