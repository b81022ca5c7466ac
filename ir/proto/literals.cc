#include "ir/proto/literals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ir/dims.h"
#include "ir/proto/wire.h"

namespace gshard::proto {
namespace {

constexpr int kMaxLiteralDepth = 250;

// The field that holds the elements of a type; 0 if there is none.
uint32_t FieldOf(DType dtype) {
  switch (dtype) {
    case DType::kPred:
      return 2;
    case DType::kU8:
      return 3;
    case DType::kS32:
      return 4;
    case DType::kS64:
      return 5;
    case DType::kU32:
      return 6;
    case DType::kU64:
      return 7;
    case DType::kF32:
      return 8;
    case DType::kF64:
      return 9;
    case DType::kF16:
      return 11;
    case DType::kC64:
      return 12;
    case DType::kBF16:
      return 13;
    case DType::kS8:
      return 15;
    case DType::kU16:
      return 16;
    case DType::kS16:
      return 17;
    case DType::kC128:
      return 18;
    default:  // from here on xla numbers the fields as the types
      for (uint32_t number = 19; number <= 36; ++number) {
        if (DTypeFromNumber(number) == dtype) return number;
      }
      return 0;
  }
}

// Varints stand for the elements, and not raw bytes.
bool IsVarint(DType dtype) {
  return dtype == DType::kPred || dtype == DType::kS32 || dtype == DType::kS64 ||
         dtype == DType::kU32 || dtype == DType::kU64;
}

void StoreInteger(DType dtype, int64_t value, std::byte* to) {
  const auto bits = static_cast<uint64_t>(value);
  if (dtype == DType::kPred) {
    *to = std::byte{value != 0};
  } else if (StorageBytes(dtype) == 4) {
    const auto narrow = static_cast<uint32_t>(bits);
    std::memcpy(to, &narrow, sizeof(narrow));
  } else {
    std::memcpy(to, &bits, sizeof(bits));
  }
}

// Types below 8 bits have a byte each, whose upper bits mean nothing; ours are extended.
void ExtendNarrow(DType dtype, std::span<std::byte> data) {
  const int bits = DTypeBits(dtype);
  if (bits >= 8) return;
  const int unused = 8 - bits;
  for (std::byte& element : data) {
    const auto shifted = static_cast<uint8_t>(std::to_integer<unsigned>(element) << unused);
    element = ClassOf(dtype) == DTypeClass::kSigned
                  ? static_cast<std::byte>(static_cast<int8_t>(shifted) >> unused)
                  : static_cast<std::byte>(shifted >> unused);
  }
}

// Elements of `from`, which lie in the shape's layout, to row-major `to`.
void ToRowMajor(const Shape* shape, size_t size, const std::byte* from, std::byte* to) {
  const auto dims = shape->dims();
  std::vector<size_t> stride(dims.size(), 0);
  size_t next = size;
  for (int64_t dim : shape->layout()->minor_to_major) {
    stride[static_cast<size_t>(dim)] = next;
    next *= static_cast<size_t>(dims[static_cast<size_t>(dim)]);
  }
  std::vector<int64_t> index(dims.size(), 0);
  size_t offset = 0;
  for (int64_t k = 0; k < shape->element_count(); ++k, to += size) {
    std::memcpy(to, from + offset, size);
    for (size_t d = dims.size(); d-- > 0;) {
      offset += stride[d];
      if (++index[d] < dims[d]) break;
      offset -= stride[d] * static_cast<size_t>(dims[d]);
      index[d] = 0;
    }
  }
}

class LiteralReader {
 public:
  LiteralReader(Arena& arena, ShapeReader& shapes, Errors& errors)
      : arena_(arena), shapes_(shapes), errors_(errors) {}

  const Literal* Read(std::string_view bytes, int depth) {
    const Shape* shape = nullptr;
    std::vector<std::string_view> elements;
    FieldReader field(bytes);
    while (field.Next()) {
      if (field.number() == 10) elements.push_back(field.bytes());
      if (field.number() != 1) continue;
      shape = shapes_.Read(field.bytes());
      if (shape == nullptr) return nullptr;
    }
    if (!field.ok()) {
      errors_.Damaged("a literal");
      return nullptr;
    }
    if (shape == nullptr) return Fail("a literal without a shape");
    if (shape->IsArray()) return ReadArray(shape, bytes);
    if (!shape->IsTuple()) return Fail(fmt::format("a literal of {}", ToString(shape)));
    if (depth > kMaxLiteralDepth || elements.size() != shape->elements().size()) {
      return Fail(fmt::format("a literal of {} elements for {}", elements.size(),
                              ToString(shape, /*layouts=*/false)));
    }
    const auto read = arena_.NewSpan<const Literal*>(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      read[i] = Read(elements[i], depth + 1);
      if (read[i] == nullptr) return nullptr;
      if (!Compatible(read[i]->shape, shape->elements()[i])) {
        return Fail(fmt::format("element {} of a literal is not of its shape", i));
      }
    }
    return arena_.New<Literal>(
        Literal{.shape = shape, .elided = false, .data = {}, .elements = read});
  }

 private:
  const Literal* Fail(std::string message) {
    errors_.Fail(Error::kValue, std::move(message));
    return nullptr;
  }

  const Literal* ReadArray(const Shape* shape, std::string_view bytes) {
    const auto size = static_cast<size_t>(StorageBytes(shape->dtype()));
    for (int64_t dim : shape->dims()) {
      if (dim == Shape::kUnbounded) return Fail("a literal with an unbounded dimension");
    }
    const auto count = static_cast<size_t>(shape->element_count());
    const uint32_t number = FieldOf(shape->dtype());
    std::string_view raw;
    std::string joined;  // of fields that came in pieces
    values_.clear();
    FieldReader field(bytes);
    while (field.Next()) {
      if (field.number() != number) continue;
      if (IsVarint(shape->dtype())) {
        if (!field.AppendTo(values_)) return Damaged();
      } else if (field.IsBytes() && raw.empty()) {
        raw = field.bytes();
      } else {
        if (joined.empty()) joined = raw;
        const uint64_t bits = field.value();
        if (field.IsBytes()) joined += field.bytes();
        if (field.type() == WireType::kFixed32)
          joined.append(reinterpret_cast<const char*>(&bits), 4);
        if (field.type() == WireType::kFixed64)
          joined.append(reinterpret_cast<const char*>(&bits), 8);
      }
    }
    if (!joined.empty()) raw = joined;
    const size_t got = IsVarint(shape->dtype()) ? values_.size() : raw.size() / size;
    if (count > 0 && got == 0) {
      return arena_.New<Literal>(
          Literal{.shape = shape, .elided = true, .data = {}, .elements = {}});
    }
    if (got != count || (!IsVarint(shape->dtype()) && raw.size() != count * size)) {
      return Fail(
          fmt::format("a literal of {} with {} elements", ToString(shape, /*layouts=*/false), got));
    }
    return Store(shape, count, size, raw);
  }

  const Literal* Store(const Shape* shape, size_t count, size_t size, std::string_view raw) {
    auto* data = static_cast<std::byte*>(arena_.Allocate(std::max<size_t>(count * size, 1), 16));
    if (IsVarint(shape->dtype())) {
      for (size_t i = 0; i < count; ++i) {
        StoreInteger(shape->dtype(), values_[i], data + i * size);
      }
    } else if (count > 0) {
      std::memcpy(data, raw.data(), count * size);
    }
    const std::span<std::byte> elements(data, count * size);
    ExtendNarrow(shape->dtype(), elements);
    if (count > 0 && !IsRowMajor(shape)) {
      const std::vector<std::byte> copy(elements.begin(), elements.end());
      ToRowMajor(shape, size, copy.data(), data);
    }
    return arena_.New<Literal>(
        Literal{.shape = shape, .elided = false, .data = elements, .elements = {}});
  }

  const Literal* Damaged() {
    errors_.Damaged("a literal");
    return nullptr;
  }

  Arena& arena_;
  ShapeReader& shapes_;
  Errors& errors_;
  std::vector<int64_t> values_;
};

}  // namespace

const Literal* ReadLiteral(std::string_view bytes, Arena& arena, ShapeReader& shapes,
                           Errors& errors) {
  return LiteralReader(arena, shapes, errors).Read(bytes, 0);
}

}  // namespace gshard::proto
