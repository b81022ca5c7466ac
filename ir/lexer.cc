#include "ir/lexer.h"

#include <limits>

namespace gshard {
namespace {

const char* FindByte(const char* p, const char* end, char c) {
  return static_cast<const char*>(std::memchr(p, c, static_cast<size_t>(end - p)));
}

}  // namespace

const char* Lexer::BehindComment(const char* p) const {
  if (end_ - p < 2) return nullptr;
  if (p[1] == '/') {
    const char* newline = FindByte(p, end_, '\n');
    return newline == nullptr ? end_ : newline;
  }
  for (p += 2; (p = FindByte(p, end_, '*')) != nullptr;) {
    ++p;
    if (p < end_ && *p == '/') return p + 1;
  }
  return nullptr;
}

void Lexer::SkipSpaceAndComments() {
  while (p_ < end_) {
    if (HasClass(*p_, kSpace)) {
      ++p_;
    } else if (*p_ == '/' && end_ - p_ >= 2 && (p_[1] == '*' || p_[1] == '/')) {
      const char* behind = BehindComment(p_);
      if (behind == nullptr) {
        unclosed_comment_ = p_;
        p_ = end_;
        return;
      }
      p_ = behind;
    } else {
      return;
    }
  }
}

Lexer::Number Lexer::Integer(int64_t& value) {
  SkipSpace();
  const char* p = p_;
  const bool negative = p < end_ && *p == '-';
  if (negative) ++p;
  if (p == end_ || !HasClass(*p, kDigit)) return Number::kNone;
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  const uint64_t limit = negative ? kMax + 1 : kMax;
  uint64_t magnitude = 0;
  bool too_large = false;
  for (; p < end_ && HasClass(*p, kDigit); ++p) {
    const auto digit = static_cast<uint64_t>(*p - '0');
    if (magnitude > (limit - digit) / 10) too_large = true;
    if (!too_large) magnitude = magnitude * 10 + digit;
  }
  if (too_large) return Number::kTooLarge;
  value = static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  p_ = p;
  return Number::kOk;
}

const char* Lexer::BehindString(const char* p) const {
  const char quote = *p;
  const char* start = p + 1;
  for (const char* from = start;;) {
    const char* close = FindByte(from, end_, quote);
    if (close == nullptr) return nullptr;
    // The quote counts unless an odd number of backslashes stands before it.
    const char* backslash = close;
    while (backslash > start && backslash[-1] == '\\') --backslash;
    if ((close - backslash) % 2 == 0) return close + 1;
    from = close + 1;
  }
}

std::string_view Lexer::String() {
  SkipSpace();
  unclosed_ = nullptr;
  if (p_ == end_ || (*p_ != '"' && *p_ != '\'')) return {};
  const char* start = p_;
  const char* behind = BehindString(p_);
  if (behind == nullptr) {
    unclosed_ = start;
    return {};
  }
  p_ = behind;
  return Since(start);
}

std::string_view Lexer::Balanced() {
  SkipSpace();
  unclosed_ = nullptr;
  if (p_ == end_) return {};
  const char open = *p_;
  if (open != '{' && open != '(' && open != '[') return {};
  const char close = open == '(' ? ')' : static_cast<char>(open + 2);
  const char* start = p_;
  const char* inner = start;
  size_t depth = 0;
  for (const char* p = p_; p != nullptr && p < end_;) {
    const char c = *p;
    if (!HasClass(c, kDelimiter)) {
      ++p;
    } else if (c == open) {
      ++depth;
      ++p;
    } else if (c == close) {
      ++p;
      if (--depth == 0) {
        p_ = p;
        return Since(start);
      }
    } else if (c == '"' || c == '\'') {
      inner = p;
      p = BehindString(p);
      if (p != nullptr) inner = start;
    } else if (c == '/' && end_ - p >= 2 && (p[1] == '*' || p[1] == '/')) {
      p = BehindComment(p);
    } else {
      ++p;
    }
  }
  unclosed_ = inner;
  return {};
}

std::string_view Lexer::JsonDict() {
  SkipSpace();
  unclosed_ = nullptr;
  if (p_ == end_ || *p_ != '{') return {};
  const char* start = p_;
  const char* inner = start;
  size_t depth = 0;
  for (const char* p = p_; p != nullptr && p < end_;) {
    const char c = *p;
    if (c == '{') {
      ++depth;
      ++p;
    } else if (c == '}') {
      ++p;
      if (--depth == 0) {
        p_ = p;
        return Since(start);
      }
    } else if (c == '"') {
      inner = p;
      p = BehindString(p);
      if (p != nullptr) inner = start;
    } else {
      ++p;
    }
  }
  unclosed_ = inner;
  return {};
}

}  // namespace gshard
