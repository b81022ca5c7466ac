#include "ir/input/cut_text.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "ir/lexer.h"
#include "ir/parser_errors.h"
#include "ir/stablehlo/reader.h"

namespace gshard {
namespace {

// Is a brace or a string open at the end of the text? Comments start with // in both languages.
bool EndsOpen(std::string_view text) {
  int64_t open = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '{':
        ++open;
        break;
      case '}':
        --open;
        break;
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) {
          if (text[i] == '\\') ++i;
        }
        if (i >= text.size()) return true;
        break;
      case '/':
        if (text.substr(i).starts_with("//")) i = std::min(text.find('\n', i), text.size());
        break;
      default:
        break;
    }
  }
  return open > 0;
}

bool LacksHeader(std::string_view text) {
  Lexer lexer(text);
  return !lexer.ConsumeWord("HloModule") && !stablehlo::IsMlirText(text);
}

void AddHint(Diagnostic& error, const std::string& hint) {
  error.hint = error.hint.empty() ? hint : hint + " " + error.hint;
}

}  // namespace

Diagnostic NamedAsCut(Diagnostic error, const SourceText& source) {
  const std::string_view text = source.text();
  const size_t last = text.find_last_not_of(" \t\r\n");
  if (last == text.npos || error.line == 0) return error;
  const auto lines =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(last), '\n');
  const bool at_end = static_cast<std::ptrdiff_t>(error.line) >= lines;
  if (at_end && (error.code == CodeOf(ParseError::kTruncated) || EndsOpen(text))) {
    AddHint(error, "the text breaks off here: is the file cut short?");
  } else if ((error.code == CodeOf(ParseError::kUnknownComputation) ||
              error.code == CodeOf(ParseError::kSharding)) &&
             LacksHeader(text)) {
    AddHint(error, "the text has no 'HloModule' line: was its beginning lost?");
  }
  return error;
}

}  // namespace gshard
