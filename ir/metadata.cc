#include "ir/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/lexer.h"
#include "ir/utf8.h"

namespace gshard {
namespace {

// Calls `field(name, value)` for each name=value of "{..}"; values verbatim.
template <typename Field>
void ForEachField(std::string_view text, Field&& field) {
  Lexer lexer(text);
  if (!lexer.Consume('{')) return;
  while (!lexer.AtEnd() && lexer.Peek() != '}') {
    if (lexer.Consume(',')) continue;
    const std::string_view name = lexer.Identifier();
    if (name.empty() || !lexer.Consume('=')) return;
    std::string_view value;
    const char c = lexer.Peek();
    if (c == '"' || c == '\'') {
      value = lexer.String();
    } else if (c == '{') {
      value = lexer.JsonDict();
    } else {
      value = lexer.WhileClass(kNameContinue);
    }
    if (value.empty()) return;
    field(name, value);
  }
}

int64_t ToInt(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

void ForEachTableRow(std::string_view tables, std::string_view table,
                     const std::function<bool(int64_t, std::string_view)>& visit) {
  const size_t begin = tables.find(table);
  if (begin == tables.npos) return;
  Lexer lexer(tables.substr(begin + table.size()));
  while (HasClass(lexer.Peek(), kDigit)) {
    int64_t number = 0;
    if (lexer.Integer(number) != Lexer::Number::kOk) return;
    const std::string_view row = lexer.Peek() == '{' ? lexer.Balanced() : lexer.String();
    if (row.empty() || !visit(number, row)) return;
  }
}

int64_t IntegerField(std::string_view text, std::string_view name) {
  int64_t result = 0;
  ForEachField(text, [&](std::string_view field, std::string_view value) {
    if (field == name) result = ToInt(value);
  });
  return result;
}

std::pair<int64_t, int64_t> IntegerFields(std::string_view text, std::string_view first,
                                          std::string_view second) {
  std::pair<int64_t, int64_t> result;
  ForEachField(text, [&](std::string_view field, std::string_view value) {
    if (field == first) result.first = ToInt(value);
    if (field == second) result.second = ToInt(value);
  });
  return result;
}

OpMetadata ParseMetadata(std::string_view text) {
  OpMetadata metadata;
  ForEachField(text, [&](std::string_view name, std::string_view value) {
    if (name == "op_type") {
      metadata.op_type = Unquoted(value);
    } else if (name == "op_name") {
      metadata.op_name = Unquoted(value);
    } else if (name == "source_file") {
      metadata.source_file = Unquoted(value);
    } else if (name == "source_line") {
      metadata.source_line = ToInt(value);
    } else if (name == "stack_frame_id") {
      metadata.stack_frame_id = ToInt(value);
    }
  });
  return metadata;
}

std::string OpNameOf(const Instruction& instruction) {
  std::string op_name;
  ForEachField(instruction.metadata(), [&](std::string_view name, std::string_view value) {
    if (name == "op_name") op_name = Unquoted(value);
  });
  return op_name;
}

std::string WrittenSourceLine(const OpMetadata& metadata) {
  return metadata.source_line > 0 && !metadata.source_file.empty()
             ? fmt::format("{}:{}", metadata.source_file, metadata.source_line)
             : metadata.source_file;
}

std::vector<std::pair<std::string_view, std::string_view>> ParseFrontendAttributes(
    std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> attributes;
  attributes.reserve(4);  // more are rare
  ForEachField(text, [&](std::string_view name, std::string_view value) {
    attributes.emplace_back(name, value);
  });
  return attributes;
}

std::string FrontendAttribute(std::string_view text, std::string_view key) {
  std::string result;
  ForEachField(text, [&](std::string_view name, std::string_view value) {
    if (name == key) result = Unquoted(value);
  });
  return result;
}

std::string_view WithFrontendAttribute(Arena& arena, std::string_view text, std::string_view key,
                                       std::string_view value) {
  const std::string quoted = Quoted(value);
  if (text.empty()) return arena.Copy(fmt::format("{{{}={}}}", key, quoted));
  auto attributes = ParseFrontendAttributes(text);
  std::erase_if(attributes, [&](const auto& attribute) { return attribute.first == key; });
  attributes.emplace_back(key, quoted);
  std::stable_sort(attributes.begin(), attributes.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string result = "{";
  for (const auto& [name, written] : attributes) {
    if (result.size() > 1) result += ',';
    result.append(name).append(1, '=').append(written);
  }
  result += '}';
  return arena.Copy(std::string_view(result));
}

std::string Quoted(std::string_view text) {
  std::string result = "\"";
  result.reserve(text.size() + 2);
  auto is_plain = [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
  };
  size_t done = 0;  // most text has nothing to escape: it is taken in runs
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      if (const size_t length = Utf8Length(text, i); length > 0) {
        i += length - 1;
        continue;
      }
    } else if (is_plain(c)) {
      continue;
    }
    result.append(text, done, i - done);
    done = i + 1;
    switch (c) {
      case '"':
        result += "\\\"";
        break;
      case '\\':
        result += "\\\\";
        break;
      case '\n':
        result += "\\n";
        break;
      case '\t':
        result += "\\t";
        break;
      case '\r':
        result += "\\r";
        break;
      default:
        result += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    }
  }
  result.append(text, done, text.size() - done);
  return result += '"';
}

std::string Unquoted(std::string_view text) {
  if (text.size() >= 2 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0]) {
    text = text.substr(1, text.size() - 2);
  }
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    const char c = text[++i];
    if (c >= '0' && c <= '7') {
      int value = 0;
      size_t digits = 0;
      for (; digits < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++digits, ++i) {
        value = value * 8 + (text[i] - '0');
      }
      --i;
      result += static_cast<char>(value);
    } else if (c == 'x' || c == 'X') {
      int value = 0;
      const char* begin = text.data() + i + 1;
      const auto parsed =
          std::from_chars(begin, begin + std::min<size_t>(2, text.size() - i - 1), value, 16);
      i += static_cast<size_t>(parsed.ptr - begin);
      result += static_cast<char>(value);
    } else {
      constexpr std::string_view kLetters = "abfnrtv";
      constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v";
      const size_t letter = kLetters.find(c);
      result += letter == kLetters.npos ? c : kMeanings[letter];
    }
  }
  return result;
}

}  // namespace gshard
