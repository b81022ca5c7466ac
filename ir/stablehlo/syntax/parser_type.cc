// Types of the parser: tensors, tuples, tokens.
#include <fmt/format.h>

#include <charconv>

#include "ir/stablehlo/syntax/parser.h"

namespace gshard::stablehlo {
namespace {

struct ElementType {
  std::string_view text;
  DType dtype;
};

// `index` counts dimensions; a 64-bit integer holds them.
constexpr ElementType kElementTypes[] = {
    {"f32", DType::kF32},
    {"i32", DType::kS32},
    {"i1", DType::kPred},
    {"bf16", DType::kBF16},
    {"ui32", DType::kU32},
    {"f16", DType::kF16},
    {"f64", DType::kF64},
    {"i64", DType::kS64},
    {"i8", DType::kS8},
    {"i16", DType::kS16},
    {"ui8", DType::kU8},
    {"ui16", DType::kU16},
    {"ui64", DType::kU64},
    {"complex<f32>", DType::kC64},
    {"complex<f64>", DType::kC128},
    {"i2", DType::kS2},
    {"i4", DType::kS4},
    {"ui2", DType::kU2},
    {"ui4", DType::kU4},
    {"f8E4M3FN", DType::kF8E4M3FN},
    {"f8E5M2", DType::kF8E5M2},
    {"f8E4M3", DType::kF8E4M3},
    {"f8E3M4", DType::kF8E3M4},
    {"f8E4M3B11FNUZ", DType::kF8E4M3B11FNUZ},
    {"f8E4M3FNUZ", DType::kF8E4M3FNUZ},
    {"f8E5M2FNUZ", DType::kF8E5M2FNUZ},
    {"f8E8M0FNU", DType::kF8E8M0FNU},
    {"f4E2M1FN", DType::kF4E2M1FN},
    {"f6E2M3FN", DType::kF6E2M3FN},
    {"f6E3M2FN", DType::kF6E3M2FN},
    {"index", DType::kS64},
};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && HasClass(text.front(), kSpace)) text.remove_prefix(1);
  while (!text.empty() && HasClass(text.back(), kSpace)) text.remove_suffix(1);
  return text;
}

}  // namespace

bool Parser::ReadElementType(std::string_view text, DType& dtype) {
  for (const ElementType& row : kElementTypes) {
    if (row.text != text) continue;
    dtype = row.dtype;
    return true;
  }
  if (text.starts_with("!quant")) {
    return Fail(ParseError::kShape, text, "quantized tensors are not read",
                "lower them first: stablehlo-opt --stablehlo-legalize-quant-to-math");
  }
  return Fail(ParseError::kShape, text, fmt::format("'{}' is no element type", text));
}

// #stablehlo.bounds<8, ?>: what the dynamic dims are bounded by.
bool Parser::ReadEncoding(std::string_view text, std::vector<int64_t>& dims,
                          std::vector<uint8_t>& dynamic) {
  constexpr std::string_view kForms[] = {"#stablehlo.bounds<", "#mhlo.type_extensions<bounds = ["};
  for (const std::string_view bounds : kForms) {
    if (!text.starts_with(bounds)) continue;
    Lexer lexer(errors_.text(), text.substr(bounds.size()));
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t bound = 0;
      if (i > 0 && !lexer.Consume(',')) break;
      if (lexer.Consume('?')) continue;
      if (!lexer.Integer(bound) || bound < 0) break;
      if (dynamic[i] != 0) dims[i] = bound;
    }
    return lexer.Peek() == '>' || lexer.Peek() == ']' ||
           Fail(ParseError::kShape, text, "the bounds do not fit the tensor's dims");
  }
  // Other encodings speak of layouts and origins: nothing of the values.
  return true;
}

// `inner`: what stands between the angle brackets of `tensor<..>`.
bool Parser::ReadTensorType(std::string_view inner, const Shape*& type) {
  std::vector<int64_t> dims;
  std::vector<uint8_t> dynamic;
  bool is_dynamic = false;
  std::string_view rest = Trimmed(inner);
  while (!rest.empty() && (HasClass(rest[0], kDigit) || rest[0] == '?')) {
    int64_t dim = Shape::kUnbounded;
    size_t length = 1;
    if (rest[0] != '?') {
      const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), dim);
      if (result.ec != std::errc()) {
        return Fail(ParseError::kNumberRange, rest.substr(0, rest.find('x')),
                    "this dim does not fit 64 bits");
      }
      length = static_cast<size_t>(result.ptr - rest.data());
    }
    if (rest.size() <= length || rest[length] != 'x') {
      return Fail(ParseError::kShape, rest, "a dim of a tensor type is followed by 'x'");
    }
    dims.push_back(dim);
    dynamic.push_back(rest[0] == '?' ? 1 : 0);
    is_dynamic = is_dynamic || rest[0] == '?';
    rest.remove_prefix(length + 1);
  }
  const size_t comma = rest.find(',');
  const std::string_view element = Trimmed(rest.substr(0, comma));
  DType dtype = DType::kF32;
  if (element.empty())
    return Fail(ParseError::kShape, inner, "this tensor type has no element type");
  if (!ReadElementType(element, dtype)) return false;
  if (comma != rest.npos && !ReadEncoding(Trimmed(rest.substr(comma + 1)), dims, dynamic)) {
    return false;
  }
  type =
      context_.Array(dtype, dims, nullptr,
                     is_dynamic ? std::span<const uint8_t>(dynamic) : std::span<const uint8_t>());
  return true;
}

bool Parser::ParseTensorType(const Shape*& type) {
  const char* start = lexer_.position();
  lexer_.Advance(6);  // tensor
  const std::string_view brackets = lexer_.Balanced();
  if (brackets.empty()) return FailExpected("'<' of a tensor type");
  const std::string_view text = lexer_.Since(start);
  if (const auto it = type_of_.find(text); it != type_of_.end()) {
    type = it->second;
    return true;
  }
  if (!ReadTensorType(brackets.substr(1, brackets.size() - 2), type)) return false;
  type_of_.emplace(text, type);
  return true;
}

bool Parser::ParseType(const Shape*& type) {
  lexer_.SkipSpace();
  if (lexer_.Rest().starts_with("tensor<")) return ParseTensorType(type);
  const char* start = lexer_.position();
  if (lexer_.Consume("tuple<")) {
    ++depth_;
    std::vector<const Shape*> elements;
    const bool ok = !TooDeep() && ParseTypeList(elements, '>');
    --depth_;
    if (ok) type = context_.Tuple(elements);
    return ok;
  }
  if (lexer_.Consume("!stablehlo.token") || lexer_.Consume("!mhlo.token")) {
    type = context_.Token();
    return true;
  }
  lexer_.Consume('!');
  const std::string_view word = lexer_.Identifier();
  const std::string_view text = lexer_.Since(start);
  if (word.empty()) {
    lexer_.set_position(start);
    return FailExpected("a type");
  }
  lexer_.Balanced();
  return Fail(ParseError::kShape, text, fmt::format("values of the type '{}' are not read", text),
              "tensors, tuples and tokens are");
}

// Up to `close`, which is taken.
bool Parser::ParseTypeList(std::vector<const Shape*>& types, char close) {
  if (lexer_.Consume(close)) return true;
  do {
    const Shape* type = nullptr;
    if (!ParseType(type)) return false;
    types.push_back(type);
  } while (lexer_.Consume(','));
  return Expect(close, "after the types");
}

bool Parser::ParseTypes(std::vector<const Shape*>& operands, std::vector<const Shape*>& results) {
  if (lexer_.Consume('(')) {
    if (!ParseTypeList(operands, ')')) return false;
  } else {
    do {
      const Shape* type = nullptr;
      if (!ParseType(type)) return false;
      operands.push_back(type);
    } while (lexer_.Consume(','));
    if (!lexer_.Consume("->")) {
      results.swap(operands);
      return true;
    }
    if (lexer_.Consume('(')) return ParseTypeList(results, ')');
    return ParseType(results.emplace_back());
  }
  if (!Expect("->", "of a function type")) return false;
  if (lexer_.Consume('(')) return ParseTypeList(results, ')');
  return ParseType(results.emplace_back());
}

}  // namespace gshard::stablehlo
