// Which arrays of a program are taken for the reference's of the same name.
#include "backends/cpu/given_reference.h"

#include <catch2/catch.hpp>

#include "ir/parser.h"

namespace gshard::cpu {
namespace {

constexpr std::string_view kReference = R"(HloModule whole
ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] negate(p)
  add.1 = f32[4] add(p, q)
  r = f32[4] tanh(add.1)
  ROOT s = f32[4] add(r, q)
})";

// add.1 is another value, and r is computed in a pass.
constexpr std::string_view kProgram = R"(HloModule device HEADER
pass {
  x = f32[4] parameter(0)
  ROOT r = f32[4] tanh(x)
}
ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] negate(p)
  t = f32[4] call(q), to_apply=pass
  add.1 = f32[4] add(q, t)
  ROOT s = f32[4] add(t, q)
})";

std::unique_ptr<Module> Parsed(std::string text) {
  auto module = ParseModule(SourceText::FromString("test", std::move(text)));
  REQUIRE(module);
  return std::move(*module);
}

std::vector<std::string> Common(const std::string& header) {
  const auto whole = Parsed(std::string(kReference));
  std::string text(kProgram);
  text.replace(text.find(" HEADER"), 7, header);
  const auto program = Parsed(std::move(text));
  std::vector<LocalForm> forms;
  for (const Instruction* x : whole->entry()->instructions()) forms.push_back({x->name(), x});
  std::vector<std::string> names;
  for (const LocalForm& form : FormsByName(*program, forms)) names.emplace_back(form.name);
  return names;
}

}  // namespace

TEST_CASE("arrays of one name and shape are the same ones", "[cpu]") {
  CHECK(Common("") == std::vector<std::string>{"p", "q", "add.1", "r", "s"});
}

TEST_CASE("a pipelined program's names say nothing", "[cpu]") {
  CHECK(Common(R"(, frontend_attributes={gshard.pipeline="stages=2"})").empty());
}

}  // namespace gshard::cpu
