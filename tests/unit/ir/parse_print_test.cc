// Parsing and printing together: what XLA printed prints back byte for byte, other spellings come
// out canonical, and every print is a fixpoint.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verify/verifier.h"
#include "tests/unit/source_file.h"

namespace gshard {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Module> Parse(std::string text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", std::move(text)));
  if (!module.has_value()) {
    FAIL(Render(module.error()));
    return nullptr;
  }
  return std::move(*module);
}

std::string Reprint(std::string text, const PrintOptions& options = {}) {
  return PrintModule(*Parse(std::move(text)), options);
}

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string WithoutBlankLines(const std::string& text) {
  std::string result;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) result += line + "\n";
  }
  return result;
}

// Without /*index=5*/.
std::string WithoutIndices(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t comment = std::min(text.find("/*index=", at), text.size());
    result.append(text, at, comment - at);
    at = comment == text.size() ? comment : text.find("*/", comment) + 2;
  }
  return result;
}

// The lines of the entry computation, without indentation.
std::string Body(const std::string& printed) {
  const size_t begin = printed.find("{\n", printed.find("ENTRY")) + 2;
  std::string body;
  std::stringstream in(printed.substr(begin, printed.rfind("\n}") - begin));
  for (std::string line; std::getline(in, line);) body += line.substr(2) + "\n";
  return body;
}

std::vector<fs::path> Files(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".hlo") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> Corpus() {
  const char* folder = std::getenv("GSHARD_CORPUS");
  if (folder != nullptr) return Files(folder);
  return Files(SourceFile("../shared/corpus"));
}

// Files written by XLA (jaxlib 0.10.2) with large constants printed: every opcode and attribute,
// every header attribute, asynchronous operations, literals of all types.
TEST_CASE("XLA's prints print back unchanged", "[ir][parser][printer]") {
  const auto files = Files(SourceFile("tests/data/xla_prints"));
  REQUIRE(files.size() >= 17);
  for (const fs::path& file : files) {
    INFO(file);
    const std::string text = ReadAll(file);
    const auto module = Parse(text);
    const auto verified = VerifyModule(*module);
    if (!verified.has_value()) FAIL_CHECK(Render(verified.error()));
    CHECK(WithoutBlankLines(PrintModule(*module)) == text);
  }
}

TEST_CASE("the corpus prints back unchanged, and to a fixpoint", "[ir][parser][printer][corpus]") {
  for (const fs::path& file : Corpus()) {
    INFO(file);
    const std::string text = ReadAll(file);
    const std::string printed = Reprint(text);
    CHECK(Reprint(printed) == printed);
    // One file has bare names and no signatures, another no index comments in its shardings.
    if (text.find('%') != text.npos) {
      const bool same =
          WithoutIndices(WithoutBlankLines(printed)) == WithoutIndices(WithoutBlankLines(text));
      CHECK(same);
    }
    for (const PrintOptions& options :
         {PrintOptions{.metadata = false}, PrintOptions{.layouts = false},
          PrintOptions{.ids = false}, PrintOptions{.named = true},
          PrintOptions{.metadata = false, .layouts = false, .ids = false}}) {
      const std::string once = Reprint(text, options);
      CHECK(Reprint(once, options) == once);
      CHECK(once.size() <= printed.size() + 100);
    }
  }
}

TEST_CASE("spellings that XLA accepts come out canonical", "[ir][parser]") {
  const std::string parameters = "x = f32[8,8] parameter(0)\n t = (f32[8], s32[]) parameter(1)\n";
  const auto body = [&](const std::string& lines) {
    const std::string printed = Body(Reprint("ENTRY e {\n" + parameters + lines + "\n}"));
    const std::string head = "%x = f32[8,8] parameter(0)\n%t = (f32[8], s32[]) parameter(1)\n";
    CHECK(printed.substr(0, head.size()) == head);
    return printed.substr(head.size());
  };
  // Operands with shapes, nested operations, tuple elements by '#'; XLA names nested ones .anon.
  CHECK(body("y = f32[8,8] add(f32[8,8]{0,1} %x, f32[8,8] x)") ==
        "ROOT %y = f32[8,8] add(%x, %x)\n");
  CHECK(body("y = f32[8,8] add(f32[8,8] multiply(x, negate(x)), negate(%x))") ==
        "%negate.anon = f32[8,8] negate(%x)\n"
        "%multiply.anon = f32[8,8] multiply(%x, %negate.anon)\n"
        "%negate.anon.1 = f32[8,8] negate(%x)\n"
        "ROOT %y = f32[8,8] add(%multiply.anon, %negate.anon.1)\n");
  CHECK(body("u = ((f32[8], s32[])) tuple(t)\n y = s32[] negate(u#0#1)") ==
        "%u = ((f32[8], s32[])) tuple(%t)\n"
        "%get-tuple-element.anon = (f32[8], s32[]) get-tuple-element(%u), index=0\n"
        "%get-tuple-element.anon.1 = s32[] get-tuple-element(%get-tuple-element.anon), index=1\n"
        "ROOT %y = s32[] negate(%get-tuple-element.anon.1)\n");
  // Shapes that follow from the operands.
  CHECK(body("y = dot(x, x), rhs_contracting_dims={0}, lhs_contracting_dims={1}") ==
        "ROOT %y = f32[8,8] dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n");
  CHECK(body("y = pred[8,8] compare(x, x), type=FLOAT, direction=LT") ==
        "ROOT %y = pred[8,8] compare(%x, %x), direction=LT\n");
  CHECK(body("y = pred[8,8] compare(x, x), type=TOTALORDER, direction=LT") ==
        "ROOT %y = pred[8,8] compare(%x, %x), direction=LT, type=TOTALORDER\n");
  // Attributes on further lines, comments anywhere, windows in any order, defaults dropped.
  CHECK(body("y = f32[4,8] slice(/*index=0*/ x),\n  // why\n  slice={[0:8:2],\n [0:8]}") ==
        "ROOT %y = f32[4,8] slice(%x), slice={[0:8:2], [0:8:1]}\n");
  CHECK(body("z = f32[] constant(0)\n y = f32[9,10] pad(x, z), padding=0_1x1_1_0") ==
        "%z = f32[] constant(0)\n"
        "ROOT %y = f32[9,10] pad(%x, %z), padding=0_1x1_1\n");
  CHECK(body("z = f32[] constant(0)\n y = f32[15,8] pad(x, z), padding=0_0_1x-1_1") ==
        "%z = f32[] constant(0)\n"
        "ROOT %y = f32[15,8] pad(%x, %z), padding=0_0_1x-1_1_0\n");
  CHECK(body("y = f32[8,8] custom-call(x), api_version=API_VERSION_ORIGINAL, "
             "custom_call_target='a\"b'") ==
        "ROOT %y = f32[8,8] custom-call(%x), custom_call_target=\"a\\\"b\"\n");
  // A sharding of a tuple is that of each leaf.
  CHECK(body("y = (f32[8,8], f32[8,8]) tuple(x, x), sharding={replicated}") ==
        "ROOT %y = (f32[8,8], f32[8,8]) tuple(%x, %x), sharding={{replicated}, {replicated}}\n");
  // Verbatim: braces and quotes inside strings, MLIR dictionaries, unknown tables.
  const std::string verbatim =
      "ROOT %y = f32[8,8] negate(%x), frontend_attributes={a=\"}\\\"{\",b={x = 1 : i64, \"}\"}}, "
      "statistics={visualizing_index=0,count_nan=1.5}, origin={({\"a\"}, {\"b\" {0}})}, "
      "metadata={op_name=\"p[\\'a\\'] } /*\" source_line=3}, backend_config={k = {\"}\" : 2}}\n";
  CHECK(body(verbatim) == verbatim);
}

TEST_CASE("names are made unique as XLA makes them", "[ir][parser]") {
  const std::string printed = Reprint(R"(HloModule m
%a (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %add.5 = f32[] add(%x, %x)
  ROOT %add = f32[] add(%add.5, %x)
}
%b (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %add.5 = f32[] add(%x, %x)
  %add.6 = f32[] add(%x, %add.5)
  %x.1 = f32[] add(%x, %add.6)
  ROOT %add = f32[] add(%add.5, %x.1)
}
ENTRY e {
  %x = f32[] parameter(0)
  %add.5 = f32[] call(%x), to_apply=%a
  %foo.1.2 = f32[] call(%add.5), to_apply=%b
  ROOT %add = f32[] add(%foo.1.2, %x)
}
)");
  // As jaxlib 0.10.2 prints it.
  CHECK(printed == R"(HloModule m

%a (x: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %add.5 = f32[] add(%x, %x)
  ROOT %add = f32[] add(%add.5, %x)
}

%b (x.1: f32[]) -> f32[] {
  %x.1 = f32[] parameter(0)
  %add.1 = f32[] add(%x.1, %x.1)
  %add.6 = f32[] add(%x.1, %add.1)
  %x.2 = f32[] add(%x.1, %add.6)
  ROOT %add.2 = f32[] add(%add.1, %x.2)
}

ENTRY %e (x.3: f32[]) -> f32[] {
  %x.3 = f32[] parameter(0)
  %add.3 = f32[] call(%x.3), to_apply=%a
  %foo.1.2 = f32[] call(%add.3), to_apply=%b
  ROOT %add.4 = f32[] add(%foo.1.2, %x.3)
}
)");
}

TEST_CASE("inline computations see their own names only", "[ir][parser]") {
  CHECK(Reprint(R"(
ENTRY e {
  x = f32[8] parameter(0)
  c = f32[] constant(0)
  y = f32[] reduce(x, c), dimensions={0}, to_apply={
    x = f32[] parameter(0)
    c = f32[] parameter(1)
    ROOT y = f32[] add(x, c)
  }
  ROOT z = f32[] add(y, c)
})") == R"(HloModule module_e

%_ (x.1: f32[], c.1: f32[]) -> f32[] {
  %x.1 = f32[] parameter(0)
  %c.1 = f32[] parameter(1)
  ROOT %y = f32[] add(%x.1, %c.1)
}

ENTRY %e (x: f32[8]) -> f32[] {
  %x = f32[8] parameter(0)
  %c = f32[] constant(0)
  %y.1 = f32[] reduce(%x, %c), dimensions={0}, to_apply=%_
  ROOT %z = f32[] add(%y.1, %c)
}
)");
}

TEST_CASE("modules without header, entry or computation", "[ir][parser]") {
  // Named after the entry; the last computation is the entry.
  CHECK(Reprint("f { a = f32[] parameter(0) } g { b = f32[] parameter(0) }") ==
        "HloModule module_g\n\n%f (a: f32[]) -> f32[] {\n  ROOT %a = f32[] parameter(0)\n}\n\n"
        "ENTRY %g (b: f32[]) -> f32[] {\n  ROOT %b = f32[] parameter(0)\n}\n");
  // The entry prints last.
  CHECK(Reprint("HloModule %m.1-a // c\nENTRY g { b = f32[] parameter(0) } f { a = f32[] "
                "parameter(0) } // f") ==
        "HloModule m.1-a\n\n%f (a: f32[]) -> f32[] {\n  ROOT %a = f32[] parameter(0)\n}\n\n"
        "ENTRY %g (b: f32[]) -> f32[] {\n  ROOT %b = f32[] parameter(0)\n}\n");
  const std::string lone =
      "HloModule _\n\nENTRY %_ (a: f32[8], b: f32[8]) -> f32[8] {\n"
      "  %a = f32[8] parameter(0)\n  %b = f32[8] parameter(1)\n";
  CHECK(Reprint("%x = f32[8] add(f32[8] %a, f32[8] %b)") ==
        lone + "  ROOT %x = f32[8] add(%a, %b)\n}\n");
  CHECK(Reprint("f32[8] add(f32[8] a, f32[8] b), metadata={op_name=\"x\"}") ==
        lone + "  ROOT %_ = f32[8] add(%a, %b), metadata={op_name=\"x\"}\n}\n");
  // A word that is no bare name.
  CHECK(Reprint("HloModule %f32\nENTRY e { a = f32[] parameter(0) }")
            .starts_with("HloModule %f32\n"));
}

TEST_CASE("asynchronous operations keep what the short spelling would lose", "[ir][printer]") {
  const std::string text = R"(HloModule m

%c (p: f32[8]) -> f32[8] {
  %p = f32[8] parameter(0)
  ROOT %q = f32[8] sine(%p), metadata={op_name="inner"}
}

ENTRY %e (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  %s = ((f32[8]), f32[8], u32[]) async-start(%x), calls=%c
  ROOT %d = f32[8] async-done(%s)
}
)";
  CHECK(Reprint(text) == text);
  std::string plain = text;
  plain.erase(plain.find(", metadata"), std::string(", metadata={op_name=\"inner\"}").size());
  CHECK(Reprint(plain) == R"(HloModule m

ENTRY %e (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  %s = ((f32[8]), f32[8], u32[]) sine-start(%x)
  ROOT %d = f32[8] sine-done(%s)
}
)");
}

TEST_CASE("print options", "[ir][printer]") {
  const std::string text =
      R"(HloModule m, entry_computation_layout={(f32[8,8]{0,1})->f32[8,8]{1,0}}, meshes={pod=['data'=2,'model'=4]}

FileNames
1 "a.py"

ENTRY %main.7 (x.3: f32[8,8]) -> (f32[8,8]) {
  %x.3 = f32[8,8]{0,1} parameter(0), sharding={@pod, [{'data'}, {'model', ?}]}
  %add.4 = f32[8,8]{1,0} add(%x.3, %x.3), sharding={devices=[2,4]<=[8]}, metadata={op_name="a"}
  %copy.1 = f32[8,8]{1,0} all-to-all(%add.4), channel_id=3, replica_groups={{0,1}}, dimensions={0}
  %add.9 = f32[8,8]{1,0} custom-call(%copy.1), custom_call_target="f", operand_layout_constraints={f32[8,8]{1,0}}, literal=s32[2]{0} {1, 2}
  ROOT %tuple = (f32[8,8]{1,0}) tuple(%add.9), origin={{"a"}}
}
)";
  CHECK(
      Reprint(text, {.named = true})
          .find(
              "%add.4 = f32[8,8]{1,0} add(%x.3, %x.3), sharding={@pod, [{'data'}, {'model'}]}, ") !=
      std::string::npos);
  CHECK(Reprint(text, {.metadata = false, .layouts = false, .ids = false}) ==
        R"(HloModule m, entry_computation_layout={(f32[8,8])->f32[8,8]}

ENTRY %main (x: f32[8,8]) -> (f32[8,8]) {
  %x = f32[8,8] parameter(0), sharding={mesh['data'=2,'model'=4], [{'data'}, {'model', ?}]}
  %add = f32[8,8] add(%x, %x), sharding={devices=[2,4]<=[8]}
  %copy = f32[8,8] all-to-all(%add), channel_id=1, replica_groups={{0,1}}, dimensions={0}
  %add.2 = f32[8,8] custom-call(%copy), custom_call_target="f", literal=s32[2]{0} {1, 2}
  ROOT %tuple = (f32[8,8]) tuple(%add.2)
}
)");
}

TEST_CASE("groups are named by the declared mesh", "[ir][printer]") {
  const auto named = [](const std::string& meshes, const std::string& groups) {
    const std::string printed = Reprint("HloModule m, meshes=" + meshes +
                                            "\nENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] "
                                            "all-to-all(x), replica_groups=" +
                                            groups + ", dimensions={0} }",
                                        {.named = true});
    const size_t begin = printed.find("replica_groups=") + 15;
    return printed.substr(begin, printed.find(", dimensions") - begin);
  };
  const std::string pod = "{pod=['a'=2,'b'=4]}";
  const std::string mesh = "mesh['a'=2,'b'=4] ";
  CHECK(named(pod, "[2,4]<=[8]") == mesh + "{'b'}");
  CHECK(named(pod, "[4,2]<=[2,4]T(1,0)") == mesh + "{'a'}");
  CHECK(named(pod, "[1,8]<=[8]") == mesh + "{'a','b'}");
  CHECK(named(pod, "[1,8]<=[2,4]T(1,0)") == mesh + "{'b','a'}");
  CHECK(named(pod, "[4,2]<=[8]") == mesh + "{'b':(2)2}");
  // {0,2}, {4,6}, {1,3}, {5,7}: the major half of b.
  CHECK(named(pod, "[4,2]<=[4,2]T(1,0)") == mesh + "{'b':(1)2}");
  CHECK(named("{p=['a'=2,'b'=3]}", "[3,2]<=[6]") == "[3,2]<=[6]");  // no axis steps by 1 twice
  CHECK(named(pod, "{{0,1,2,3},{4,5,6,7}}") == "{{0,1,2,3},{4,5,6,7}}");  // lists stay lists
  CHECK(named(pod, "[2,8]<=[16]") == "[2,8]<=[16]");  // another number of devices
  CHECK(named("{other=['x'=3], pod=['a'=4,'b'=2], device_ids=([2,4]T(1,0))}", "[2,4]<=[8]") ==
        "mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'a'}");
}

// Bytes changed, dropped, doubled and cut at pseudo-random places of real files.
TEST_CASE("damaged files give located errors", "[ir][parser][corpus]") {
  uint64_t random = 1;
  const auto next = [&random](size_t below) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(random >> 33) % below;
  };
  for (const fs::path& file : Corpus()) {
    INFO(file);
    const std::string original = ReadAll(file);
    int rejected = 0;
    for (int round = 0; round < 24; ++round) {
      std::string text = original;
      const size_t at = next(text.size());
      switch (round % 6) {
        case 0:
          text.resize(at);
          break;
        case 1:
          text[at] = static_cast<char>(next(256));
          break;
        case 2:
          text.erase(at, 1 + next(8));
          break;
        case 3:
          text.insert(at, text.substr(next(text.size()), 1 + next(40)));
          break;
        case 4:
          text[at] = "{}()[]\"',=:%#"[next(13)];
          break;
        default:
          text.insert(at, "999999999999999999");
      }
      const auto module = ParseModule(SourceText::FromString("damaged.hlo", text));
      if (module.has_value()) {
        if (VerifyModule(**module).has_value()) {
          const std::string printed = PrintModule(**module);
          CHECK(Reprint(printed) == printed);
        }
        continue;
      }
      ++rejected;
      const Diagnostic& error = module.error();
      CHECK(error.line > 0);
      CHECK(error.column > 0);
      CHECK_FALSE(error.message.empty());
    }
    CHECK(rejected > 0);
  }
}

}  // namespace
}  // namespace gshard
