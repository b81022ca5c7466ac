#include "ir/source_text.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/unit/temporary_folder.h"

namespace gshard {
namespace {

std::string RenderAt(const SourceText& source, uint32_t begin, uint32_t end) {
  return Render(source.Locate({begin, end}, Severity::kError, "E-TEST-001", "wrong"));
}

TEST_CASE("diagnostics show the line and a caret", "[ir][diagnostic]") {
  const auto source = SourceText::FromString("m.hlo", "first\nsecond line\nlast");
  CHECK(RenderAt(*source, 13, 17) ==
        "m.hlo:2:8: error: wrong [E-TEST-001]\n"
        "  second line\n"
        "         ^~~~\n");
  CHECK(RenderAt(*source, 0, 0) == "m.hlo:1:1: error: wrong [E-TEST-001]\n  first\n  ^\n");
  // Beyond the line and beyond the text.
  CHECK(RenderAt(*source, 6, 22) ==
        "m.hlo:2:1: error: wrong [E-TEST-001]\n  second line\n  ^~~~~~~~~~~\n");
  CHECK(RenderAt(*source, 22, 22) == "m.hlo:3:5: error: wrong [E-TEST-001]\n  last\n      ^\n");
  CHECK(RenderAt(*source, 4000, 4001) == "m.hlo:3:5: error: wrong [E-TEST-001]\n  last\n      ^\n");
}

TEST_CASE("odd bytes are shown as question marks", "[ir][diagnostic]") {
  const auto source =
      SourceText::FromString("m.hlo", std::string("a\tb\x01\xFF\xC3\xA9 x\r\n", 10));
  CHECK(RenderAt(*source, 8, 9) ==
        "m.hlo:1:9: error: wrong [E-TEST-001]\n"
        "  a b??\xC3\xA9 x\n"
        "         ^\n");
}

TEST_CASE("long lines are cut around the caret", "[ir][diagnostic]") {
  const auto source =
      SourceText::FromString("m.hlo", std::string(5000, 'a') + "b" + std::string(5000, 'c'));
  const Diagnostic diagnostic = source->Locate({5000, 5001}, Severity::kError, "", "wrong");
  CHECK(diagnostic.column == 5001);
  CHECK(diagnostic.source_line.size() == 160);
  CHECK(diagnostic.source_line[diagnostic.caret_offset] == 'b');
  CHECK(diagnostic.caret_length == 1);
}

TEST_CASE("notes and hints", "[ir][diagnostic]") {
  Diagnostic diagnostic = MakeError("E-TEST-002", "no such flag", "try --help");
  Diagnostic note;
  note.severity = Severity::kNote;
  note.message = "flags are read left to right";
  diagnostic.notes.push_back(note);
  CHECK(Render(diagnostic) ==
        "error: no such flag [E-TEST-002]\n"
        "  hint: try --help\n"
        "note: flags are read left to right\n");
}

TEST_CASE("files are read whole", "[ir][source_text]") {
  const TemporaryFolder folder;
  const std::string path = folder.File("x.hlo");
  const std::string content(100001, 'x');
  std::ofstream(path) << content;
  const auto source = SourceText::Open(path);
  REQUIRE(source.has_value());
  CHECK((*source)->text() == content);
  CHECK((*source)->name() == path);
  std::ofstream(path) << "";
  CHECK((*source)->text() == content);  // not mapped: what happens to the file does not matter
  const auto empty = SourceText::Open(path);
  REQUIRE(empty.has_value());
  CHECK((*empty)->text().empty());
  CHECK(RenderAt(**empty, 0, 0) == path + ":1:1: error: wrong [E-TEST-001]\n   \n  ^\n");

  const auto missing = SourceText::Open("/nonexistent/x.hlo");
  REQUIRE_FALSE(missing.has_value());
  CHECK(Render(missing.error()) ==
        "/nonexistent/x.hlo: error: cannot open: No such file or directory [E-IO-001]\n");
  CHECK(Render(SourceText::Open("/").error()) ==
        "/: error: cannot open: is a directory [E-IO-001]\n");
  const auto pipe = SourceText::Open("/dev/null");
  REQUIRE(pipe.has_value());
  CHECK((*pipe)->text().empty());
}

TEST_CASE("messages with endless names are cut in the middle", "[ir][diagnostic]") {
  const Diagnostic error = MakeError("E-TEST-001", "no 'a" + std::string(100000, 'x') + "z'");
  const std::string rendered = Render(error);
  CHECK(rendered.size() < 2000);
  CHECK(rendered.starts_with("error: no 'axx"));
  CHECK(rendered.find("x[.. 98407 bytes ..]x") != std::string::npos);
  CHECK(rendered.ends_with("xz' [E-TEST-001]\n"));
}

TEST_CASE("messages have no control characters", "[ir][diagnostic]") {
  Diagnostic error = MakeError("E-TEST-001", "no '\x1b[31m'", "say\x7f it");
  error.source_line = "a\tb\x01";
  CHECK(Render(error) == "error: no '?[31m' [E-TEST-001]\n  a b?\n  ^\n  hint: say? it\n");
}

}  // namespace
}  // namespace gshard
