// Shapes in text; every distinct text of an array shape is parsed once.
#include <fmt/format.h>

#include <limits>

#include "ir/module_parser.h"

namespace gshard {
namespace {

constexpr size_t kMaxRank = 1024;

}  // namespace

bool ModuleParser::AtShapeBody(std::string_view identifier) {
  return lexer_.Raw() == '[' || (identifier == "b" && lexer_.Raw() == '(');
}

Expected<const Shape*> ModuleParser::ParseLoneShape() {
  const Shape* shape = nullptr;
  if (ParseShape(shape) && (lexer_.AtEnd() || FailExpected("the end of the shape"))) return shape;
  CheckInternal(error_.has_value(), "the parser failed without an error");
  return gshard::Fail(*std::move(error_));
}

bool ModuleParser::ParseShape(const Shape*& shape) {
  if (lexer_.Peek() == '(') return ParseTupleShape(shape);
  const std::string_view type = lexer_.Identifier();
  if (type.empty()) return FailExpected("a shape");
  if (!AtShapeBody(type)) {
    lexer_.set_position(type.data());
    return FailExpected("a shape, such as f32[8,16]{1,0}");
  }
  return ParseArrayShape(type, shape);
}

bool ModuleParser::ParseTupleShape(const Shape*& shape) {
  const Open open(this, "tuple shape");
  if (open.TooDeep()) return false;
  lexer_.Advance();  // (
  const size_t first = shapes_.size();
  if (!lexer_.Consume(')')) {
    do {
      const Shape* element = nullptr;
      if (!ParseShape(element)) return false;
      shapes_.push_back(element);
    } while (lexer_.Consume(','));
    if (!Expect(')', "at the end of a tuple shape")) return false;
  }
  shape = context_->Tuple(std::span<const Shape* const>(shapes_).subspan(first));
  shapes_.resize(first);
  return true;
}

// Finds where the shape's text ends, and looks it up.
bool ModuleParser::ParseArrayShape(std::string_view type, const Shape*& shape) {
  const char* const body = lexer_.position();
  const char* const end = lexer_.end();
  const char* p = body;
  if (*p == '[') {
    do ++p;
    while (p < end && *p != ']' && *p != '\n');
    if (p < end && *p == ']') {
      ++p;
      // A brace opens a layout only before a number, ':' or in "{}" of nothing else.
      bool is_whole = true;
      if (end - p >= 2 && *p == '{' && (HasClass(p[1], kDigit) || p[1] == ':')) {
        while (p < end && *p != '}' && *p != '\n') ++p;
        is_whole = p < end && *p == '}';
        if (is_whole) ++p;
      }
      const std::string_view text(type.data(), static_cast<size_t>(p - type.data()));
      if (const auto it = shape_of_.find(text); is_whole && it != shape_of_.end()) {
        shape = it->second;
        lexer_.set_position(p);
        return true;
      }
    }
  }
  if (!ParseNewArrayShape(type, shape)) return false;
  shape_of_.emplace(lexer_.Since(type.data()), shape);
  return true;
}

bool ModuleParser::ParseNewArrayShape(std::string_view type, const Shape*& shape) {
  if (type == "b" && lexer_.Raw() == '(') {
    const Open open(this, "buffer shape");
    if (open.TooDeep()) return false;
    lexer_.Advance();
    const Shape* element = nullptr;
    if (!ParseShape(element) || !Expect(')', "at the end of a buffer shape")) return false;
    shape = context_->Buffer(element);
    return true;
  }
  const std::optional<DType> dtype = DTypeFromName(type);
  if (!dtype.has_value()) {
    NearestWord nearest(type);
    for (int i = 0; i < kDTypeCount; ++i) nearest.Offer(DTypeName(static_cast<DType>(i)));
    return FailAt(ParseError::kShape, type, fmt::format("unknown element type '{}'", type),
                  nearest.Hint());
  }
  const Open open(this, "shape");
  lexer_.Advance();  // [
  const size_t first = integers_.size();
  std::vector<uint8_t> dynamic;
  bool any_dynamic = false;
  if (!lexer_.Consume(']')) {
    do {
      if (lexer_.Consume('?')) {
        integers_.push_back(Shape::kUnbounded);
        dynamic.push_back(1);
        any_dynamic = true;
        continue;
      }
      const bool bounded = lexer_.Consume("<=");
      any_dynamic |= bounded;
      dynamic.push_back(bounded ? 1 : 0);
      int64_t size = 0;
      lexer_.SkipSpace();
      const char* start = lexer_.position();
      if (!ParseInt(size, "a dimension")) return false;
      if (size < 0) {
        return FailAt(ParseError::kShape, lexer_.Since(start), "a dimension cannot be negative");
      }
      integers_.push_back(size);
      if (integers_.size() - first > kMaxRank) {
        return FailAt(ParseError::kShape, lexer_.Since(start),
                      fmt::format("more than {} dimensions", kMaxRank));
      }
    } while (lexer_.Consume(','));
    if (!Expect(']', "at the end of the dimensions")) return false;
  }
  const auto dims = std::span<const int64_t>(integers_).subspan(first);
  int64_t count = 1;
  bool zero = false;
  bool overflow = false;
  for (int64_t size : dims) {
    if (size == 0) zero = true;
    if (size > 0 && __builtin_mul_overflow(count, size, &count)) overflow = true;
  }
  const int64_t bytes_each = DTypeBits(*dtype) / 8 + 1;
  if (!zero && (overflow || count > std::numeric_limits<int64_t>::max() / bytes_each)) {
    return FailAt(ParseError::kNumberRange, lexer_.Since(type.data()),
                  "a shape of more bytes than 64 bits can count");
  }
  if (!IsArrayType(*dtype)) {
    if (!dims.empty()) {
      return FailAt(ParseError::kShape, lexer_.Since(type.data()),
                    fmt::format("{} has no dimensions", type));
    }
    shape = *dtype == DType::kToken ? context_->Token() : context_->Opaque();
    return true;
  }
  const Layout* layout = nullptr;
  if (lexer_.Raw() == '{' && (HasClass(lexer_.RawAt(1), kDigit) || lexer_.RawAt(1) == ':')) {
    if (!ParseLayout(static_cast<int64_t>(dims.size()), layout)) return false;
  }
  shape = context_->Array(*dtype, std::span<const int64_t>(integers_).subspan(first, dims.size()),
                          layout, any_dynamic ? dynamic : std::vector<uint8_t>{});
  integers_.resize(first);
  return true;
}

// {1,0:T(8,128)S(1)}
bool ModuleParser::ParseLayout(int64_t rank, const Layout*& layout) {
  const char* start = lexer_.position();
  const std::string_view text = lexer_.Balanced();
  if (text.empty()) return FailUnclosed("a layout");
  const char* end = lexer_.position();
  lexer_.set_position(start + 1);
  const size_t first = integers_.size();
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  if (lexer_.Peek() != ':') {
    do {
      int64_t dim = 0;
      if (!ParseInt(dim, "a dimension number")) return false;
      if (dim < 0 || dim >= rank || seen[static_cast<size_t>(dim)]) {
        return FailAt(ParseError::kShape, text,
                      fmt::format("the layout is not an order of the {} dimensions", rank));
      }
      seen[static_cast<size_t>(dim)] = true;
      integers_.push_back(dim);
    } while (lexer_.Consume(','));
  }
  if (integers_.size() - first != static_cast<size_t>(rank)) {
    return FailAt(
        ParseError::kShape, text,
        fmt::format("the layout names {} dimensions of {}", integers_.size() - first, rank));
  }
  std::string_view tail;
  if (lexer_.Consume(':')) {
    tail = {lexer_.position(), static_cast<size_t>(end - 1 - lexer_.position())};
    lexer_.set_position(end);
  } else if (!Expect('}', "at the end of the layout")) {
    return false;
  }
  layout = context_->InternLayout(std::span<const int64_t>(integers_).subspan(first), tail);
  integers_.resize(first);
  return true;
}

Expected<const Shape*> ParseShape(std::shared_ptr<Context> context, std::string_view text) {
  return ModuleParser(SourceText::FromString("shape", std::string(text)), std::move(context))
      .ParseLoneShape();
}

}  // namespace gshard
