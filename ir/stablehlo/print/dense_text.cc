#include "ir/stablehlo/print/dense_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

namespace gshard::stablehlo {
namespace {

constexpr int64_t kMaxListed = 100;

std::string_view ElementName(DType dtype) {
  switch (dtype) {
    case DType::kPred:
      return "i1";
    case DType::kS1:
      return "i1";
    case DType::kS2:
      return "i2";
    case DType::kS4:
      return "i4";
    case DType::kS8:
      return "i8";
    case DType::kS16:
      return "i16";
    case DType::kS32:
      return "i32";
    case DType::kS64:
      return "i64";
    case DType::kU1:
      return "ui1";
    case DType::kU2:
      return "ui2";
    case DType::kU4:
      return "ui4";
    case DType::kU8:
      return "ui8";
    case DType::kU16:
      return "ui16";
    case DType::kU32:
      return "ui32";
    case DType::kU64:
      return "ui64";
    case DType::kF8E5M2:
      return "f8E5M2";
    case DType::kF8E4M3:
      return "f8E4M3";
    case DType::kF8E4M3FN:
      return "f8E4M3FN";
    case DType::kF8E4M3B11FNUZ:
      return "f8E4M3B11FNUZ";
    case DType::kF8E3M4:
      return "f8E3M4";
    case DType::kF8E5M2FNUZ:
      return "f8E5M2FNUZ";
    case DType::kF8E4M3FNUZ:
      return "f8E4M3FNUZ";
    case DType::kF8E8M0FNU:
      return "f8E8M0FNU";
    case DType::kF4E2M1FN:
      return "f4E2M1FN";
    case DType::kF6E3M2FN:
      return "f6E3M2FN";
    case DType::kF6E2M3FN:
      return "f6E2M3FN";
    case DType::kC64:
      return "complex<f32>";
    case DType::kC128:
      return "complex<f64>";
    default:
      return DTypeName(dtype);  // f16, bf16, f32, f64
  }
}

template <typename T>
T Load(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Shortest digits that read back, with the point that MLIR's grammar wants.
template <typename T>
void AppendDecimal(std::string& out, T value) {
  const size_t start = out.size();
  out += fmt::format("{}", value);
  if (out.find('.', start) != out.npos) return;
  const size_t e = std::min(out.find('e', start), out.size());
  out.insert(e, ".0");
}

void AppendFloatElement(std::string& out, DType dtype, const std::byte* from) {
  if (dtype == DType::kF32) {
    const auto value = Load<float>(from);
    if (std::isfinite(value)) return AppendDecimal(out, value);
    out += fmt::format("0x{:08X}", std::bit_cast<uint32_t>(value));
  } else if (dtype == DType::kF64) {
    const auto value = Load<double>(from);
    if (std::isfinite(value)) return AppendDecimal(out, value);
    out += fmt::format("0x{:016X}", std::bit_cast<uint64_t>(value));
  } else {
    const bool wide = StorageBytes(dtype) == 2;
    const uint16_t bits = wide ? Load<uint16_t>(from) : Load<uint8_t>(from);
    const double value = DecodeSmallFloat(dtype, bits);
    // The shortest digits of the float are enough: reading rounds to the nearest value of the type.
    if (std::isfinite(value) && EncodeSmallFloat(dtype, value) == bits) {
      return AppendDecimal(out, static_cast<float>(value));
    }
    out += wide ? fmt::format("0x{:04X}", bits) : fmt::format("0x{:02X}", bits);
  }
}

void AppendElement(std::string& out, const Literal& literal, int64_t index) {
  const DType dtype = literal.shape->dtype();
  const std::byte* from = literal.data.data() + index * StorageBytes(dtype);
  switch (ClassOf(dtype)) {
    case DTypeClass::kPredicate:
      out += Load<uint8_t>(from) != 0 ? "true" : "false";
      return;
    case DTypeClass::kSigned:
      out += std::to_string(ElementAsInt64(literal, index));
      return;
    case DTypeClass::kUnsigned:
      out += std::to_string(static_cast<uint64_t>(ElementAsInt64(literal, index)));
      return;
    case DTypeClass::kFloat:
      return AppendFloatElement(out, dtype, from);
    default:
      break;
  }
  const DType part = dtype == DType::kC64 ? DType::kF32 : DType::kF64;
  out += '(';
  AppendFloatElement(out, part, from);
  out += ',';
  AppendFloatElement(out, part, from + StorageBytes(part));
  out += ')';
}

void AppendNested(std::string& out, const Literal& literal, int64_t dim, int64_t& next) {
  if (dim == literal.shape->rank()) return AppendElement(out, literal, next++);
  out += '[';
  for (int64_t i = 0; i < literal.shape->dim(dim); ++i) {
    if (i > 0) out += ", ";
    AppendNested(out, literal, dim + 1, next);
  }
  out += ']';
}

}  // namespace

void AppendType(std::string& out, const Shape* shape) {
  if (shape->IsToken()) {
    out += "!stablehlo.token";
    return;
  }
  if (shape->IsTuple()) {
    out += "tuple<";
    for (size_t i = 0; i < shape->elements().size(); ++i) {
      if (i > 0) out += ", ";
      AppendType(out, shape->elements()[i]);
    }
    out += '>';
    return;
  }
  out += "tensor<";
  bool bounded = false;
  for (int64_t i = 0; i < shape->rank(); ++i) {
    const bool open = shape->IsDynamic(i);
    bounded = bounded || (open && shape->dim(i) != Shape::kUnbounded);
    out += open ? "?" : std::to_string(shape->dim(i));
    out += 'x';
  }
  out += ElementName(shape->dtype());
  if (bounded) {
    out += ", #stablehlo.bounds<";
    for (int64_t i = 0; i < shape->rank(); ++i) {
      if (i > 0) out += ", ";
      const bool has_bound = shape->IsDynamic(i) && shape->dim(i) != Shape::kUnbounded;
      out += has_bound ? std::to_string(shape->dim(i)) : "?";
    }
    out += '>';
  }
  out += '>';
}

void AppendDense(std::string& out, const Literal& literal) {
  if (literal.elided) {
    out += "dense_resource<__elided__>";
    return;
  }
  const int64_t count = literal.shape->element_count();
  out += "dense<";
  if (count > kMaxListed) {
    out += "\"0x";
    constexpr char kDigits[] = "0123456789ABCDEF";
    // Types below 8 bits have their value in the low bits of a byte.
    const DType dtype = literal.shape->dtype();
    const int bits = dtype == DType::kPred ? 8 : DTypeBits(dtype);
    const auto mask = static_cast<uint8_t>(bits >= 8 ? 0xFF : (1 << bits) - 1);
    out.reserve(out.size() + 2 * literal.data.size());
    for (const std::byte raw : literal.data) {
      const auto byte = static_cast<uint8_t>(std::to_integer<uint8_t>(raw) & mask);
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
    out += '"';
  } else if (count > 0) {
    int64_t next = 0;
    AppendNested(out, literal, 0, next);
  }
  out += '>';
}

void AppendNumber(std::string& out, double value) { AppendDecimal(out, value); }

std::string QuotedMlir(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\{:02X}", byte);
    } else {
      out += c;
    }
  }
  return out += '"';
}

}  // namespace gshard::stablehlo
