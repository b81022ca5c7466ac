// The one way from a user's file to a module: formats by content, what surrounds a program, what is
// none.
#include "ir/input/module_input.h"

#include <zlib.h>

#include <catch2/catch.hpp>

#include "ir/printer.h"

namespace gshard {
namespace {

const std::string kHlo =
    "HloModule first\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}\n";
const std::string kSecond =
    "HloModule second\n\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] abs(x)\n}\n";
const std::string kMlir =
    "module @third {\n  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n"
    "    return %arg0 : tensor<2xf32>\n  }\n}\n";

std::string Gzip(const std::string& text) {
  std::string out(text.size() + 1000, '\0');
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct Outcome {
  std::string module;  // its name; empty after an error
  Diagnostic error;
  std::vector<Diagnostic> notes;
};
Outcome Read(const std::string& text, const std::string& module_name = "") {
  InputReport report;
  InputOptions options;
  options.module_name = module_name;
  const auto module =
      ReadModuleInput(SourceText::FromString("in", text), options, nullptr, &report);
  Outcome outcome;
  outcome.notes = report.notes;
  if (module.has_value()) {
    outcome.module = (*module)->name();
  } else {
    outcome.error = module.error();
  }
  return outcome;
}

TEST_CASE("formats are told apart by content", "[ir][input]") {
  CHECK(Read(kHlo).module == "first");
  CHECK(Read(kMlir).module == "third");
  CHECK(Read(Gzip(kHlo)).module == "first");
  CHECK(Read(Gzip(kHlo) + Gzip("// the end\n")).module == "first");  // members are joined
  CHECK(Read("\xef\xbb\xbf" + kHlo).module == "first");
  CHECK(Read("\xef\xbb\xbf" + kMlir).module == "third");
  CHECK(Read("\xef\xbb\xbf\n" + kHlo).module == "first");
}

TEST_CASE("damaged gzip is an error at a byte", "[ir][input]") {
  const std::string packed = Gzip(kHlo);
  for (size_t size = 2; size < packed.size(); ++size) {
    CHECK(Read(packed.substr(0, size)).error.code == "E-INPUT-001");
  }
  std::string damaged = packed;
  damaged[12] = static_cast<char>(damaged[12] ^ 0x55);
  damaged[13] = static_cast<char>(damaged[13] ^ 0x55);
  CHECK(Read(damaged).error.code == "E-INPUT-001");
}

TEST_CASE("a decompression bomb is refused", "[ir][input]") {
  const Outcome outcome = Read(Gzip(std::string(size_t{80} << 20, ' ')));
  CHECK(outcome.error.code == "E-INPUT-002");
  CHECK(outcome.error.message.find("unpacks to more than") == 0);
}

TEST_CASE("lines around a program are skipped with a note", "[ir][input]") {
  const std::string log = "2026-11-22 starting\nloss = 3 {\n";
  for (const std::string& program : {kHlo, kMlir}) {
    const Outcome before = Read(log + program);
    CHECK_FALSE(before.module.empty());
    REQUIRE(before.notes.size() == 1);
    CHECK(before.notes[0].message == "skipped lines 1-2: no part of the program");
    const Outcome after = Read(program + "done in 3 s\n");
    CHECK_FALSE(after.module.empty());
    REQUIRE(after.notes.size() == 1);
  }
  CHECK(Read(kHlo).notes.empty());
  CHECK(Read("// a comment\n" + kHlo + "// another\n").notes.empty());
}

TEST_CASE("modules without a name are found among other lines", "[ir][input]") {
  std::string unnamed = kMlir;
  unnamed.replace(0, unnamed.find('{'), "module ");
  CHECK(Read("a log line\n" + unnamed).module == "module");
  CHECK(Read(unnamed + unnamed).error.code == "E-INPUT-004");
  CHECK(Read(unnamed + kHlo, "first").module == "first");
  // Not a computation of that name.
  const Outcome hlo = Read(
      "a log line\nHloModule m\nmodule {\n  p = f32[] parameter(0)\n"
      "  ROOT q = f32[] negate(p)\n}\nENTRY e {\n  p = f32[] parameter(0)\n"
      "  ROOT c = f32[] call(p), to_apply=module\n}\n");
  CHECK(hlo.module == "m");
}

TEST_CASE("the prefixes of a log are skipped", "[ir][input]") {
  std::string log;
  for (size_t begin = 0; begin < kHlo.size();) {
    const size_t end = kHlo.find('\n', begin);
    log += "I1122 17:07:08.573859   31266 dump.cc:25] " + kHlo.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  CHECK(Read(log).module == "first");
}

TEST_CASE("places are those of the user's file", "[ir][input]") {
  std::string bad = kHlo;
  bad.replace(bad.find("negate"), 6, "negatr");
  const Outcome outcome = Read("a log line\n" + bad);
  CHECK(outcome.error.line == 6);
  CHECK(outcome.error.column == 19);
}

TEST_CASE("one of several modules is chosen by name or place", "[ir][input]") {
  const std::string both = kHlo + kSecond;
  const Outcome none = Read(both);
  CHECK(none.error.code == "E-INPUT-004");
  CHECK(none.error.message == "2 modules in one text: first (line 1), second (line 7)");
  CHECK(Read(both, "first").module == "first");
  CHECK(Read(both, "second").module == "second");
  CHECK(Read(both, "#2").module == "second");
  CHECK(Read(kHlo + kMlir, "third").module == "third");
  CHECK(Read(both, "#3").error.code == "E-INPUT-005");
  CHECK(Read(kHlo, "first").module == "first");
  CHECK(Read(kHlo, "other").error.message == "no module of this text is called 'other'");
}

TEST_CASE("what is cut short is no log", "[ir][input]") {
  const std::string computation = "f {\n  ROOT a = f32[] parameter(0)\n}\n";
  std::string cut = kHlo;
  cut.insert(cut.find("ENTRY"), computation);
  for (size_t size = 20; size < cut.size(); ++size) {
    INFO(cut.substr(0, size));
    CHECK(Read(cut.substr(0, size)).notes.empty());
  }
}

TEST_CASE("files that are no program are named", "[ir][input]") {
  const auto what = [](const std::string& bytes) {
    const Outcome outcome = Read(bytes);
    CHECK(outcome.error.code == "E-INPUT-003");
    CHECK_FALSE(outcome.error.hint.empty());
    return outcome.error.message;
  };
  CHECK(what("BufferAssignment:\nallocation 0: size 4") ==
        "this is no program: it is XLA's buffer assignment");
  CHECK(what("HloLiveRange (max 7):\n") == "this is no program: it is XLA's live ranges");
  CHECK(what("; ModuleID = 'x'\n") ==
        "this is no program: it is LLVM IR, machine-level code of one kernel");
  CHECK(what("ML\xefR\x06") == "this is no program: it is MLIR bytecode");
  CHECK(what(std::string("\x3c\0\0\0\x38\0", 6) + "ML\xefR") ==
        "this is no program: it is a serialized jax.export.Exported");
  CHECK(what("\x80\x04\x95") == "this is no program: it is a Python pickle");
  CHECK(what("PK\x03\x04") == "this is no program: it is a zip archive (.npz arrays?)");
  const std::string local_header("PK\x03\x04" + std::string(22, '\0') + "\x0a" +
                                 std::string(3, '\0'));
  CHECK(what(local_header + "m/data.pkl") ==
        "this is no program: it is an archive of PyTorch (.pt, .pt2)");
  CHECK(what(local_header + "params.npy") ==
        "this is no program: it is a zip archive (.npz arrays?)");
  CHECK(what("ExportedProgram:\n    class GraphModule(torch.nn.Module):\n") ==
        "this is no program: it is a program of torch.export");
  CHECK(what("{\"a\": 1}") == "this is no program: it is JSON");
  CHECK(what("[1, 2]") == "this is no program: it is JSON");
  CHECK(what(std::string("\x0a\x05xy\0zz", 7)).find("a protocol buffer") != std::string::npos);
  CHECK(what("{ lambda ; a:f32[]. let in (a,) }") == "this is no program: it is a jaxpr");
  CHECK(what("let f = { lambda ; a:f32[]. let in (a,) } in\n{ lambda ; a:f32[]. let in (a,) }") ==
        "this is no program: it is a jaxpr");
  CHECK(what("\xff\xfeH") == "this is no program: it is text in UTF-16");
  CHECK(what("") == "this is no program: it is empty");
  CHECK(what(std::string(5000, '\n')) == "this is no program: it is empty");
}

TEST_CASE("texts without their beginning are named", "[ir][input]") {
  const auto what = [](const std::string& text) { return Read(text).error.message; };
  const std::string middle =
      "this is no program: it is the middle of an HLO program, without its beginning";
  CHECK(what("  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}\n") == middle);
  CHECK(what("  ROOT %y = f32[4]{0} negate(%x)\n}\n") == middle);
  CHECK(what("entry_computation_layout={(f32[4])->f32[4]}\n\nENTRY e {\n}") == middle);
  CHECK(what("}\n\nENTRY e { ROOT x = f32[4] parameter(0) }") ==
        "this is no program: it is the end of a program, without its beginning");
  // An instruction alone is read, on several lines, too.
  CHECK(Read("%y = f32[4] negate(f32[4] %x)").module == "_");
  CHECK(Read("%y = f32[4] add(f32[4] %x,\n    f32[4] %z)").module == "_");
  // What an earlier computation or the header should have said.
  const std::string lost = "the text has no 'HloModule' line: was its beginning lost?";
  CHECK(Read("ENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] map(x), dimensions={0}, "
             "to_apply=f\n}\n")
            .error.hint.starts_with(lost));
  CHECK(Read("ENTRY e { ROOT x = f32[4] parameter(0), sharding={@pod, [{'data'}]} }")
            .error.hint.starts_with(lost));
}

TEST_CASE("texts that are cut short are named", "[ir][input]") {
  const std::string cut = "the text breaks off here: is the file cut short?";
  const std::string hlo =
      "HloModule m, entry_computation_layout={(f32[4])->f32[4]}\n\nf {\n  a = f32[] "
      "parameter(0)\n  ROOT b = f32[] negate(a), metadata={op_name=\"f/neg\"}\n}\n\nENTRY e {\n"
      "  x = f32[4] parameter(0)\n  ROOT y = f32[4] map(x), dimensions={0}, to_apply=f\n}";
  REQUIRE(Read(hlo).module == "m");
  for (size_t size = hlo.find("\n\nf"); size < hlo.size(); ++size) {
    INFO(hlo.substr(0, size));
    CHECK(Read(hlo.substr(0, size)).error.hint.starts_with(cut));
  }
  const std::string mlir =
      "module @m {\n  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"
      "    %0 = stablehlo.negate %arg0 : tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}";
  REQUIRE(Read(mlir).module == "m");
  for (size_t size = mlir.find('('); size < mlir.size(); ++size) {
    INFO(mlir.substr(0, size));
    CHECK(Read(mlir.substr(0, size)).error.hint.starts_with(cut));
  }
  // A mistake within a whole text is none of this.
  CHECK(Read("HloModule m\nENTRY e {\n  ROOT x = f32[4] paramter(0)\n}").error.hint.find(cut) ==
        std::string::npos);
}

}  // namespace
}  // namespace gshard
