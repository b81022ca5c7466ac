// Lines of the user's program, and who called them.
#include "ir/source_lines.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/computation.h"
#include "ir/metadata.h"
#include "ir/parser.h"

namespace gshard {
namespace {

std::unique_ptr<Module> Parse(const std::string& tables, const std::string& metadata) {
  auto module = ParseModule(SourceText::FromString(
      "test.hlo",
      "HloModule m\n" + tables +
          "\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT y = f32[] negate(x), metadata={" +
          metadata + "}\n}\n"));
  REQUIRE(module);
  return std::move(*module);
}

const std::string kTables =
    "\nFileNames\n1 \"/home/me/train.py\"\n2 \"/home/me/layers.py\"\n"
    "\nFunctionNames\n1 \"main\"\n2 \"attention\"\n"
    "\nFileLocations\n1 {file_name_id=1 function_name_id=1 line=40 end_line=40 column=3 "
    "end_column=9}\n"
    "2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=3 end_column=9}\n"
    "\nStackFrames\n1 {file_location_id=1 parent_frame_id=1}\n"
    "2 {file_location_id=2 parent_frame_id=2}\n";

TEST_CASE("texts that say a line", "[ir][source]") {
  CHECK(ParseSourceLine("gpt.py:22").file == "gpt.py");
  CHECK(ParseSourceLine("gpt.py:22").line == 22);
  CHECK(ParseSourceLine("C:/gpt.py:22").file == "C:/gpt.py");
  for (const char* none : {"gpt.py", "gpt.py:", ":22", "gpt.py:0", "gpt.py:-1", "gpt.py:2x", ""}) {
    INFO(none);
    CHECK(ParseSourceLine(none).line == 0);
  }
}

TEST_CASE("files by their last parts", "[ir][source]") {
  CHECK(IsFile("/home/me/gpt.py", "gpt.py"));
  CHECK(IsFile("/home/me/gpt.py", "me/gpt.py"));
  CHECK(IsFile("gpt.py", "gpt.py"));
  CHECK(IsFile("/home/me/gpt.py", "/gpt.py"));
  CHECK_FALSE(IsFile("/home/me/mygpt.py", "gpt.py"));
  CHECK_FALSE(IsFile("/home/me/gpt.py", ""));
  CHECK_FALSE(IsFile("gpt.py", "me/gpt.py"));
}

TEST_CASE("without tables the metadata's own line", "[ir][source]") {
  const auto module = Parse("", "op_name=\"f\" source_file=\"gpt.py\" source_line=12");
  const auto lines = SourceLines(*module).Of(*module->entry()->root());
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].file == "gpt.py");
  CHECK(lines[0].line == 12);
  CHECK(SourceLines(*module).Of(*module->entry()->parameter(0)).empty());
}

TEST_CASE("a frame with the lines that called it, innermost first", "[ir][source]") {
  const auto module = Parse(kTables, "op_name=\"f\" stack_frame_id=2");
  const auto lines = SourceLines(*module).Of(*module->entry()->root());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].file == "/home/me/layers.py");
  CHECK(lines[0].line == 7);
  CHECK(lines[1].file == "/home/me/train.py");
  CHECK(lines[1].line == 40);
  // A number that no table has.
  const auto other = Parse(kTables, "op_name=\"f\" stack_frame_id=9");
  CHECK(SourceLines(*other).Of(*other->entry()->root()).empty());
}

TEST_CASE("the text of a line, read once or for one instruction", "[ir][source]") {
  const std::pair<const char*, const char*> kTexts[] = {
      {"stack_frame_id=2", "/home/me/layers.py:7"},
      {"stack_frame_id=1", "/home/me/train.py:40"},
      {"stack_frame_id=9", ""},
      {"source_file=\"gpt.py\" source_line=12", "gpt.py:12"},
      {"source_file=\"gpt.py\" source_line=12 stack_frame_id=2", "gpt.py:12"},
      {"source_file=\"gpt.py\"", "gpt.py"},
      {"op_name=\"f\"", ""},
  };
  for (const auto& [metadata, text] : kTexts) {
    INFO(metadata);
    const auto module = Parse(kTables, metadata);
    const Instruction& root = *module->entry()->root();
    CHECK(SourceLines(*module).TextOf(root) == text);
    CHECK(SourceLineOf(*module, root) == text);
  }
  std::string tables = kTables;
  tables.replace(tables.find("layers.py"), 9, "a \\\"b\\\".py");
  const auto module = Parse(tables, "stack_frame_id=2");
  CHECK(SourceLines(*module).TextOf(*module->entry()->root()) == "/home/me/a \"b\".py:7");
}

TEST_CASE("the user's line before the library's", "[ir][source]") {
  CHECK(IsLibraryFile("/usr/lib/python3.11/functools.py"));
  CHECK(IsLibraryFile("/home/me/.venv/lib/jax/core.py"));
  CHECK(IsLibraryFile("/opt/site-packages/optax/update.py"));
  CHECK_FALSE(IsLibraryFile("/home/me/venv_tools/train.py"));
  std::string tables = kTables;
  tables.replace(tables.find("/home/me/layers.py"), 18, "/x/site-packages/flax/layers.py");
  const auto module = Parse(tables, "op_name=\"f\" stack_frame_id=2");
  const Instruction& y = *module->entry()->root();
  CHECK(SourceLines(*module).TextOf(y) == "/home/me/train.py:40");
  CHECK(SourceLineOf(*module, y) == "/home/me/train.py:40");
  CHECK(SourceLines(*module).ShortTextOf(y) == "train.py:40");
}

TEST_CASE("short paths start where the user's files do", "[ir][source]") {
  std::string tables = kTables;
  tables.replace(tables.find("/home/me/layers.py"), 18, "/home/me/models/layers.py");
  const auto module = Parse(tables, "stack_frame_id=2");
  CHECK(SourceLines(*module).ShortTextOf(*module->entry()->root()) == "models/layers.py:7");
  const auto library =
      Parse("", "source_file=\"/x/site-packages/flax/layers.py\" source_line=3");
  CHECK(SourceLines(*library).ShortTextOf(*library->entry()->root()) == "flax/layers.py:3");
}

}  // namespace
}  // namespace gshard
