#include "ir/stablehlo/syntax/lexer.h"

#include <charconv>
#include <cstring>

namespace gshard::stablehlo {
namespace {

bool IsSuffix(char c) { return HasClass(c, kNameContinue) || c == '$'; }
bool IsWord(char c) { return c != '-' && IsSuffix(c); }

}  // namespace

bool Lexer::SkipComment() {
  if (Raw(1) != '/') return false;
  const void* newline = std::memchr(p_, '\n', static_cast<size_t>(end_ - p_));
  p_ = newline != nullptr ? static_cast<const char*>(newline) : end_;
  return true;
}

std::string_view Lexer::Identifier() {
  SkipSpace();
  const char* start = p_;
  if (p_ < end_ && HasClass(*p_, kNameStart)) {
    do ++p_;
    while (p_ < end_ && IsWord(*p_));
  }
  return Since(start);
}

bool Lexer::ConsumeWord(std::string_view word) {
  const char* start = p_;
  if (Identifier() == word) return true;
  p_ = start;
  return false;
}

std::string_view Lexer::Suffix() {
  const char* start = p_;
  while (p_ < end_ && IsSuffix(*p_)) ++p_;
  // "%0-> .." is no name with a dash.
  if (p_ < end_ && *p_ == '>' && p_ > start && p_[-1] == '-') --p_;
  return Since(start);
}

bool Lexer::Integer(int64_t& value) {
  SkipSpace();
  const auto result = std::from_chars(p_, end_, value);
  if (result.ec != std::errc()) return false;
  p_ = result.ptr;
  return true;
}

const char* Lexer::BehindString(const char* p) const {
  for (++p; p < end_; ++p) {
    const auto* quote =
        static_cast<const char*>(std::memchr(p, '"', static_cast<size_t>(end_ - p)));
    if (quote == nullptr) return nullptr;
    // A quote behind an odd number of backslashes is part of the string.
    const char* slash = quote;
    while (slash > p && slash[-1] == '\\') --slash;
    if ((quote - slash) % 2 == 0) return quote + 1;
    p = quote;
  }
  return nullptr;
}

std::string_view Lexer::String() {
  SkipSpace();
  if (Raw() != '"') return {};
  const char* behind = BehindString(p_);
  if (behind == nullptr) return {};
  const std::string_view text(p_, static_cast<size_t>(behind - p_));
  p_ = behind;
  return text;
}

const char* Lexer::Scan(const char* p, bool stop_behind_first_bracket) const {
  size_t depth = 0;
  while (p < end_) {
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
        if (p + 1 < end_ && p[1] == '>') ++p;
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
        if (p + 1 < end_ && p[1] == '/') {
          while (p < end_ && *p != '\n') ++p;
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
  const char* behind = Scan(p_, /*stop_behind_first_bracket=*/true);
  if (behind == nullptr) return {};
  const std::string_view text(p_, static_cast<size_t>(behind - p_));
  p_ = behind;
  return text;
}

std::string_view Lexer::Element() {
  SkipSpace();
  const char* behind = Scan(p_, /*stop_behind_first_bracket=*/false);
  if (behind == nullptr) return {};
  std::string_view text(p_, static_cast<size_t>(behind - p_));
  p_ = behind;
  while (!text.empty() && HasClass(text.back(), kSpace)) text.remove_suffix(1);
  return text;
}

}  // namespace gshard::stablehlo
