// Literals in text; linear in their length, whatever the shape claims.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/literal.h"
#include "ir/module_parser.h"

namespace gshard {
namespace {

constexpr const char* kLoneValueHint =
    "a splat is a broadcast of a scalar; XLA's parser takes a lone value for the first element and "
    "makes the others zero";

template <typename T>
void StoreValue(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

// A decimal number that from_chars found out of the range of double: did it underflow?
bool IsTiny(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const size_t exponent_at = text.find_first_of("eE");
  int64_t exponent = 0;
  if (exponent_at != text.npos) {
    std::string_view digits = text.substr(exponent_at + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    // Saturates far outside the range of double.
    if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec ==
        std::errc::result_out_of_range) {
      return digits.starts_with('-');
    }
    text = text.substr(0, exponent_at);
  }
  const size_t point = std::min(text.find('.'), text.size());
  const size_t first = text.find_first_of("123456789");
  if (first == text.npos) return true;
  const auto scale = static_cast<int64_t>(point) - static_cast<int64_t>(first);
  return scale + exponent < 0;
}

}  // namespace

// Reads elements of one type into consecutive bytes.
class LiteralReader {
 public:
  LiteralReader(Lexer& lexer, DType dtype) : lexer_(lexer), dtype_(dtype) {}

  // False: `message` says why, `begin` where; an empty message means that no value was found.
  bool Read(std::byte* to) {
    lexer_.SkipSpace();
    begin = lexer_.position();
    switch (ClassOf(dtype_)) {
      case DTypeClass::kPredicate:
        return ReadPred(to);
      case DTypeClass::kSigned:
      case DTypeClass::kUnsigned:
        return ReadInteger(to);
      case DTypeClass::kFloat:
        return ReadFloat(dtype_, to);
      default:
        return ReadComplex(to);
    }
  }

  const char* begin = nullptr;
  std::string message;

 private:
  bool OutOfRange() {
    const char* end = lexer_.position();
    while (end < lexer_.end() && HasClass(*end, kNameContinue)) ++end;
    message =
        fmt::format("{} is out of the range of {}",
                    std::string_view(begin, static_cast<size_t>(end - begin)), DTypeName(dtype_));
    return false;
  }

  bool ReadPred(std::byte* to) {
    const std::string_view word = lexer_.Identifier();
    int64_t value = 0;
    if (word == "true") {
      value = 1;
    } else if (!word.empty()) {
      if (word != "false") {
        lexer_.set_position(begin);
        return false;
      }
    } else if (lexer_.Integer(value) == Lexer::Number::kNone) {
      return false;
    }
    StoreValue<uint8_t>(to, value != 0 ? 1 : 0);
    return true;
  }

  bool ReadInteger(std::byte* to) {
    int64_t value = 0;
    const Lexer::Number result = lexer_.Integer(value);
    if (result == Lexer::Number::kNone) return false;
    if (lexer_.Raw() == '.' || lexer_.Raw() == 'e') {
      message = fmt::format("{} takes whole numbers only", DTypeName(dtype_));
      return false;
    }
    const int bits = DTypeBits(dtype_);
    if (dtype_ == DType::kU64) {
      uint64_t unsigned_value = static_cast<uint64_t>(value);
      if (result == Lexer::Number::kTooLarge) {
        const auto parsed = std::from_chars(begin, lexer_.end(), unsigned_value);
        if (parsed.ec != std::errc()) return OutOfRange();
        lexer_.set_position(parsed.ptr);
      } else if (value < 0) {
        return OutOfRange();
      }
      StoreValue(to, unsigned_value);
      return true;
    }
    if (result == Lexer::Number::kTooLarge) return OutOfRange();
    if (ClassOf(dtype_) == DTypeClass::kSigned) {
      const int64_t largest = std::numeric_limits<int64_t>::max() >> (64 - bits);
      if (value > largest || value < -largest - 1) return OutOfRange();
    } else if (value < 0 || value >> bits != 0) {
      return OutOfRange();
    }
    switch (StorageBytes(dtype_)) {
      case 1:
        StoreValue(to, static_cast<uint8_t>(value));
        break;
      case 2:
        StoreValue(to, static_cast<uint16_t>(value));
        break;
      case 4:
        StoreValue(to, static_cast<uint32_t>(value));
        break;
      default:
        StoreValue(to, value);
    }
    return true;
  }

  bool ReadComplex(std::byte* to) {
    const DType part = dtype_ == DType::kC64 ? DType::kF32 : DType::kF64;
    const char* open = begin;
    if (!lexer_.Consume('(')) {
      message = fmt::format("a {} is written (real, imaginary)", DTypeName(dtype_));
      return false;
    }
    if (!ReadPart(part, to) || !lexer_.Consume(',') || !ReadPart(part, to + StorageBytes(part)) ||
        !lexer_.Consume(')')) {
      if (message.empty()) {
        message = fmt::format("a {} is written (real, imaginary)", DTypeName(dtype_));
        begin = open;
      }
      return false;
    }
    return true;
  }
  bool ReadPart(DType part, std::byte* to) {
    lexer_.SkipSpace();
    begin = lexer_.position();
    return ReadFloat(part, to);
  }

  bool ReadFloat(DType dtype, std::byte* to) {
    const bool negative = lexer_.Raw() == '-';
    const char first = lexer_.RawAt(negative ? 1 : 0);
    if (first == 'n' || first == 'i') return ReadSpecial(dtype, negative, to);
    if (!HasClass(first, kDigit) && !(negative && first == '.')) return false;
    double value = 0;
    const auto result = std::from_chars(begin, lexer_.end(), value);
    if (result.ec == std::errc::invalid_argument) return false;
    lexer_.set_position(result.ptr);
    const std::string_view text = lexer_.Since(begin);
    if (result.ec == std::errc::result_out_of_range) {
      if (!IsTiny(text)) return OutOfRange();
      value = negative ? -0.0 : 0.0;
    }
    // What looks like an integer is one: it has no negative zero.
    if (value == 0 && negative && text.find_first_of(".eE") == text.npos) value = 0;
    switch (dtype) {
      case DType::kF32: {
        const auto narrowed = static_cast<float>(value);
        if (std::isinf(narrowed)) return OutOfRange();
        StoreValue(to, narrowed);
        return true;
      }
      case DType::kF64:
        StoreValue(to, value);
        return true;
      default: {
        const uint16_t bits = EncodeSmallFloat(dtype, value);
        if (!std::isfinite(DecodeSmallFloat(dtype, bits))) return OutOfRange();
        StoreSmall(dtype, bits, to);
        return true;
      }
    }
  }

  static void StoreSmall(DType dtype, uint16_t bits, std::byte* to) {
    if (StorageBytes(dtype) == 1) {
      StoreValue(to, static_cast<uint8_t>(bits));
    } else {
      StoreValue(to, bits);
    }
  }

  // inf, nan, nan(0x7), after an optional minus.
  bool ReadSpecial(DType dtype, bool negative, std::byte* to) {
    if (negative) lexer_.Advance();
    const char* word_begin = lexer_.position();
    while (HasClass(lexer_.Raw(), kNameStart)) lexer_.Advance();
    const std::string_view word = lexer_.Since(word_begin);
    if (word != "inf" && word != "nan") {
      lexer_.set_position(begin);
      return false;
    }
    uint64_t payload = 0;
    bool has_payload = false;
    if (word == "nan" && lexer_.Raw() == '(' && lexer_.RawAt(1) == '0' && lexer_.RawAt(2) == 'x') {
      const auto parsed = std::from_chars(lexer_.position() + 3, lexer_.end(), payload, 16);
      if (parsed.ec != std::errc() || parsed.ptr == lexer_.end() || *parsed.ptr != ')') {
        message = "a NaN payload is written nan(0x7)";
        return false;
      }
      lexer_.set_position(parsed.ptr + 1);
      has_payload = true;
    }
    const double value = word == "inf" ? std::numeric_limits<double>::infinity()
                                       : std::numeric_limits<double>::quiet_NaN();
    const double signed_value = std::copysign(value, negative ? -1.0 : 1.0);
    const int mantissa_bits = dtype == DType::kF64      ? 52
                              : dtype == DType::kF32    ? 23
                              : dtype == DType::kF16    ? 10
                              : dtype == DType::kBF16   ? 7
                              : dtype == DType::kF8E5M2 ? 2
                              : dtype == DType::kF8E4M3 ? 3
                              : dtype == DType::kF8E3M4 ? 4
                                                        : 0;
    if (has_payload && (payload == 0 || payload >> mantissa_bits != 0)) {
      message = mantissa_bits == 0
                    ? fmt::format("{} has no NaN payloads", DTypeName(dtype))
                    : fmt::format("the NaN payload does not fit {}", DTypeName(dtype));
      return false;
    }
    if (dtype == DType::kF32) {
      uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(signed_value));
      if (has_payload) bits = (bits & 0xff800000) | static_cast<uint32_t>(payload);
      StoreValue(to, bits);
    } else if (dtype == DType::kF64) {
      uint64_t bits = std::bit_cast<uint64_t>(signed_value);
      if (has_payload) bits = (bits & 0xfff0000000000000) | payload;
      StoreValue(to, bits);
    } else {
      uint16_t bits = EncodeSmallFloat(dtype, signed_value);
      if (has_payload) {
        const auto mask = static_cast<uint16_t>((1 << mantissa_bits) - 1);
        bits = static_cast<uint16_t>((bits & ~mask) | payload);
      }
      StoreSmall(dtype, bits, to);
    }
    return true;
  }

  Lexer& lexer_;
  DType dtype_;
};

bool ModuleParser::ParseLiteral(const Shape* shape, const Literal*& literal) {
  lexer_.SkipSpace();
  const Open open(this, "literal");
  if (open.TooDeep()) return false;
  const char* start = lexer_.position();
  if (shape->IsArray() || shape->IsTuple()) {
    if (lexer_.Consume('{') && lexer_.Consume("...")) {
      if (!Expect('}', "after '...'")) return false;
      literal = module_->arena().New<Literal>(
          Literal{.shape = shape, .elided = true, .data = {}, .elements = {}});
      return true;
    }
    lexer_.set_position(start);
  }
  if (shape->IsArray()) return ParseArrayLiteral(shape, literal);
  if (!shape->IsTuple()) {
    return FailAt(ParseError::kLiteral, {start, lexer_.remaining() > 0 ? size_t{1} : size_t{0}},
                  fmt::format("{} has no literals", ToString(shape)));
  }
  if (!Expect('(', "before the elements of a tuple literal")) return false;
  const auto elements = module_->arena().NewSpan<const Literal*>(shape->elements().size());
  for (size_t i = 0; i < elements.size(); ++i) {
    lexer_.Consume(',');
    if (!ParseLiteral(shape->elements()[i], elements[i])) return false;
  }
  if (!Expect(')', "after the elements of a tuple literal")) return false;
  literal = module_->arena().New<Literal>(
      Literal{.shape = shape, .elided = false, .data = {}, .elements = elements});
  return true;
}

bool ModuleParser::ParseArrayLiteral(const Shape* shape, const Literal*& literal) {
  const size_t rank = shape->dims().size();
  const auto count = static_cast<size_t>(shape->element_count());
  const auto size = static_cast<size_t>(StorageBytes(shape->dtype()));
  const char* start = lexer_.position();
  if (std::ranges::find(shape->dims(), Shape::kUnbounded) != shape->dims().end()) {
    return FailAt(ParseError::kLiteral, {start, 1}, "a literal cannot have an unbounded dimension");
  }
  lexer_.SkipSpace();
  if (rank > 0 && !lexer_.AtEnd() && lexer_.Peek() != '{') {
    return FailExpected("'{' of dimension 0 of a literal", kLoneValueHint);
  }
  // Every element takes a byte of text and, but for the last, one between it and the next.
  if (count > lexer_.remaining() / 2 + 1) {
    return FailAt(ParseError::kLiteral, {start, lexer_.remaining() > 0 ? size_t{1} : size_t{0}},
                  fmt::format("{} needs {} values; the text left is too short for them",
                              ToString(shape, /*layouts=*/false), count));
  }
  auto* data =
      static_cast<std::byte*>(module_->arena().Allocate(std::max<size_t>(count * size, 1), 16));
  LiteralReader reader(lexer_, shape->dtype());
  auto read = [&](std::byte* to) {
    if (reader.Read(to)) return true;
    if (reader.message.empty()) {
      return FailExpected(fmt::format("a value of type {}", DTypeName(shape->dtype())));
    }
    const char* end = std::max(lexer_.position(), reader.begin + 1);
    return FailAt(ParseError::kLiteral, {reader.begin, static_cast<size_t>(end - reader.begin)},
                  reader.message);
  };

  if (rank == 0) {
    if (!read(data)) return false;
  } else {
    // `index[d]` of the elements of dim d are read; braces are open for dims 0..depth-1.
    std::vector<int64_t> index(rank, 0);
    std::byte* to = data;
    size_t depth = 0;
    do {
      lexer_.SkipSpace();
      if (depth > 0) {
        while (lexer_.Consume(',')) {
        }
        if (lexer_.Peek() == '}') {
          const int64_t expected = shape->dim(static_cast<int64_t>(depth) - 1);
          if (index[depth - 1] != expected) {
            return FailAt(
                ParseError::kLiteral, {lexer_.position(), 1},
                fmt::format("dimension {} of {} needs {} elements, but has {}", depth - 1,
                            ToString(shape, /*layouts=*/false), expected, index[depth - 1]));
          }
          lexer_.Advance();
          --depth;
          continue;
        }
        if (index[depth - 1] == shape->dim(static_cast<int64_t>(depth) - 1)) {
          if (lexer_.AtEnd()) return FailExpected("'}' of a literal");
          return Fail(ParseError::kLiteral, HereRange(),
                      fmt::format("dimension {} of {} has only {} elements", depth - 1,
                                  ToString(shape, /*layouts=*/false), index[depth - 1]));
        }
        ++index[depth - 1];
      }
      if (depth < rank) {
        if (!lexer_.Consume('{')) {
          return FailExpected(fmt::format("'{{' of dimension {} of a literal", depth));
        }
        index[depth++] = 0;
      } else {
        if (!read(to)) return false;
        to += size;
      }
    } while (depth > 0);
  }
  literal = module_->arena().New<Literal>(
      Literal{.shape = shape, .elided = false, .data = {data, count * size}, .elements = {}});
  return true;
}

}  // namespace gshard
