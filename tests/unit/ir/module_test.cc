// Modules, names, traversals and metadata.
#include "ir/module.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/metadata.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/source_lines.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

std::unique_ptr<Module> Parse(std::string text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", std::move(text)));
  if (!module.has_value()) {
    FAIL(Render(module.error()));
    return nullptr;
  }
  return std::move(*module);
}

std::string Names(const std::vector<Instruction*>& instructions) {
  std::string names;
  for (const Instruction* instruction : instructions) {
    if (!names.empty()) names += ' ';
    names += instruction->name();
  }
  return names;
}

Instruction* Find(const Module& module, std::string_view name) {
  for (const Computation* computation : module.computations()) {
    for (Instruction* instruction : computation->instructions()) {
      if (instruction->name() == name) return instruction;
    }
  }
  FAIL("no instruction " << name);
  return nullptr;
}

TEST_CASE("unique names", "[ir][module]") {
  Module module("m", std::make_shared<Context>());
  CHECK(module.UniqueName("add") == "add");
  CHECK(module.UniqueName("add") == "add.1");
  CHECK(module.UniqueName("add.1") == "add.2");
  CHECK(module.UniqueName("add.7") == "add.7");
  CHECK(module.UniqueName("add.7") == "add.3");
  CHECK(module.UniqueName("x.1.2") == "x.1.2");
  CHECK(module.UniqueName("x.1.2") == "x.1.1");
  CHECK(module.UniqueName("y.z") == "y.z");
  CHECK(module.UniqueName("y.z") == "y.z.1");
  CHECK(module.UniqueName(".5") == ".5");
  CHECK(module.UniqueName(".5") == ".5.1");
  // Linear over many clashes of one name.
  for (int i = 0; i < 200000; ++i) module.UniqueName("many");
  CHECK(module.UniqueName("many") == "many.200000");
  CHECK(module.AddComputation("add")->name() == "add");
  CHECK(module.AddComputation("add")->name() == "add.1");
}

constexpr const char* kGraph = R"(HloModule m, num_partitions=4

%body (t: (s32[], f32[8])) -> (s32[], f32[8]) {
  %t = (s32[], f32[8]) parameter(0)
  %n = s32[] get-tuple-element(%t), index=0
  %v = f32[8] get-tuple-element(%t), index=1
  %unused = f32[8] negate(%v)
  ROOT %r = (s32[], f32[8]) tuple(%n, %v)
}

%condition (u: (s32[], f32[8])) -> pred[] {
  %u = (s32[], f32[8]) parameter(0)
  ROOT %p = pred[] constant(false)
}

%dead (d: f32[]) -> f32[] {
  ROOT %d = f32[] parameter(0)
}

ENTRY %main (x: f32[8], y: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  %y = f32[8] parameter(1)
  %i = s32[] constant(0)
  %a = f32[8] add(%x, %x)
  %lost = f32[8] multiply(%a, %y)
  %sink = f32[8] custom-call(%a), custom_call_target="print", custom_call_has_side_effect=true
  %before = f32[8] negate(%y)
  %init = (s32[], f32[8]) tuple(%i, %a), control-predecessors={%before}
  %w = (s32[], f32[8]) while(%init), condition=%condition, body=%body
  ROOT %out = f32[8] get-tuple-element(%w), index=1
}
)";

TEST_CASE("orders and users", "[ir][traversal]") {
  const auto module = Parse(kGraph);
  CHECK(Names(PostOrder(*module->entry())) == "x a y lost sink before i init w out");
  std::string computations;
  for (const Computation* computation : CallPostOrder(*module)) {
    computations += std::string(computation->name()) + " ";
  }
  CHECK(computations == "condition body main ");
  const Users users(*module);
  const auto names_of_users = [&](std::string_view name) {
    const auto list = users.of(Find(*module, name));
    return Names({list.begin(), list.end()});
  };
  CHECK(names_of_users("a") == "lost sink init");
  CHECK(names_of_users("x") == "a");  // once, though it uses x twice
  CHECK(names_of_users("t") == "n v");
  CHECK(names_of_users("out").empty());
  CHECK(names_of_users("before").empty());  // control dependencies are no uses
  const Users entry_users(*module->entry());
  CHECK(entry_users.of(Find(*module, "w")).size() == 1);
}

TEST_CASE("dead code", "[ir][traversal]") {
  const auto module = Parse(kGraph);
  CHECK(RemoveDeadCode(*module));
  const std::string printed = PrintModule(*module);
  CHECK(printed.find("%lost") == std::string::npos);
  CHECK(printed.find("%unused") == std::string::npos);
  CHECK(printed.find("%dead") == std::string::npos);
  CHECK(printed.find("%sink") != std::string::npos);    // has a side effect
  CHECK(printed.find("%before") != std::string::npos);  // must run before something live
  CHECK(printed.find("parameter(1)") != std::string::npos);
  CHECK_FALSE(RemoveDeadCode(*module));
}

TEST_CASE("a clone lives on its own", "[ir][module]") {
  auto module = Parse(kGraph);
  const std::string printed = PrintModule(*module);
  auto clone = module->Clone();
  CHECK(PrintModule(*clone) == printed);
  Find(*clone, "out")->mutable_attributes<GetTupleElementAttributes>().index = 0;
  CHECK(PrintModule(*module) == printed);
  CHECK(clone->UniqueName("a") == "a.1");
  for (const Computation* computation : clone->computations()) {
    CHECK(&computation->module() == clone.get());
    for (const Instruction* instruction : computation->instructions()) {
      CHECK(instruction->parent() == computation);
    }
  }
  module.reset();
  Find(*clone, "out")->mutable_attributes<GetTupleElementAttributes>().index = 1;
  CHECK(PrintModule(*clone) == printed);
  const auto second = clone->Clone();
  clone.reset();
  CHECK(PrintModule(*second) == printed);
}

TEST_CASE("device counts and channel ids", "[ir][module]") {
  const auto count = [](const std::string& header, const std::string& line) {
    return Parse(header + "\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = " + line + "\n}")
        ->DeviceCount();
  };
  CHECK(count("HloModule m, num_partitions=4", "f32[8] negate(x)") == 4);
  CHECK(count("HloModule m", "f32[8] negate(x)") == 1);
  CHECK(count("HloModule m", "f32[8] negate(x), sharding={devices=[2]<=[2]}") == 2);
  CHECK(count("HloModule m", "f32[8] negate(x), sharding={maximal device=5}") == 6);
  CHECK(count("HloModule m", "f32[8] collective-permute(x), source_target_pairs={{0,6}}") == 7);
  CHECK(count("HloModule m", "f32[8] all-gather(x), dimensions={0}, replica_groups={{0},{2,1}}") ==
        3);
  CHECK(count("HloModule m", "f32[8] all-gather(x), dimensions={0}, replica_groups=[8,4]<=[32]") ==
        32);
  const auto module = Parse(
      "ENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] collective-permute(x), channel_id=41, "
      "source_target_pairs={} }");
  CHECK(module->NextChannelId() == 42);
}

TEST_CASE("errors at instructions", "[ir][module]") {
  const auto module = Parse("ENTRY e {\n  x = f32[8] parameter(0)\n}");
  CHECK(Render(module->ErrorAt(module->entry()->root(), "E-X-001", "is odd")) ==
        "test.hlo:2:3: error: is odd [E-X-001]\n"
        "    x = f32[8] parameter(0)\n"
        "    ^\n");
  Module made("m", std::make_shared<Context>());
  Computation* computation = made.AddComputation("c");
  Instruction* instruction = made.Add(computation, Opcode::kPartitionId, "id",
                                      made.context().Scalar(DType::kU32), {}, NoAttributes{});
  CHECK(made.ErrorAt(instruction, "E-X-001", "is odd").message == "instruction %id: is odd");
}

TEST_CASE("metadata", "[ir][metadata]") {
  const auto module = Parse(R"(HloModule m
FileNames
1 "a.py"
2 "b c.py"

FunctionNames
1 "<lambda>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=9}
7 {file_name_id=2 function_name_id=1 line=42 end_line=43}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=7 parent_frame_id=2}

ENTRY e {
  x = f32[8] parameter(0), metadata={op_type="t", op_name="params[\'a\'][\"b\"]" stack_frame_id=2}
  y = f32[8] negate(x), metadata={source_file="f.py" source_line=12}
  z = f32[8] negate(y), metadata={stack_frame_id=9}
  ROOT w = f32[8] negate(z)
})");
  const auto instructions = module->entry()->instructions();
  CHECK(OpNameOf(*instructions[0]) == "params['a'][\"b\"]");
  CHECK(ParseMetadata(instructions[0]->metadata()).op_type == "t");
  CHECK(SourceLineOf(*module, *instructions[0]) == "b c.py:42");
  CHECK(SourceLineOf(*module, *instructions[1]) == "f.py:12");
  CHECK(SourceLineOf(*module, *instructions[2]).empty());
  CHECK(OpNameOf(*instructions[3]).empty());
  CHECK(ParseMetadata("{op_name=").op_name.empty());
}

TEST_CASE("a module takes what a changed clone of it has", "[ir]") {
  const std::string_view text = R"(HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] negate(x)
  ROOT z = f32[4] add(y, y)
}
)";
  auto module = *ParseModule(SourceText::FromString("t.hlo", std::string(text)));
  auto changed = module->Clone();
  changed->set_name("n");
  changed->entry()->root()->set_operand(1, changed->entry()->parameter(0));
  const std::string printed = PrintModule(*changed);
  Computation* const entry = changed->entry();
  *module = std::move(*changed);
  changed.reset();
  CHECK(module->entry() == entry);
  CHECK(&entry->module() == module.get());
  CHECK(PrintModule(*module) == printed);
  CHECK(module->UniqueName("y") == "y.1");
  CHECK(PrintModule(*module->Clone()) == printed);
}

TEST_CASE("frontend attributes", "[ir][metadata]") {
  const std::string_view text = R"({b="x,\"y\"}",mesh={m = <["a"=2]>}, c='z'})";
  const auto attributes = ParseFrontendAttributes(text);
  REQUIRE(attributes.size() == 3);
  CHECK(attributes[1].first == "mesh");
  CHECK(attributes[1].second == R"({m = <["a"=2]>})");
  CHECK(FrontendAttribute(text, "b") == "x,\"y\"}");
  CHECK(FrontendAttribute(text, "c") == "z");
  CHECK(FrontendAttribute(text, "d").empty());
  Arena arena;
  CHECK(WithFrontendAttribute(arena, text, "a", "1\n\"") ==
        R"({a="1\n\"",b="x,\"y\"}",c='z',mesh={m = <["a"=2]>}})");
  CHECK(WithFrontendAttribute(arena, text, "c", "") ==
        R"({b="x,\"y\"}",c="",mesh={m = <["a"=2]>}})");
  CHECK(WithFrontendAttribute(arena, "", "k", "v") == R"({k="v"})");
}

TEST_CASE("quoting", "[ir][metadata]") {
  const std::string all = std::string("a\"\\\n\t\r\x01") + std::string(1, '\0') + "'é";
  CHECK(Quoted(all) == "\"a\\\"\\\\\\n\\t\\r\\001\\000'é\"");
  CHECK(Unquoted(Quoted(all)) == all);
  CHECK(Unquoted("'a\\'b'") == "a'b");
  CHECK(Unquoted("plain") == "plain");
  CHECK(Unquoted(R"("\x41\101\a\e\")") == std::string("A") + "A\ae\\");
}

}  // namespace
}  // namespace gshard
