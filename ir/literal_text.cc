#include "ir/literal_text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "ir/decimal.h"

namespace gshard {
namespace {

template <typename T>
void AppendDigits(std::string& out, T value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

// NaN by sign and mantissa: "nan", "-nan", "nan(0x7)".
void AppendNan(std::string& out, bool negative, uint64_t payload, uint64_t default_payload) {
  out += negative ? "-nan" : "nan";
  if (payload == default_payload) return;
  char digits[20];
  out += "(0x";
  out.append(digits, std::to_chars(digits, digits + sizeof(digits), payload, 16).ptr);
  out += ')';
}

// Decimal digits that tell apart any two values of a float type with this many mantissa bits.
constexpr int DigitsFor(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 5;
    case DType::kBF16:
      return 4;
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0FNU:
    case DType::kF4E2M1FN:
    case DType::kF6E3M2FN:
      return 2;
    default:
      return 3;
  }
}

void AppendSmallFloat(std::string& out, DType dtype, uint16_t bits) {
  const double value = DecodeSmallFloat(dtype, bits);
  if (std::isnan(value)) {
    const bool negative = std::signbit(value);
    if (EncodeSmallFloat(dtype, value) == bits) {
      out += negative ? "-nan" : "nan";
      return;
    }
    const int mantissa_bits = dtype == DType::kF16      ? 10
                              : dtype == DType::kBF16   ? 7
                              : dtype == DType::kF8E5M2 ? 2
                              : dtype == DType::kF8E3M4 ? 4
                                                        : 3;
    AppendNan(out, negative, bits & ((1u << mantissa_bits) - 1), 0);
  } else if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
  } else if (value == 0) {
    out += std::signbit(value) ? "-0.0" : "0";
  } else {
    AppendGeneral(out, value, DigitsFor(dtype));
  }
}

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

void AppendElement(std::string& out, DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kF32:
      AppendFloat(out, Load<float>(from));
      return;
    case DType::kF64:
      AppendDouble(out, Load<double>(from));
      return;
    case DType::kC64:
      out += '(';
      AppendFloat(out, Load<float>(from));
      out += ", ";
      AppendFloat(out, Load<float>(from + 4));
      out += ')';
      return;
    case DType::kC128:
      out += '(';
      AppendDouble(out, Load<double>(from));
      out += ", ";
      AppendDouble(out, Load<double>(from + 8));
      out += ')';
      return;
    case DType::kS64:
      AppendDigits(out, Load<int64_t>(from));
      return;
    case DType::kU64:
      AppendDigits(out, Load<uint64_t>(from));
      return;
    case DType::kS32:
      AppendDigits(out, Load<int32_t>(from));
      return;
    case DType::kU32:
      AppendDigits(out, Load<uint32_t>(from));
      return;
    case DType::kS16:
      AppendDigits(out, int{Load<int16_t>(from)});
      return;
    case DType::kU16:
      AppendDigits(out, int{Load<uint16_t>(from)});
      return;
    default:
      break;
  }
  if (IsFloat(dtype)) {
    AppendSmallFloat(out, dtype,
                     StorageBytes(dtype) == 1 ? Load<uint8_t>(from) : Load<uint16_t>(from));
  } else if (ClassOf(dtype) == DTypeClass::kSigned) {
    AppendDigits(out, int{Load<int8_t>(from)});
  } else {
    AppendDigits(out, int{Load<uint8_t>(from)});
  }
}

// Braces of dims [dim, rank), spaced as XLA spaces them.
class ArrayPrinter {
 public:
  ArrayPrinter(std::string& out, const Literal& literal)
      : out_(out),
        dtype_(literal.shape->dtype()),
        dims_(literal.shape->dims()),
        size_(static_cast<size_t>(StorageBytes(dtype_))),
        data_(literal.data.data()) {}

  // The braces of `dim`; `row` is their position in the dim before.
  void Print(size_t dim = 0, int64_t row = 0) {
    const size_t rank = dims_.size();
    const bool innermost = dim + 1 == rank;
    const int64_t count = dims_[dim];
    const bool spaced = rank > 1 && (!innermost || count > 1);
    out_ += spaced ? "{ " : "{";
    if (rank > 3 && dim > 0 && !innermost) {
      out_ += "/*i";
      AppendDigits(out_, dim - 1);
      out_ += '=';
      AppendDigits(out_, row);
      out_ += "*/ ";
    }
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0) out_ += ", ";
      if (innermost) {
        AppendElement(out_, dtype_, data_);
        data_ += size_;
      } else {
        Print(dim + 1, i);
      }
    }
    out_ += spaced ? " }" : "}";
  }

 private:
  std::string& out_;
  DType dtype_;
  std::span<const int64_t> dims_;
  size_t size_;
  const std::byte* data_;
};

}  // namespace

void AppendFloat(std::string& out, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) {
    AppendNan(out, std::signbit(value), bits & 0x7fffff, 0x400000);
  } else if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
  } else if (value == 0) {
    out += std::signbit(value) ? "-0.0" : "0";
  } else {
    AppendRoundTrip(out, static_cast<double>(value), 24, 6, 9);
  }
}

void AppendDouble(std::string& out, double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  if (std::isnan(value)) {
    AppendNan(out, std::signbit(value), bits & 0xfffffffffffff, 0x8000000000000);
  } else if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
  } else if (value == 0) {
    out += std::signbit(value) ? "-0.0" : "0";
  } else {
    AppendRoundTrip(out, value, 53, 15, 17);
  }
}

void AppendLiteral(std::string& out, const Literal& literal) {
  if (literal.elided) {
    out += "{...}";
  } else if (literal.shape->IsTuple()) {
    out += "( ";
    for (size_t i = 0; i < literal.elements.size(); ++i) {
      if (i > 0) out += ", ";
      AppendLiteral(out, *literal.elements[i]);
    }
    out += " )";
  } else if (!literal.shape->dims().empty()) {
    ArrayPrinter(out, literal).Print();
  } else if (literal.shape->dtype() == DType::kPred) {
    out += ElementAsInt64(literal, 0) != 0 ? "true" : "false";
  } else {
    AppendElement(out, literal.shape->dtype(), literal.data.data());
  }
}

}  // namespace gshard
