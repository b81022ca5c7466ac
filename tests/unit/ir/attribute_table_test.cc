#include "ir/attribute_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "ir/instruction.h"
#include "ir/module.h"
#include "tests/unit/source_file.h"

namespace gshard {
namespace {

TEST_CASE("opcodes by name", "[ir][opcode]") {
  std::set<std::string_view> names;
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    CHECK(OpcodeFromName(OpcodeName(opcode)) == opcode);
    CHECK(names.insert(OpcodeName(opcode)).second);
  }
  CHECK_FALSE(OpcodeFromName("").has_value());
  CHECK_FALSE(OpcodeFromName("ad").has_value());
  CHECK_FALSE(OpcodeFromName("add ").has_value());
  CHECK_FALSE(OpcodeFromName("Add").has_value());
}

TEST_CASE("rows are well-formed", "[ir][attributes]") {
  Arena arena;
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    INFO(OpcodeName(opcode));
    std::set<std::string_view> names;
    bool calls = false;
    for (const AttributeRow& row : AttributesOf(opcode)) {
      CHECK(names.insert(row.name).second);
      calls |= row.kind == AttributeKind::kComputation || row.kind == AttributeKind::kComputations;
      const bool has_words = row.kind == AttributeKind::kEnum || row.kind == AttributeKind::kWord;
      CHECK(row.words.empty() != has_words);
    }
    // async-update and -done read calls= and drop it.
    CHECK(calls == (InfoOf(opcode).callees != Callees::kNoCallee));
    const bool has_struct = AttributeTagOf(opcode) != &AttributeType<NoAttributes>::kTag;
    if (!has_struct) {
      for (const AttributeRow& row : AttributesOf(opcode)) {
        CHECK((row.kind == AttributeKind::kComputation ||
               row.kind == AttributeKind::kComputations || row.kind == AttributeKind::kIgnored));
      }
    }
  }
}

TEST_CASE("opcodes with attributes have rows", "[ir][attributes]") {
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    INFO(OpcodeName(opcode));
    const bool has_struct = AttributeTagOf(opcode) != &AttributeType<NoAttributes>::kTag;
    // Their values stand between the parentheses: parameter(0), constant({1, 2}).
    const bool in_parentheses = opcode == Opcode::kParameter || opcode == Opcode::kConstant;
    if (has_struct && !in_parentheses) CHECK_FALSE(AttributesOf(opcode).empty());
  }
}

TEST_CASE("every opcode has a golden line", "[ir][attributes]") {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(SourceFile("tests/golden/parse"))) {
    std::ifstream in(entry.path());
    text.append(std::istreambuf_iterator<char>(in), {});
  }
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    INFO("tests/golden/parse has no line with " << OpcodeName(opcode));
    CHECK(text.find(" " + std::string(OpcodeName(opcode)) + "(") != std::string::npos);
  }
}

TEST_CASE("the page on the text format names every opcode and attribute", "[ir][attributes]") {
  std::ifstream in(SourceFile("docs/text-format.md"));
  std::stringstream stream;
  stream << in.rdbuf();
  const std::string page = stream.str();
  REQUIRE_FALSE(page.empty());
  const auto has_word = [&page](std::string_view word) {
    const auto is_part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    for (size_t at = page.find(word); at != page.npos; at = page.find(word, at + 1)) {
      if (!is_part(page[at - 1]) && !is_part(page[at + word.size()])) return true;
    }
    return false;
  };
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    INFO(OpcodeName(opcode));
    CHECK(has_word(OpcodeName(opcode)));
    for (const AttributeRow& row : AttributesOf(opcode)) {
      if (row.kind == AttributeKind::kIgnored) continue;
      INFO(row.name);
      CHECK(has_word(row.name));
    }
  }
}

}  // namespace
}  // namespace gshard
