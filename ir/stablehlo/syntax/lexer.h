// Cursor over MLIR text: spaces and comments, identifiers, value names, strings, raw attribute
// values. Scannerless as ir/lexer.h: the parser asks for what may stand at the cursor. Nothing is
// copied; calls that find nothing return an empty view and stay where they were.
#ifndef GSHARD_IR_STABLEHLO_SYNTAX_LEXER_H_
#define GSHARD_IR_STABLEHLO_SYNTAX_LEXER_H_

#include <cstdint>
#include <string_view>

#include "ir/lexer.h"

namespace gshard::stablehlo {

// The cursor of HLO text with MLIR's words, brackets and values.
class Lexer : public gshard::Lexer {
 public:
  using gshard::Lexer::Lexer;

  std::string_view Rest() const { return {position(), remaining()}; }

  // [A-Za-z_][A-Za-z0-9_$.]*
  std::string_view Identifier();
  bool ConsumeWord(std::string_view word);
  // What follows '%', '@', '#', '^' or '!' directly: [A-Za-z0-9_$.-]+
  std::string_view Suffix();
  // -?[0-9]+ of 64 bits.
  bool Integer(int64_t& value) { return gshard::Lexer::Integer(value) == Number::kOk; }
  // With its quotes, which are double.
  std::string_view String() { return Peek() == '"' ? gshard::Lexer::String() : std::string_view(); }
  // From an opening bracket ( [ { < to its partner. Strings and "->" inside are passed over.
  std::string_view Balanced();
  // The value of an attribute in a dictionary or list: up to a ',' or closing bracket outside of
  // brackets.
  std::string_view Element();

 private:
  // From `p` to the first character of `stops` or closing bracket outside of brackets.
  const char* Scan(const char* p, bool stop_behind_first_bracket) const;
};

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_SYNTAX_LEXER_H_
