#include "ir/literal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ir/diagnostic.h"

namespace gshard {
namespace {

template <typename T>
T Load(const Literal& literal, int64_t index) {
  T value;
  const size_t offset = static_cast<size_t>(index) * sizeof(T);
  CheckInternal(index >= 0 && offset + sizeof(T) <= literal.data.size(),
                "literal element out of range");
  std::memcpy(&value, literal.data.data() + offset, sizeof(T));
  return value;
}

template <typename T>
void Store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

// One element of an integer type or pred.
void StoreInt(DType dtype, std::byte* to, int64_t value) {
  if (dtype == DType::kPred) {
    Store<uint8_t>(to, value != 0 ? 1 : 0);
    return;
  }
  switch (StorageBytes(dtype)) {
    case 1: {
      // Narrow types keep their value: sign- or zero-extended from their width.
      const int unused = 8 - std::min(DTypeBits(dtype), 8);
      const auto shifted = static_cast<uint8_t>(static_cast<uint64_t>(value) << unused);
      if (ClassOf(dtype) == DTypeClass::kSigned) {
        Store(to, static_cast<int8_t>(static_cast<int8_t>(shifted) >> unused));
      } else {
        Store(to, static_cast<uint8_t>(shifted >> unused));
      }
      return;
    }
    case 2:
      Store(to, static_cast<uint16_t>(value));
      return;
    case 4:
      Store(to, static_cast<uint32_t>(value));
      return;
    default:
      Store(to, static_cast<uint64_t>(value));
  }
}

void StoreDouble(DType dtype, std::byte* to, double value) {
  switch (dtype) {
    case DType::kF32:
      Store(to, static_cast<float>(value));
      return;
    case DType::kF64:
      Store(to, value);
      return;
    case DType::kC64:
      Store(to, static_cast<float>(value));
      Store(to + 4, 0.0f);
      return;
    case DType::kC128:
      Store(to, value);
      Store(to + 8, 0.0);
      return;
    default:
      break;
  }
  if (!IsFloat(dtype)) {
    StoreInt(dtype, to, dtype == DType::kPred ? (value != 0) : static_cast<int64_t>(value));
  } else if (StorageBytes(dtype) == 1) {
    Store(to, static_cast<uint8_t>(EncodeSmallFloat(dtype, value)));
  } else {
    Store(to, EncodeSmallFloat(dtype, value));
  }
}

std::span<std::byte> NewData(Arena& arena, const Shape* shape) {
  const auto count = static_cast<size_t>(shape->element_count());
  const auto size = static_cast<size_t>(StorageBytes(shape->dtype()));
  // Aligned for any element type.
  return {static_cast<std::byte*>(arena.Allocate(std::max<size_t>(count * size, 1), 16)),
          count * size};
}

}  // namespace

int64_t ElementAsInt64(const Literal& literal, int64_t index) {
  const DType dtype = literal.shape->dtype();
  const bool is_signed = ClassOf(dtype) == DTypeClass::kSigned;
  CheckInternal(is_signed || ClassOf(dtype) == DTypeClass::kUnsigned || dtype == DType::kPred,
                "not an integer literal");
  switch (StorageBytes(dtype)) {
    case 1:
      return is_signed ? int64_t{Load<int8_t>(literal, index)} : Load<uint8_t>(literal, index);
    case 2:
      return is_signed ? int64_t{Load<int16_t>(literal, index)} : Load<uint16_t>(literal, index);
    case 4:
      return is_signed ? int64_t{Load<int32_t>(literal, index)} : Load<uint32_t>(literal, index);
    default:
      return Load<int64_t>(literal, index);
  }
}

double ElementAsDouble(const Literal& literal, int64_t index) {
  const DType dtype = literal.shape->dtype();
  switch (dtype) {
    case DType::kF32:
      return Load<float>(literal, index);
    case DType::kF64:
      return Load<double>(literal, index);
    case DType::kU64:
      return static_cast<double>(Load<uint64_t>(literal, index));
    case DType::kC64:
    case DType::kC128:
      return ElementAsComplex(literal, index).real();
    default:
      break;
  }
  if (!IsFloat(dtype)) return static_cast<double>(ElementAsInt64(literal, index));
  return DecodeSmallFloat(dtype, StorageBytes(dtype) == 1 ? Load<uint8_t>(literal, index)
                                                          : Load<uint16_t>(literal, index));
}

std::complex<double> ElementAsComplex(const Literal& literal, int64_t index) {
  switch (literal.shape->dtype()) {
    case DType::kC64:
      return {Load<float>(literal, 2 * index), Load<float>(literal, 2 * index + 1)};
    case DType::kC128:
      return {Load<double>(literal, 2 * index), Load<double>(literal, 2 * index + 1)};
    default:
      return {ElementAsDouble(literal, index), 0};
  }
}

bool HasElided(const Literal& literal) {
  return literal.elided || std::any_of(literal.elements.begin(), literal.elements.end(),
                                       [](const Literal* element) { return HasElided(*element); });
}

bool IsSplat(const Literal& literal) {
  if (literal.elided || !literal.shape->IsArray() || literal.data.empty()) return false;
  // Equal to itself shifted by one element.
  const auto size = static_cast<size_t>(StorageBytes(literal.shape->dtype()));
  return std::memcmp(literal.data.data(), literal.data.data() + size, literal.data.size() - size) ==
         0;
}

const Literal* SplatLiteral(Arena& arena, const Shape* shape, double value) {
  const std::span<std::byte> data = NewData(arena, shape);
  const auto size = static_cast<size_t>(StorageBytes(shape->dtype()));
  if (!data.empty()) StoreDouble(shape->dtype(), data.data(), value);
  // Doubling copies.
  for (size_t filled = size; filled < data.size(); filled *= 2) {
    std::memcpy(data.data() + filled, data.data(), std::min(filled, data.size() - filled));
  }
  return arena.New<Literal>(Literal{.shape = shape, .elided = false, .data = data, .elements = {}});
}

const Literal* IntegerLiteral(Arena& arena, const Shape* shape, std::span<const int64_t> values) {
  CheckInternal(static_cast<int64_t>(values.size()) == shape->element_count(),
                "number of values of a literal");
  const std::span<std::byte> data = NewData(arena, shape);
  const auto size = static_cast<size_t>(StorageBytes(shape->dtype()));
  for (size_t i = 0; i < values.size(); ++i) {
    StoreInt(shape->dtype(), data.data() + i * size, values[i]);
  }
  return arena.New<Literal>(Literal{.shape = shape, .elided = false, .data = data, .elements = {}});
}

const Literal* RawLiteral(Arena& arena, const Shape* shape, std::span<const std::byte> data) {
  const std::span<std::byte> own = NewData(arena, shape);
  CheckInternal(own.size() == data.size(), "number of bytes of a literal");
  if (!own.empty()) std::memcpy(own.data(), data.data(), data.size());
  return arena.New<Literal>(Literal{.shape = shape, .elided = false, .data = own, .elements = {}});
}

}  // namespace gshard
