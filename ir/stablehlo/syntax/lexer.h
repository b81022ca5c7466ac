// Cursor over MLIR text: spaces and comments, identifiers, value names, strings, raw attribute
// values. Scannerless as ir/lexer.h: the parser asks for what may stand at the cursor. Nothing is
// copied; calls that find nothing return an empty view and stay where they were.
#ifndef GSHARD_IR_STABLEHLO_SYNTAX_LEXER_H_
#define GSHARD_IR_STABLEHLO_SYNTAX_LEXER_H_

#include <cstdint>
#include <string_view>

#include "ir/lexer.h"

namespace gshard::stablehlo {

class Lexer {
 public:
  // A part of `text`, which must outlive the lexer; offsets count from the start of `text`.
  Lexer(std::string_view text, std::string_view part)
      : begin_(text.data()), p_(part.data()), end_(part.data() + part.size()) {}
  explicit Lexer(std::string_view text) : Lexer(text, text) {}

  uint32_t offset() const { return static_cast<uint32_t>(p_ - begin_); }
  SourceRange RangeOf(std::string_view view) const {
    const auto begin = static_cast<uint32_t>(view.data() - begin_);
    return {begin, begin + static_cast<uint32_t>(view.size())};
  }
  const char* position() const { return p_; }
  void set_position(const char* p) { p_ = p; }
  std::string_view Since(const char* start) const {
    return {start, static_cast<size_t>(p_ - start)};
  }
  std::string_view Rest() const { return {p_, static_cast<size_t>(end_ - p_)}; }

  void SkipSpace() {
    while (p_ < end_ && (HasClass(*p_, kSpace) || *p_ == '/')) {
      if (*p_ == '/' && !SkipComment()) return;
      if (p_ < end_ && HasClass(*p_, kSpace)) ++p_;
    }
  }
  char Raw(size_t i = 0) const { return i < static_cast<size_t>(end_ - p_) ? p_[i] : '\0'; }
  void Advance(size_t n = 1) { p_ += n; }
  char Peek() {
    SkipSpace();
    return Raw();
  }
  bool AtEnd() {
    SkipSpace();
    return p_ == end_;
  }
  bool Consume(char c) {
    if (Peek() != c || p_ == end_) return false;
    ++p_;
    return true;
  }
  bool Consume(std::string_view punctuation) {
    SkipSpace();
    if (!Rest().starts_with(punctuation)) return false;
    p_ += punctuation.size();
    return true;
  }

  // [A-Za-z_][A-Za-z0-9_$.]*
  std::string_view Identifier();
  bool ConsumeWord(std::string_view word);
  // What follows '%', '@', '#', '^' or '!' directly: [A-Za-z0-9_$.-]+
  std::string_view Suffix();
  // -?[0-9]+ of 64 bits.
  bool Integer(int64_t& value);
  // With its quotes.
  std::string_view String();
  // From an opening bracket ( [ { < to its partner. Strings and "->" inside are passed over.
  std::string_view Balanced();
  // The value of an attribute in a dictionary or list: up to a ',' or closing bracket outside of
  // brackets.
  std::string_view Element();

 private:
  bool SkipComment();
  const char* BehindString(const char* p) const;  // null: not closed
  // From `p` to the first character of `stops` or closing bracket outside of brackets.
  const char* Scan(const char* p, bool stop_behind_first_bracket) const;

  const char* begin_;
  const char* p_;
  const char* end_;
};

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_SYNTAX_LEXER_H_
