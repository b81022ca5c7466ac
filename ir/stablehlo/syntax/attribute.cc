#include "ir/stablehlo/syntax/attribute.h"

#include <bit>
#include <charconv>
#include <cstring>

#include "ir/stablehlo/syntax/hex_blob.h"
#include "ir/stablehlo/syntax/lexer.h"

namespace gshard::stablehlo {
namespace {

// What stands before " : type".
std::string_view WithoutType(std::string_view text) {
  Lexer lexer(text);
  if (lexer.Peek() == '"') return lexer.String();
  return text.substr(0, text.find(" :"));
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The bits of the type name at the end of "tensor<2x4xi64>" or of "array<i64: ..".
int IntegerBits(std::string_view type) {
  if (type == "i1") return 8;
  const size_t digits = type.find_first_of("0123456789");
  int bits = 64;
  if (digits != type.npos) std::from_chars(type.data() + digits, type.data() + type.size(), bits);
  return bits == 8 || bits == 16 || bits == 32 ? bits : 64;
}

bool ReadBlob(std::string_view quoted, int bits, size_t count, std::vector<int64_t>& values) {
  std::vector<std::byte> bytes;
  if (!DecodeHexBlob(quoted, bytes)) return false;
  const size_t width = static_cast<size_t>(bits) / 8;
  if (bytes.size() % width != 0) return false;
  for (size_t i = 0; i < bytes.size(); i += width) {
    int64_t value = 0;
    std::memcpy(&value, bytes.data() + i, width);
    const int unused = 64 - bits;
    values.push_back(static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused);
  }
  if (values.size() == 1 && count <= 4'000'000) values.resize(count, values[0]);
  return values.size() == count;
}

}  // namespace

bool ReadInteger(std::string_view text, int64_t& value) {
  text = WithoutType(text);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool ReadNumber(std::string_view text, double& value) {
  text = WithoutType(text);
  if (text.starts_with("0x")) {
    uint64_t bits = 0;
    const auto hex = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    if (hex.ec != std::errc()) return false;
    if (text.size() > 10) {
      value = std::bit_cast<double>(bits);
    } else {
      value = static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
    return true;
  }
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool ReadBoolean(std::string_view text, bool& value) {
  text = WithoutType(text);
  value = text != "false" && text != "0";
  return text.empty() || text == "true" || text == "1" || !value;
}

bool ReadString(std::string_view text, std::string& value) {
  text = WithoutType(text);
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return false;
  text = text.substr(1, text.size() - 2);
  value.clear();
  for (size_t i = 0; i < text.size();) {
    // Most text has nothing escaped: it is taken in runs. A backslash at the end is one.
    const size_t escape = text.find('\\', i);
    if (escape == std::string_view::npos || escape + 1 == text.size()) {
      value.append(text.substr(i));
      break;
    }
    value.append(text.substr(i, escape - i));
    const char next = text[escape + 1];
    const int high = HexDigit(next);
    const int low = escape + 2 < text.size() ? HexDigit(text[escape + 2]) : -1;
    i = escape + 2;
    if (next == 'n' || next == 't') {
      value += next == 'n' ? '\n' : '\t';
    } else if (high >= 0 && low >= 0) {
      value += static_cast<char>(high * 16 + low);
      ++i;
    } else {
      value += next;
    }
  }
  return true;
}

std::string_view WordOf(std::string_view text) {
  while (!text.empty() && (text.back() == '>' || text.back() == ' ')) text.remove_suffix(1);
  size_t begin = text.size();
  while (begin > 0 && (HasClass(text[begin - 1], kNameContinue))) --begin;
  return text.substr(begin);
}

bool SplitList(std::string_view text, std::vector<std::string_view>& elements) {
  Lexer lexer(text);
  if (!lexer.Consume('[')) return false;
  if (lexer.Consume(']')) return true;
  do {
    const std::string_view element = lexer.Element();
    if (element.empty()) return false;
    elements.push_back(element);
  } while (lexer.Consume(','));
  return lexer.Consume(']');
}

bool SplitFields(std::string_view text, std::vector<NamedAttribute>& fields) {
  Lexer lexer(text);
  if (lexer.Consume('#')) lexer.Suffix();
  char close = '>';
  if (lexer.Consume('{')) {
    close = '}';
  } else if (!lexer.Consume('<')) {
    return false;
  }
  if (lexer.Consume(close)) return true;
  do {
    NamedAttribute field;
    if (lexer.Peek() == '"') {
      field.key = lexer.String();
      if (field.key.size() >= 2) field.key = field.key.substr(1, field.key.size() - 2);
    } else {
      field.key = lexer.Identifier();
    }
    if (field.key.empty()) return false;
    if (lexer.Consume('=')) {
      field.value = lexer.Element();
      if (field.value.empty()) return false;
    }
    fields.push_back(field);
  } while (lexer.Consume(','));
  return lexer.Consume(close);
}

std::string_view FieldOf(std::span<const NamedAttribute> fields, std::string_view key) {
  for (const NamedAttribute& field : fields) {
    if (field.key == key) return field.value;
  }
  return {};
}

bool ReadIntegers(std::string_view text, std::vector<int64_t>& values, std::vector<int64_t>* dims) {
  Lexer lexer(text);
  int bits = 64;
  std::vector<int64_t> type_dims;
  size_t count = 0;
  bool dense = false;
  if (lexer.Consume("array<")) {
    lexer.Identifier();
    if (lexer.Consume('>')) return true;
    if (!lexer.Consume(':')) return false;
  } else if (lexer.Consume("dense<")) {
    dense = true;
    const size_t type_at = text.rfind("tensor<");
    if (type_at == text.npos) return false;
    std::string_view type = text.substr(type_at + 7);
    type = type.substr(0, type.find('>'));
    count = 1;
    for (size_t x = type.find('x'); x != type.npos; x = type.find('x')) {
      int64_t dim = 0;
      if (std::from_chars(type.data(), type.data() + x, dim).ptr != type.data() + x) break;
      if (dim < 0 || dim > 4'000'000) return false;
      type_dims.push_back(dim);
      count *= static_cast<size_t>(dim);
      if (count > 4'000'000) return false;
      type.remove_prefix(x + 1);
    }
    bits = IntegerBits(type);
    if (dims != nullptr) *dims = type_dims;
    if (lexer.Peek() == '"') return ReadBlob(lexer.String(), bits, count, values);
  } else if (lexer.Peek() != '[') {
    return false;
  }
  // Whatever the brackets: the numbers in their order.
  int depth = 0;
  while (!lexer.AtEnd()) {
    int64_t value = 0;
    if (lexer.Consume('[')) {
      ++depth;
    } else if (lexer.Consume(']')) {
      --depth;
      if (depth == 0 && !dense) break;
    } else if (lexer.Consume('>')) {
      break;
    } else if (lexer.ConsumeWord("true")) {
      values.push_back(1);
    } else if (lexer.ConsumeWord("false")) {
      values.push_back(0);
    } else if (lexer.Integer(value)) {
      values.push_back(value);
      if (lexer.Peek() == ':') {  // [1 : i64, ..]
        lexer.Advance();
        lexer.Identifier();
      }
    } else if (!lexer.Consume(',')) {
      return false;
    }
  }
  if (!dense) {
    if (dims != nullptr) *dims = {static_cast<int64_t>(values.size())};
    return true;
  }
  if (values.size() == 1) values.resize(count, values[0]);
  return values.size() == count;
}

}  // namespace gshard::stablehlo
