#include "ir/lexer.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

namespace gshard {
namespace {

TEST_CASE("space and comments separate, and only that", "[ir][lexer]") {
  Lexer lexer(" \t\r\n/* a * b */// c\n  x /**/y/*/**/z //");
  CHECK(lexer.Identifier() == "x");
  CHECK(lexer.Identifier() == "y");
  CHECK(lexer.Identifier() == "z");
  CHECK(lexer.AtEnd());
  CHECK(lexer.unclosed_comment() == nullptr);
  Lexer open("a /* b *");
  CHECK(open.Identifier() == "a");
  CHECK(open.AtEnd());
  REQUIRE(open.unclosed_comment() != nullptr);
  CHECK(open.unclosed_comment() - open.text().data() == 2);
  Lexer slash("/ x");
  CHECK(slash.Peek() == '/');
  CHECK_FALSE(slash.AtEnd());
}

TEST_CASE("identifiers and keywords", "[ir][lexer]") {
  Lexer lexer("all-reduce.1_x(ROOTED ROOT 1a");
  CHECK(lexer.Identifier() == "all-reduce.1_x");
  CHECK(lexer.Identifier().empty());
  CHECK(lexer.Consume('('));
  CHECK_FALSE(lexer.ConsumeWord("ROOT"));
  CHECK(lexer.Identifier() == "ROOTED");
  CHECK(lexer.ConsumeWord("ROOT"));
  CHECK(lexer.Identifier().empty());
  CHECK(lexer.Peek() == '1');
}

TEST_CASE("integers of 64 bits", "[ir][lexer]") {
  const auto read = [](std::string_view text, int64_t expected) {
    Lexer lexer(text);
    int64_t value = 0;
    CHECK(lexer.Integer(value) == Lexer::Number::kOk);
    CHECK(value == expected);
  };
  read("0", 0);
  read("-7x", -7);
  read(" 007", 7);
  read("9223372036854775807", std::numeric_limits<int64_t>::max());
  read("-9223372036854775808", std::numeric_limits<int64_t>::min());
  const auto result = [](std::string_view text) {
    Lexer lexer(text);
    int64_t value = 0;
    return lexer.Integer(value);
  };
  CHECK(result("9223372036854775808") == Lexer::Number::kTooLarge);
  CHECK(result("-9223372036854775809") == Lexer::Number::kTooLarge);
  CHECK(result(std::string(1000, '9')) == Lexer::Number::kTooLarge);
  CHECK(result("") == Lexer::Number::kNone);
  CHECK(result("-") == Lexer::Number::kNone);
  CHECK(result("- 1") == Lexer::Number::kNone);
  CHECK(result("+1") == Lexer::Number::kNone);
}

TEST_CASE("strings end at the first quote that is not escaped", "[ir][lexer]") {
  Lexer lexer(R"("" 'it"s' "a\"b" "c\\" "d\\\"e" 'f\'')");
  CHECK(lexer.String() == R"("")");
  CHECK(lexer.String() == R"('it"s')");
  CHECK(lexer.String() == R"("a\"b")");
  CHECK(lexer.String() == R"("c\\")");
  CHECK(lexer.String() == R"("d\\\"e")");
  CHECK(lexer.String() == R"('f\'')");
  CHECK(lexer.String().empty());
  CHECK(lexer.unclosed() == nullptr);
  Lexer open(R"( "abc\")");
  CHECK(open.String().empty());
  REQUIRE(open.unclosed() != nullptr);
  CHECK(open.unclosed() - open.text().data() == 1);
}

TEST_CASE("balanced brackets skip strings and comments", "[ir][lexer]") {
  Lexer lexer(R"({a="}" /* } */ {b='}'}} ([]) [x{] rest)");
  CHECK(lexer.Balanced() == R"({a="}" /* } */ {b='}'}})");
  CHECK(lexer.Balanced() == "([])");
  CHECK(lexer.Balanced() == "[x{]");
  CHECK(lexer.Balanced().empty());
  CHECK(lexer.Identifier() == "rest");
  // Where the bracket began, or the string inside that hides its end.
  Lexer bracket("{ {}");
  CHECK(bracket.Balanced().empty());
  CHECK(*bracket.unclosed() == '{');
  Lexer string("{ \"}");
  CHECK(string.Balanced().empty());
  CHECK(*string.unclosed() == '"');
}

TEST_CASE("dictionaries see braces and double quotes only", "[ir][lexer]") {
  Lexer lexer(R"({it's = "}", [(, /*} }x)");
  CHECK(lexer.JsonDict() == R"({it's = "}", [(, /*})");
  Lexer nested(R"({x = 1 : i64, y = {"{\"": 2}}})");
  CHECK(nested.JsonDict() == R"({x = 1 : i64, y = {"{\"": 2}})");
}

}  // namespace
}  // namespace gshard
