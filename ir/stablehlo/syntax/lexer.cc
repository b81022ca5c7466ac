#include "ir/stablehlo/syntax/lexer.h"

namespace gshard::stablehlo {
namespace {

bool IsSuffix(char c) { return HasClass(c, kNameContinue) || c == '$'; }
bool IsWord(char c) { return c != '-' && IsSuffix(c); }

}  // namespace

std::string_view Lexer::Identifier() {
  SkipSpace();
  const char* start = position();
  const char* p = start;
  if (HasClass(Raw(), kNameStart)) {
    do ++p;
    while (p < end() && IsWord(*p));
  }
  set_position(p);
  return Since(start);
}

bool Lexer::ConsumeWord(std::string_view word) {
  const char* start = position();
  if (Identifier() == word) return true;
  set_position(start);
  return false;
}

std::string_view Lexer::Suffix() {
  const char* start = position();
  const char* p = start;
  while (p < end() && IsSuffix(*p)) ++p;
  // "%0-> .." is no name with a dash.
  if (p < end() && *p == '>' && p > start && p[-1] == '-') --p;
  set_position(p);
  return Since(start);
}

const char* Lexer::Scan(const char* p, bool stop_behind_first_bracket) const {
  size_t depth = 0;
  while (p < end()) {
    switch (*p) {
      case '"':
        p = BehindString(p);
        if (p == nullptr) return nullptr;
        continue;
      case '(':
      case '[':
      case '{':
      case '<':
        ++depth;
        break;
      case '-':
        if (p + 1 < end() && p[1] == '>') ++p;
        break;
      case ')':
      case ']':
      case '}':
      case '>':
        if (depth == 0) return p;
        if (--depth == 0 && stop_behind_first_bracket) return p + 1;
        break;
      case ',':
        if (depth == 0) return p;
        break;
      case '/':
        if (p + 1 < end() && p[1] == '/') {
          while (p < end() && *p != '\n') ++p;
          continue;
        }
        break;
      default:
        break;
    }
    ++p;
  }
  return depth == 0 && !stop_behind_first_bracket ? p : nullptr;
}

std::string_view Lexer::Balanced() {
  const char open = Peek();
  if (open != '(' && open != '[' && open != '{' && open != '<') return {};
  const char* start = position();
  const char* behind = Scan(start, /*stop_behind_first_bracket=*/true);
  if (behind == nullptr) return {};
  set_position(behind);
  return Since(start);
}

std::string_view Lexer::Element() {
  SkipSpace();
  const char* start = position();
  const char* behind = Scan(start, /*stop_behind_first_bracket=*/false);
  if (behind == nullptr) return {};
  set_position(behind);
  std::string_view text = Since(start);
  while (!text.empty() && HasClass(text.back(), kSpace)) text.remove_suffix(1);
  return text;
}

}  // namespace gshard::stablehlo
