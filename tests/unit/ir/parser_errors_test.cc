// What the parser says about bad input: every message in full, with its place and hint.
#include "ir/parser_errors.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "ir/parser.h"
#include "tests/unit/source_file.h"

namespace gshard {
namespace {

std::string ErrorOf(std::string text) {
  const auto module = ParseModule(SourceText::FromString("bad.hlo", std::move(text)));
  return module.has_value() ? "no error" : Render(module.error());
}

// A backslash at the end of an input stands for the missing newline.
TEST_CASE("messages of the parser", "[ir][parser][errors]") {
  std::ifstream in(SourceFile("tests/data/parse_errors.txt"));
  std::string text;
  std::string rendered;
  std::string* part = nullptr;
  int checked = 0;
  const auto check = [&] {
    if (part == nullptr) return;
    if (text.ends_with("\\\n")) text.resize(text.size() - 2);
    INFO(text);
    CHECK(ErrorOf(text) == rendered);
    ++checked;
  };
  for (std::string line; std::getline(in, line);) {
    if (line == "====") {
      check();
      text.clear();
      rendered.clear();
      part = &text;
    } else if (line == "----") {
      part = &rendered;
    } else if (part != nullptr) {
      *part += line + "\n";
    }
  }
  check();
  CHECK(checked >= 70);
}

// The code and the line:column of an error.
std::string PlaceOf(std::string text) {
  const auto module = ParseModule(SourceText::FromString("bad.hlo", std::move(text)));
  if (module.has_value()) return "no error";
  const Diagnostic& error = module.error();
  return error.code + " " + std::to_string(error.line) + ":" + std::to_string(error.column);
}

TEST_CASE("nesting is bounded", "[ir][parser][errors]") {
  const auto repeat = [](std::string_view text, size_t count) {
    std::string result;
    for (size_t i = 0; i < count; ++i) result += text;
    return result;
  };
  const size_t many = 1000000;
  CHECK(PlaceOf("ENTRY e { x = " + repeat("(", many)) == "E-PARSE-015 1:264");
  CHECK(PlaceOf("ENTRY e { x = f32[] negate(" + repeat("negate(", many))
            .starts_with("E-PARSE-015 1:"));
  CHECK(PlaceOf("ENTRY e { x = f32[] call(), to_apply=" +
                repeat("{ y = f32[] call(), to_apply=", many))
            .starts_with("E-PARSE-015 1:"));
  CHECK(PlaceOf("ENTRY e { x = " + repeat("(", 200) + "f32[]" + repeat(")", 200) + " constant(" +
                repeat("(", many))
            .starts_with("E-PARSE-0"));
  CHECK(PlaceOf("ENTRY e { x = " + repeat("b(", many)).starts_with("E-PARSE-015 1:"));
  // Brackets that are only skipped may nest as deep as they like.
  CHECK(PlaceOf("ENTRY e { x = f32[] parameter(0), backend_config=" + repeat("{", many) +
                repeat("}", many) + "}") == "no error");
  CHECK(PlaceOf("ENTRY e { x = f32[] parameter(0), origin=" + repeat("{", many) + "}") ==
        "E-PARSE-001 1:42");
  CHECK(PlaceOf("ENTRY e { x = f32[" + repeat("1,", 2000) + "1] parameter(0) }") ==
        "E-PARSE-012 1:2067");
}

TEST_CASE("input that is no HLO text is recognised", "[ir][parser][errors]") {
  const auto message = [](std::string text) {
    const auto module = ParseModule(SourceText::FromString("bad.hlo", std::move(text)));
    if (module.has_value()) return std::string("no error");
    CHECK(module.error().code == "E-PARSE-020");
    CHECK(module.error().hint ==
          "print HLO text from JAX with "
          "jax.jit(f).lower(*args).as_text('hlo', debug_info=True)");
    return module.error().message;
  };
  const std::string mlir = "this is MLIR (StableHLO), not HLO text";
  CHECK(message("module @jit_f attributes {mhlo.num_partitions = 8 : i32} {\n") == mlir);
  CHECK(message("// a comment\nmodule {\n  func.func @main() {\n") == mlir);
  CHECK(message("#loc = loc(unknown)\nmodule @m {") == mlir);
  CHECK(message("func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {\n") == mlir);
  CHECK(message("\"builtin.module\"() ({") == mlir);
  CHECK(message(std::string("ML\xefR\x06\0\0", 7)) == "this is MLIR bytecode, not HLO text");
  const std::string binary = "this is a binary file (a serialized HloModuleProto?), not HLO text";
  CHECK(message(std::string("\n\x05jit_f\x12\x04main\x1a\0\0", 15)) == binary);
  CHECK(message(std::string("\x7f"
                            "ELF\x02\x01\x01\0\0",
                            9)) == binary);
  CHECK(message("\x1f\x8b\x08") == "this is a compressed file, not HLO text");
  CHECK(message("name: \"jit_f\"\n") == "this is a protocol buffer in text form, not HLO text");
}

TEST_CASE("absurd numbers cost neither time nor memory", "[ir][parser][errors]") {
  const auto body = [](const std::string& line) {
    return PlaceOf("ENTRY e {\nx = " + line + "\n}");
  };
  CHECK(body("f32[9223372036854775807] parameter(0)") == "E-PARSE-016 2:5");
  CHECK(body("f32[0,9223372036854775807,9223372036854775807] parameter(0)") == "no error");
  CHECK(body("f32[99999999999999999999] parameter(0)") == "E-PARSE-016 2:9");
  CHECK(body("f32[] parameter(999999999)") == "E-PARSE-021 2:21");
  CHECK(body("f64[1000000000000] constant({1,2})") == "E-PARSE-013 2:33");
  CHECK(body("f32[1000000000000,0] constant({ {}, {} })") == "E-PARSE-013 2:44");
  CHECK(body("f32[1000000000000] constant({...})") == "no error");
  CHECK(body("f32[8] iota(), iota_dimension=99999999999999999999") == "E-PARSE-016 2:35");
}

TEST_CASE("the nearest word", "[ir][parser][errors]") {
  const auto nearest = [](std::string_view word, std::initializer_list<std::string_view> words) {
    NearestWord result(word);
    for (std::string_view candidate : words) result.Offer(candidate);
    return std::string(result.best());
  };
  CHECK(nearest("multipy", {"add", "multiply", "maximum"}) == "multiply");
  CHECK(nearest("tpuel", {"tuple", "topk"}) == "tuple");
  CHECK(nearest("ad", {"and", "add"}) == "and");  // equally near: the first
  CHECK(nearest("add", {"add", "and"}) == "add");
  CHECK(nearest("dimension", {"dimensions"}) == "dimensions");
  CHECK(nearest("frobnicate", {"add", "multiply"}).empty());
  CHECK(nearest("x", {"y"}).empty());
  CHECK(nearest(std::string(1000, 'a'), {"aaaa"}).empty());
}

}  // namespace
}  // namespace gshard
