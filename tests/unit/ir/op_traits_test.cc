#include "ir/op_traits.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "ir/instruction.h"
#include "ir/module.h"
#include "ir/parser.h"
#include "ir/source_text.h"

namespace gshard {
namespace {

std::unique_ptr<Module> Parsed(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  REQUIRE(module);
  return std::move(*module);
}

const Instruction& Root(const Module& module) { return *module.entry()->root(); }

TEST_CASE("columns of ir/opcodes.def agree with each other", "[ir][opcode]") {
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const OpcodeInfo& info = InfoOf(opcode);
    INFO(info.text);
    if (IsElementwise(opcode)) {
      CHECK((info.motion == Motion::kComputes || info.motion == Motion::kKeepsOrder ||
             info.motion == Motion::kChooses));
      CHECK(info.purity == Purity::kPure);
      CHECK(info.callees == Callees::kNoCallee);
    }
    if (MovesElements(opcode)) CHECK(info.arity != 0);
    if (info.motion == Motion::kMakes) CHECK(info.arity == 0);
    if (IsCollective(opcode)) CHECK(info.family == "collectives");
    if (MovesOneArray(opcode)) CHECK(MovesElements(opcode));
    if (KeepsOrder(opcode)) CHECK(MovesOneArray(opcode));
    // A start, its updates and its done come together, and so do collectives' and copies' halves.
    const bool is_half = info.text.ends_with("-start") || info.text.ends_with("-update") ||
                         info.text.ends_with("-done");
    const bool is_transfer = info.text.starts_with("send") || info.text.starts_with("recv");
    CHECK((info.purity == Purity::kPaired) == (is_half && !is_transfer));
    if (RunsCallees(opcode)) CHECK(info.callees != Callees::kPerElement);
  }
}

TEST_CASE("what may be computed again", "[ir][opcode]") {
  const auto add =
      Parsed("HloModule m\nENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] add(p, p) }\n");
  CHECK(MayBeRepeated(Root(*add)));
  CHECK_FALSE(MayBeRepeated(*add->entry()->parameter(0)));

  const std::string noise =
      "noise { a = f32[] parameter(0) b = f32[] parameter(1)\n"
      "  ROOT n = f32[2] rng(a, b), distribution=rng_uniform }\n";
  const std::string entry =
      "ENTRY e { a = f32[] parameter(0) b = f32[] parameter(1)\n"
      "  ROOT r = f32[2] call(a, b), to_apply=";
  const auto random = Parsed("HloModule m\n" + noise + entry + "noise }\n");
  CHECK_FALSE(MayBeRepeated(Root(*random)));
  const auto plain = Parsed(
      "HloModule m\nplain { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] add(a, b)\n"
      "  ROOT n = f32[2] broadcast(c), dimensions={} }\n" +
      entry + "plain }\n");
  CHECK(MayBeRepeated(Root(*plain)));

  const auto controlled = Parsed(
      "HloModule m\nENTRY e { p = f32[2] parameter(0) n = f32[2] negate(p)\n"
      "  ROOT r = f32[2] abs(p), control-predecessors={n} }\n");
  CHECK_FALSE(MayBeRepeated(Root(*controlled)));

  const auto reduced = Parsed(
      "HloModule m\nsum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) "
      "}\n"
      "ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] all-reduce(p), to_apply=sum }\n");
  CHECK_FALSE(MayBeRepeated(Root(*reduced)));
}

TEST_CASE("custom calls say whether they have side effects", "[ir][opcode]") {
  auto calls = [](const std::string& target, bool has_side_effect) {
    return Parsed(
        "HloModule m\nENTRY e { p = f32[2] parameter(0)\n  ROOT r = f32[2] custom-call(p), "
        "custom_call_target=\"" +
        target + "\"" + (has_side_effect ? ", custom_call_has_side_effect=true" : "") + " }\n");
  };
  CHECK(HasSideEffect(Root(*calls("print", true))));
  CHECK_FALSE(MayBeRepeated(Root(*calls("print", true))));
  CHECK_FALSE(HasSideEffect(Root(*calls("cosh_of_a_library", false))));
  CHECK(MayBeRepeated(Root(*calls("cosh_of_a_library", false))));
  // It says where the value lies, and computes nothing.
  CHECK_FALSE(HasSideEffect(Root(*calls("annotate_device_placement", true))));
}

}  // namespace
}  // namespace gshard
