// Cursor over HLO text: whitespace and comments, identifiers, numbers, strings, balanced brackets.
//
// Scannerless: the parser asks for what the grammar expects at the cursor, so that no token is
// classified twice. Every function that returns a view or number first skips whitespace and
// comments and leaves the cursor behind what it took. Nothing is copied. Tested by lexer_test.cc.
#ifndef GSHARD_IR_LEXER_H_
#define GSHARD_IR_LEXER_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "ir/diagnostic.h"

namespace gshard {

enum CharacterClass : uint8_t {
  kSpace = 1,
  kNameStart = 2,     // [A-Za-z_]
  kNameContinue = 4,  // [A-Za-z0-9_.-]
  kDigit = 8,
  kDelimiter = 16,  // brackets, quotes and what begins a comment
};
constexpr std::array<uint8_t, 256> MakeCharacterClasses() {
  std::array<uint8_t, 256> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') classes[c] |= kSpace;
    if (letter) classes[c] |= kNameStart;
    if (letter || digit || c == '.' || c == '-') classes[c] |= kNameContinue;
    if (digit) classes[c] |= kDigit;
    if (std::string_view("{}()[]\"'/").find(static_cast<char>(c)) != std::string_view::npos) {
      classes[c] |= kDelimiter;
    }
  }
  return classes;
}
inline constexpr std::array<uint8_t, 256> kCharacterClasses = MakeCharacterClasses();

inline bool HasClass(char c, uint8_t classes) {
  return (kCharacterClasses[static_cast<unsigned char>(c)] & classes) != 0;
}

class Lexer {
 public:
  // At most 4 GiB of text, which must outlive the lexer.
  explicit Lexer(std::string_view text) : Lexer(text, text) {}
  // Of a part of `text`; offsets count from the start of `text`.
  Lexer(std::string_view text, std::string_view part)
      : begin_(text.data()), p_(part.data()), end_(part.data() + part.size()) {}

  std::string_view text() const { return {begin_, static_cast<size_t>(end_ - begin_)}; }
  uint32_t offset() const { return static_cast<uint32_t>(p_ - begin_); }
  uint32_t OffsetOf(std::string_view view) const {
    return static_cast<uint32_t>(view.data() - begin_);
  }
  SourceRange RangeOf(std::string_view view) const {
    return {OffsetOf(view), OffsetOf(view) + static_cast<uint32_t>(view.size())};
  }
  const char* position() const { return p_; }
  void set_position(const char* p) { p_ = p; }
  const char* end() const { return end_; }
  size_t remaining() const { return static_cast<size_t>(end_ - p_); }
  // What was taken since `start`.
  std::string_view Since(const char* start) const {
    return {start, static_cast<size_t>(p_ - start)};
  }

  // An unclosed comment ends the text; the parser reports the place.
  void SkipSpace() {
    if (p_ < end_ && (HasClass(*p_, kSpace) || *p_ == '/')) SkipSpaceAndComments();
  }
  const char* unclosed_comment() const { return unclosed_comment_; }

  // The character at the cursor itself; NUL at the end.
  char Raw() const { return p_ < end_ ? *p_ : '\0'; }
  char RawAt(size_t i) const { return i < remaining() ? p_[i] : '\0'; }
  void Advance(size_t n = 1) { p_ += n; }
  // The next character of the grammar; NUL at the end.
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
    if (remaining() < punctuation.size() ||
        std::memcmp(p_, punctuation.data(), punctuation.size()) != 0) {
      return false;
    }
    p_ += punctuation.size();
    return true;
  }

  // [A-Za-z_][A-Za-z0-9_.-]*; empty if there is none.
  std::string_view Identifier() {
    SkipSpace();
    return p_ < end_ && HasClass(*p_, kNameStart) ? WhileClass(kNameContinue)
                                                  : std::string_view(p_, 0);
  }
  // The characters of these classes at the cursor itself.
  std::string_view WhileClass(uint8_t classes) {
    const char* start = p_;
    const char* p = start;  // p_ itself would be written at every step
    while (p < end_ && HasClass(*p, classes)) ++p;
    p_ = p;
    return Since(start);
  }
  // The keyword, if it is the next whole identifier.
  bool ConsumeWord(std::string_view word) {
    const char* start = p_;
    if (Identifier() == word) return true;
    p_ = start;
    return false;
  }

  enum class Number : uint8_t { kNone, kOk, kTooLarge };
  // -?[0-9]+ that fits int64.
  Number Integer(int64_t& value);

  // "..." or '...' with its quotes; empty if there is none or it is not closed (then
  // unclosed() tells where it began).
  std::string_view String();
  // From `{` to its matching `}`, the same with ( ) and [ ]. Brackets inside strings and comments
  // do not count. Empty if there is none or it is not closed.
  std::string_view Balanced();
  // As Balanced, but only braces and double-quoted strings are looked at (JSON and MLIR payloads).
  std::string_view JsonDict();
  // Where the bracket that the last call failed to close began, or a string inside it that is not
  // closed itself; null if there was none.
  const char* unclosed() const { return unclosed_; }

 protected:
  // Behind the string that starts at p; null if it is not closed.
  const char* BehindString(const char* p) const;

 private:
  void SkipSpaceAndComments();
  const char* BehindComment(const char* p) const;

  const char* begin_;
  const char* p_;
  const char* end_;
  const char* unclosed_ = nullptr;
  const char* unclosed_comment_ = nullptr;
};

}  // namespace gshard

#endif  // GSHARD_IR_LEXER_H_
