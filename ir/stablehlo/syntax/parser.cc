// Errors of the parser, and the entry to it.
#include "ir/stablehlo/syntax/parser.h"

#include <fmt/format.h>

namespace gshard::stablehlo {
namespace {

constexpr size_t kMaxNesting = 200;

}  // namespace

bool Parser::Fail(ParseError code, std::string_view view, std::string message, std::string hint) {
  return errors_.Fail(code, view, std::move(message), std::move(hint));
}

bool Parser::FailExpected(std::string_view expected, std::string hint) {
  if (lexer_.AtEnd()) {
    return errors_.Fail(ParseError::kTruncated, {lexer_.offset(), lexer_.offset()},
                        fmt::format("the text ends where {} is expected", expected),
                        std::move(hint));
  }
  const char* start = lexer_.position();
  if (lexer_.Identifier().empty()) lexer_.Advance();
  const std::string_view here = lexer_.Since(start);
  lexer_.set_position(start);
  const char c = here.front();
  if (c == '"' || ((c == '(' || c == '[' || c == '{' || c == '<') && lexer_.Balanced().empty() &&
                   expected.starts_with("'") == false)) {
    lexer_.set_position(start);
    if (c == '"' ? lexer_.String().empty() : true) {
      return Fail(ParseError::kTruncated, here,
                  c == '"' ? std::string("the string that starts here is not closed")
                           : fmt::format("this '{}' is not closed", c));
    }
    lexer_.set_position(start);
  }
  return Fail(ParseError::kSyntax, here, fmt::format("expected {}", expected), std::move(hint));
}

bool Parser::Expect(char c, std::string_view where) {
  if (lexer_.Consume(c)) return true;
  return FailExpected(fmt::format("'{}' {}", c, where));
}

bool Parser::Expect(std::string_view punctuation, std::string_view where) {
  if (lexer_.Consume(punctuation)) return true;
  return FailExpected(fmt::format("'{}' {}", punctuation, where));
}

bool Parser::TooDeep() {
  if (depth_ <= kMaxNesting) return false;
  FailExpected(fmt::format("at most {} levels of nesting", kMaxNesting));
  return true;
}

bool Parser::Parse() {
  while (!lexer_.AtEnd()) {
    if (!ParseTopLevel()) return false;
  }
  return true;
}

}  // namespace gshard::stablehlo
