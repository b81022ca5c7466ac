// Constant values. Immutable, owned by an Arena (of the module that holds the constant).
//
// Elements are dense and row-major, little endian, one element at StorageBytes(dtype) each: pred
// and types below 8 bits take one byte (4-bit values sign- or zero-extended), complex is (re, im).
#ifndef GSHARD_IR_LITERAL_H_
#define GSHARD_IR_LITERAL_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/arena.h"
#include "ir/shape.h"

namespace gshard {

struct Literal {
  const Shape* shape = nullptr;
  // "{...}" in the text: the values were not printed. data is empty then.
  bool elided = false;
  std::span<const std::byte> data;           // arrays
  std::span<const Literal* const> elements;  // tuples

  template <typename T>
  std::span<const T> values() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};

// Element `index` (row-major) of an array literal that is not elided. Integers and pred convert
// exactly to int64 (u64 by bit pattern); floats of every width convert exactly to double.
int64_t ElementAsInt64(const Literal& literal, int64_t index);
double ElementAsDouble(const Literal& literal, int64_t index);
std::complex<double> ElementAsComplex(const Literal& literal, int64_t index);

// Whether the values of the literal, or of a part of a tuple, were not printed.
bool HasElided(const Literal& literal);

// True if all elements have the same bits (an empty array: false).
bool IsSplat(const Literal& literal);

// A literal with every element equal to `value`, converted to the type with round-to-nearest-even.
const Literal* SplatLiteral(Arena& arena, const Shape* shape, double value);
// An integer or pred array; values.size() must be the element count.
const Literal* IntegerLiteral(Arena& arena, const Shape* shape, std::span<const int64_t> values);
const Literal* RawLiteral(Arena& arena, const Shape* shape, std::span<const std::byte> data);

// Bits of a float type of at most 16 bits (bf16, f16, f8*, f6*, f4*) <-> double. Encoding rounds to
// nearest even with the overflow rule of the type (docs/semantics.md, "Converts").
uint16_t EncodeSmallFloat(DType dtype, double value);
double DecodeSmallFloat(DType dtype, uint16_t bits);

}  // namespace gshard

#endif  // GSHARD_IR_LITERAL_H_
