// What a text cannot say (the parser refuses it) but a pass could build, and the corpus. Problems
// that texts can have are golden tests: tests/golden/errors.
#include "ir/verify/verifier.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/parser.h"
#include "ir/source_text.h"

namespace gshard {
namespace {

constexpr const char* kText = R"(
HloModule m, num_partitions=4
inner { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }
outer { p = f32[4] parameter(0) ROOT n = f32[4] call(p), to_apply=inner }
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  a = f32[4] add(x, y)
  ROOT r = f32[4] call(a), to_apply=outer
}
)";

std::unique_ptr<Module> Parse(std::string text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", std::move(text)));
  if (!module) FAIL(Render(module.error()));
  return std::move(*module);
}

// "CODE message" of the first problem, "" if there is none.
std::string Problem(const Module& module, const VerifyOptions& options = {}) {
  Expected<void> ok = VerifyModule(module, options);
  return ok ? "" : ok.error().code + " " + ok.error().message;
}

Instruction* Find(const Module& module, std::string_view name) {
  for (Computation* computation : module.computations()) {
    for (Instruction* instruction : computation->instructions()) {
      if (instruction->name() == name) return instruction;
    }
  }
  FAIL("no instruction " << name);
  return nullptr;
}

TEST_CASE("a well-formed module verifies", "[ir][verifier]") {
  CHECK(Problem(*Parse(kText)) == "");
}

TEST_CASE("problems are located", "[ir][verifier]") {
  auto module = Parse("ENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[5] negate(x)\n}\n");
  const Expected<void> ok = VerifyModule(*module);
  REQUIRE_FALSE(ok.has_value());
  CHECK(ok.error().code == "E-VERIFY-004");
  CHECK(ok.error().file == "test.hlo");
  CHECK(ok.error().line == 3);
  CHECK(ok.error().source_line == "  ROOT r = f32[5] negate(x)");
}

TEST_CASE("operands stand before their users, in the same computation", "[ir][verifier]") {
  auto module = Parse(kText);
  Instruction* a = Find(*module, "a");
  SECTION("order") {
    std::span<Instruction* const> list = module->entry()->instructions();
    module->entry()->SetInstructions({list[0], list[2], list[1], list[3]});
    CHECK(Problem(*module) == "E-VERIFY-002 operand y is used before it is defined");
  }
  SECTION("self") {
    a->set_operand(0, a);
    CHECK(Problem(*module) == "E-VERIFY-002 operand a is used before it is defined");
  }
  SECTION("removed from the list") {
    std::span<Instruction* const> list = module->entry()->instructions();
    module->entry()->SetInstructions({list[0], list[1], list[3]});
    CHECK(Problem(*module) == "E-VERIFY-002 operand a is used before it is defined");
  }
  SECTION("another computation") {
    a->set_operand(0, module->computations()[0]->root());
    CHECK(Problem(*module) == "E-VERIFY-002 operand n belongs to another computation");
  }
  SECTION("missing") {
    a->set_operand(1, nullptr);
    CHECK(Problem(*module) == "E-VERIFY-002 instruction a has an operand without a value");
  }
  SECTION("listed twice") {
    std::span<Instruction* const> list = module->entry()->instructions();
    module->entry()->SetInstructions({list[0], list[1], list[2], list[2], list[3]});
    CHECK(Problem(*module) == "E-VERIFY-001 instruction a is listed twice or elsewhere too");
  }
}

TEST_CASE("control predecessors stand before their successors", "[ir][verifier]") {
  auto module = Parse(kText);
  Instruction* a = Find(*module, "a");
  auto predecessor = [&](Instruction* instruction) {
    std::vector<Instruction*> list = {instruction};
    Instruction::Extras extras;
    extras.control_predecessors = module->arena().Copy(std::span<Instruction* const>(list));
    a->set_extras(module->arena().New<Instruction::Extras>(extras));
    return Problem(*module);
  };
  CHECK(predecessor(Find(*module, "x")) == "");
  CHECK(predecessor(Find(*module, "r")) ==
        "E-VERIFY-002 control predecessor r must stand before its successor");
  CHECK(predecessor(module->computations()[0]->root()) ==
        "E-VERIFY-002 control predecessor n belongs to another computation");
}

TEST_CASE("roots and entries", "[ir][verifier]") {
  auto module = Parse(kText);
  SECTION("no root") {
    module->entry()->set_root(nullptr);
    CHECK(Problem(*module) == "E-VERIFY-001 computation e has no root");
  }
  SECTION("a root from elsewhere") {
    module->entry()->set_root(module->computations()[0]->root());
    CHECK(Problem(*module) == "E-VERIFY-001 the root of computation e is not in it");
  }
  SECTION("no entry") {
    module->set_entry(nullptr);
    CHECK(Problem(*module) == "E-VERIFY-001 the module has no entry computation");
  }
  SECTION("an entry that is not listed") {
    std::span<Computation* const> all = module->computations();
    module->SetComputations({all[0], all[1]});
    CHECK(Problem(*module) ==
          "E-VERIFY-001 the entry computation is not among the module's computations");
  }
  SECTION("a computation listed twice") {
    std::span<Computation* const> all = module->computations();
    module->SetComputations({all[0], all[0], all[1], all[2]});
    CHECK(Problem(*module) == "E-VERIFY-001 computation inner is listed twice");
  }
}

TEST_CASE("calls do not nest without end", "[ir][verifier]") {
  auto nested = [](int depth) {
    std::string text = "HloModule m\nf0 { ROOT x = f32[] parameter(0) }\n";
    for (int i = 1; i < depth; ++i) {
      text += "f" + std::to_string(i) +
              " { x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=f" +
              std::to_string(i - 1) + " }\n";
    }
    return text + "ENTRY e { x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=f" +
           std::to_string(depth - 1) + " }\n";
  };
  CHECK(Problem(*Parse(nested(500))).empty());
  CHECK(Problem(*Parse(nested(501))) == "E-VERIFY-005 calls nest more than 500 deep here");
}

TEST_CASE("calls go to computations above", "[ir][verifier]") {
  auto module = Parse(kText);
  std::span<Computation* const> all = module->computations();
  Instruction* call = all[1]->root();
  SECTION("itself") {
    call->set_called(0, all[1]);
    CHECK(Problem(*module) ==
          "E-VERIFY-005 computation outer calls itself; recursion is not allowed");
  }
  SECTION("the entry") {
    call->set_called(0, all[2]);
    CHECK(Problem(*module) == "E-VERIFY-005 the entry computation e cannot be called");
  }
  SECTION("order") {
    module->SetComputations({all[1], all[0], all[2]});
    CHECK_THAT(Problem(*module),
               Catch::StartsWith("E-VERIFY-005 computation inner must stand before"));
  }
  SECTION("missing") {
    call->set_called(0, nullptr);
    CHECK(Problem(*module) == "E-VERIFY-005 a called computation is missing");
  }
}

TEST_CASE("ids of replica groups", "[ir][verifier]") {
  auto problem = [](const std::string& header, const std::string& attributes) {
    return Problem(*Parse("HloModule m" + header +
                          "\nadd { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] "
                          "add(p, q) }\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] "
                          "all-reduce(x), " +
                          attributes + ", to_apply=add\n}\n"));
  };
  const std::string global = "channel_id=1, use_global_device_ids=true, replica_groups=";
  // Flattened ids: replica * partitions + partition.
  CHECK(problem(", replica_count=2, num_partitions=2", global + "{{0,1,2,3}}") == "");
  CHECK_THAT(problem(", replica_count=2, num_partitions=2", global + "{{0,1}}"),
             Catch::Contains("must name all 4 devices, found 2"));
  CHECK_THAT(problem(", num_partitions=4", global + "[2,4]<=[8]"),
             Catch::Contains("must name all 4 devices, found 8"));
  // Replica ids.
  CHECK(problem(", replica_count=2, num_partitions=4", "replica_groups={{1,0}}") == "");
  CHECK(problem(", replica_count=2, num_partitions=4", "channel_id=1, replica_groups={{0,1}}") ==
        "");
  CHECK_THAT(problem(", replica_count=2", "replica_groups={{0,2}}"),
             Catch::Contains("names device 2, expected ids below 2"));
  // A header that does not say: ids must still be distinct.
  CHECK(problem("", global + "{{0,1},{4,5}}") == "");
  CHECK_THAT(problem("", global + "{{0,1},{1,5}}"), Catch::Contains("names device 1 twice"));
  // Groups of an all-reduce may differ in size.
  CHECK(problem(", num_partitions=4", global + "{{0},{1,2,3}}") == "");
}

TEST_CASE("shardings are checked unless told otherwise", "[ir][verifier]") {
  auto module = Parse(
      "HloModule m, num_partitions=4\nENTRY e { ROOT x = f32[4,4] parameter(0), "
      "sharding={devices=[4]<=[4]} }");
  CHECK_THAT(Problem(*module), Catch::StartsWith("E-VERIFY-008"));
  CHECK(Problem(*module, {.shardings = false}) == "");
}

TEST_CASE("metadata and frontend attributes", "[ir][verifier]") {
  auto module = Parse(kText);
  Instruction* a = Find(*module, "a");
  for (const char* good :
       {"{}", R"({op_type="x" op_name="jit(f)/\"q\" }{" source_line=3})",
        R"({op_name="a", profile_type={1} stack_frame_id=2})", "{/*note*/ op_name='x'}"}) {
    CAPTURE(good);
    a->set_metadata(good);
    CHECK(Problem(*module) == "");
  }
  for (const char* bad : {"", "{", "{op_name}", "{op_name=}", R"({op_name="x)", R"({="x"})",
                          R"({op_name="x"} more)", "{op_name={1}"}) {
    CAPTURE(bad);
    a->set_metadata(bad);
    CHECK((Problem(*module).rfind("E-VERIFY-010 metadata: ", 0) == 0) == (*bad != '\0'));
  }
  a->set_metadata("");
  a->set_frontend_attributes(R"({_xla.a="1",b={"j": "}"},c=word})");
  CHECK(Problem(*module) == "");
  a->set_frontend_attributes(R"({a="1" b="2"})");
  CHECK(Problem(*module) == "E-VERIFY-010 frontend_attributes: expected ',' or '}'");
}

TEST_CASE("aliasing of results with operands", "[ir][verifier]") {
  auto problem = [](const std::string& aliasing) {
    return Problem(
        *Parse("ENTRY e {\n  x = f32[4] parameter(0)\n  y = (s32[], f32[4]) "
               "parameter(1)\n  ROOT r = (f32[4], s32[]) custom-call(x, y), "
               "custom_call_target=\"t\", output_to_operand_aliasing=" +
               aliasing + "\n}\n"));
  };
  CHECK(problem("{{0}: (0, {})}") == "");
  CHECK(problem("{{0}: (1, {1}), {1}: (1, {0})}") == "");
  CHECK_THAT(problem("{{0}: (1, {0})}"), Catch::Contains("pairs f32[4] with s32[]"));
  CHECK_THAT(problem("{{2}: (0, {})}"), Catch::Contains("no part of the result"));
  CHECK_THAT(problem("{{0}: (2, {})}"), Catch::Contains("names operand 2 of 2"));
}

TEST_CASE("the corpus verifies", "[ir][verifier][corpus]") {
  const char* variable = std::getenv("GSHARD_CORPUS");
  const std::filesystem::path corpus = variable != nullptr ? variable : "../shared/corpus";
  if (!std::filesystem::is_directory(corpus)) {
    WARN("no corpus at " << corpus << ": skipped");
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    if (entry.path().extension() != ".hlo") continue;
    CAPTURE(entry.path());
    auto source = SourceText::Open(entry.path().string());
    REQUIRE(source);
    auto module = ParseModule(*source);
    REQUIRE(module);
    CHECK(Problem(**module) == "");
  }
}

}  // namespace
}  // namespace gshard
