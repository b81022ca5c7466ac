#include "tests/reference/value.h"

#include <cstring>

#include "ir/diagnostic.h"

namespace gshard::cpu {
namespace {

double RoundReal(DType dtype, double value) {
  if (dtype == DType::kF64 || dtype == DType::kC128) return value;
  if (dtype == DType::kF32 || dtype == DType::kC64) {
    return static_cast<double>(static_cast<float>(value));
  }
  return DecodeSmallFloat(dtype, EncodeSmallFloat(dtype, value));
}

}  // namespace

Number RoundTo(DType dtype, Number number) {
  if (dtype == DType::kPred) return {number.i != 0, 0};
  if (IsInteger(dtype)) {
    const int unused = 64 - DTypeBits(dtype);
    const uint64_t shifted = static_cast<uint64_t>(number.i) << unused;
    if (ClassOf(dtype) == DTypeClass::kSigned) return {static_cast<int64_t>(shifted) >> unused, 0};
    return {static_cast<int64_t>(shifted >> unused), 0};
  }
  const double imag = IsComplex(dtype) ? RoundReal(dtype, number.z.imag()) : 0;
  return {0, {RoundReal(dtype, number.z.real()), imag}};
}

ReferenceValue Zeros(const Shape* shape) {
  ReferenceValue value;
  value.shape = shape;
  if (shape->IsArray()) value.data.resize(static_cast<size_t>(shape->element_count()));
  for (const Shape* element : shape->elements()) value.elements.push_back(Zeros(element));
  return value;
}

ReferenceValue FromBytes(const Shape* shape, std::span<const std::byte> bytes) {
  Literal literal;
  literal.shape = shape;
  literal.data = bytes;
  return FromLiteral(literal);
}

ReferenceValue FromLiteral(const Literal& literal) {
  ReferenceValue value = Zeros(literal.shape);
  for (size_t k = 0; k < value.elements.size(); ++k) {
    value.elements[k] = FromLiteral(*literal.elements[k]);
  }
  const DType dtype = literal.shape->dtype();
  for (size_t k = 0; k < value.data.size(); ++k) {
    const int64_t index = static_cast<int64_t>(k);
    if (IsComplex(dtype)) {
      value.data[k].z = ElementAsComplex(literal, index);
    } else if (IsFloat(dtype)) {
      value.data[k].z = ElementAsDouble(literal, index);
    } else {
      value.data[k].i = ElementAsInt64(literal, index);
    }
  }
  return value;
}

std::vector<std::byte> ToBytes(const ReferenceValue& value) {
  const DType dtype = value.shape->dtype();
  const size_t bytes = static_cast<size_t>(StorageBytes(dtype));
  std::vector<std::byte> out(value.data.size() * bytes);
  std::byte* to = out.data();
  for (const Number& number : value.data) {
    const double re = number.z.real(), im = number.z.imag();
    const float re_single = static_cast<float>(re), im_single = static_cast<float>(im);
    if (dtype == DType::kF64 || dtype == DType::kC128) {
      std::memcpy(to, &re, 8);
      if (bytes == 16) std::memcpy(to + 8, &im, 8);
    } else if (dtype == DType::kF32 || dtype == DType::kC64) {
      std::memcpy(to, &re_single, 4);
      if (bytes == 8) std::memcpy(to + 4, &im_single, 4);
    } else if (IsFloat(dtype)) {
      const uint64_t bits = EncodeSmallFloat(dtype, re);
      std::memcpy(to, &bits, bytes);
    } else {
      std::memcpy(to, &number.i, bytes);
    }
    to += bytes;
  }
  return out;
}

int64_t Flatten(std::span<const int64_t> dims, std::span<const int64_t> index) {
  CheckInternal(IsInside(dims, index), "index out of range in the reference evaluator");
  int64_t flat = 0;
  for (size_t d = 0; d < dims.size(); ++d) flat = flat * dims[d] + index[d];
  return flat;
}

bool IsInside(std::span<const int64_t> dims, std::span<const int64_t> index) {
  if (dims.size() != index.size()) return false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (index[d] < 0 || index[d] >= dims[d]) return false;
  }
  return true;
}

}  // namespace gshard::cpu
