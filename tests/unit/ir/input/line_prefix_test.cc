// What stands before every line of a program that was copied out of something.
#include "ir/input/line_prefix.h"

#include <catch2/catch.hpp>
#include <string>

namespace gshard {
namespace {

// The prefix's length in `line`, found in a program whose lines begin with these.
size_t LengthAfter(const std::string& first, const std::string& second, const std::string& third,
                   const std::string& fourth, const std::string& line) {
  const std::string text = first + "HloModule m\n" + second + "ENTRY e {\n" + third +
                           "  ROOT x = f32[] parameter(0)\n" + fourth + "}\n";
  return LinePrefix::Find(text).LengthIn(line);
}

TEST_CASE("a prefix is the same on every line but for digits", "[ir][input]") {
  CHECK(LengthAfter("[0]: ", "[0]: ", "[0]: ", "[0]: ", "[0]: x") == 5);
  CHECK(LengthAfter("> ", "> ", "> ", "> ", "> x") == 2);
  CHECK(LengthAfter("12:01:09 INFO ", "12:01:10 INFO ", "12:01:10 INFO ", "12:02:11 INFO ",
                    "23:59:59 INFO x") == 14);
  // Numbers of lines stand to the right, and have more digits later.
  CHECK(LengthAfter("  8  ", "  9  ", " 10  ", " 11  ", "100  x") == 5);
}

TEST_CASE("what does not stand before every line is no prefix", "[ir][input]") {
  CHECK(LengthAfter("", "", "", "", "x") == 0);
  CHECK(LengthAfter("result: ", "", "", "", "result: x") == 0);
  CHECK(LengthAfter("[0]: ", "[0]: ", "[0] ", "[0]: ", "[0]: x") == 0);
  CHECK(LengthAfter("   ", "   ", "   ", "   ", "   x") == 0);  // indented
  CHECK(LinePrefix::Find("").LengthIn("x") == 0);
  CHECK(LinePrefix::Find("> HloModule m").LengthIn("> x") == 0);  // nothing to compare with
}

TEST_CASE("lines that begin otherwise have no prefix", "[ir][input]") {
  CHECK(LengthAfter("[0]: ", "[0]: ", "[0]: ", "[0]: ", "[x]: y") == 0);
  CHECK(LengthAfter("[0]: ", "[0]: ", "[0]: ", "[0]: ", "[0") == 0);
  // An empty line has lost the blank.
  CHECK(LengthAfter("[0]: ", "[0]: ", "[0]: ", "[0]: ", "[0]:") == 4);
}

}  // namespace
}  // namespace gshard
