#include "ir/utf8.h"

#include <catch2/catch.hpp>

#include "ir/metadata.h"

namespace gshard {
namespace {

TEST_CASE("the first byte that is no UTF-8 is found", "[ir]") {
  const auto first = [](std::string_view text) { return FirstNotUtf8(text); };
  CHECK(first("") == 0);
  CHECK(first("all of this is plain text") == 25);
  CHECK(first("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") == 11);
  CHECK(first("plain text, then \x9c and more") == 17);
  CHECK(first("\xc0\xaf") == 0);            // overlong
  CHECK(first("a\xed\xa0\x80") == 1);       // a surrogate
  CHECK(first("ab\xf4\x90\x80\x80") == 2);  // beyond the last character
  CHECK(first("cut off: \xe2\x82") == 9);
}

TEST_CASE("what is no UTF-8 is escaped and reads back as it was", "[ir]") {
  std::string octal = "x\x9c\xa5 \xc3\xa9";
  EscapeNotUtf8(octal, ByteEscape::kOctal);
  CHECK(octal == "x\\234\\245 \xc3\xa9");
  std::string hex = "x\x9c\xa5";
  EscapeNotUtf8(hex, ByteEscape::kHex);
  CHECK(hex == "x\\9C\\A5");
  std::string escaped =
      "a\\\xff"
      "1";  // a byte behind a backslash is that byte
  EscapeNotUtf8(escaped, ByteEscape::kOctal);
  CHECK(escaped == "a\\3771");
  CHECK(Unquoted('"' + escaped + '"') ==
        "a\xff"
        "1");
  std::string two = "a\\\\\xff";  // a backslash, and then the byte
  EscapeNotUtf8(two, ByteEscape::kOctal);
  CHECK(two == "a\\\\\\377");
}

TEST_CASE("quoted text is UTF-8", "[ir]") {
  const std::string bytes("x\x9c\xa5\0\na\"b\\\xc3\xa9", 11);
  CHECK(Quoted(bytes) == "\"x\\234\\245\\000\\na\\\"b\\\\\xc3\xa9\"");
  CHECK(Unquoted(Quoted(bytes)) == bytes);
}

}  // namespace
}  // namespace gshard
