// What a CHECK directive says of one line of output, in FileCheck's words:
//
//   plain text        holds literally, anywhere in the line
//   {{regex}}         RE2
//   [[NAME:regex]]    RE2; what it matched is NAME from the next directive on
//   [[NAME]]          what NAME was
//
// A pattern that could not do what it says (an expression that RE2 refuses, a brace never closed)
// is not made: Parse says what is wrong with it.

#pragma once

#include <re2/re2.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace gshard::golden {

using Variables = std::map<std::string, std::string>;

class LinePattern {
 public:
  // False, and `problem` says why, if `text` is no pattern.
  static bool Parse(const std::string& text, LinePattern* pattern, std::string* problem);

  const std::string& text() const { return text_; }
  const std::set<std::string>& defines() const { return defines_; }
  const std::set<std::string>& uses() const { return uses_; }
  // Holds of every line: such a check can not fail.
  bool HoldsOfEmptyLine() const;

  // The pattern with the present values of the variables that it uses; all of them must have one.
  std::string Regex(const Variables& values) const;

 private:
  struct Piece {
    enum Kind { kText, kRegex, kDefinition, kUse } kind = kText;
    std::string text;  // literal text, expression
    std::string name;  // of a definition, of a use
  };

  std::string text_;
  std::vector<Piece> pieces_;
  std::set<std::string> defines_, uses_;
};

// Whether `regex`, made by LinePattern::Regex, holds of `line`; its definitions go to `values`.
bool Holds(const RE2& regex, const std::string& line, Variables* values);

}  // namespace gshard::golden
