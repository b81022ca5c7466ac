// Which arrays of a program are taken for the reference's of the same name.
#include "backends/cpu/given_reference.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ir/parser.h"
#include "ir/sharding_text.h"

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

TEST_CASE("values are found by their operations where names are in another order", "[cpu]") {
  const auto program = [](const std::string& text) {
    return Parsed(R"(HloModule m, num_partitions=2, frontend_attributes={gshard.num_partitions="2"}
ENTRY e {
  p = f32[4] parameter(0), sharding={devices=[2]<=[2]}
)" + text + "}");
  };
  const auto reference = program(R"(
  c = f32[] constant(2)
  b = f32[4] broadcast(c), dimensions={}
  m.1 = f32[4] multiply(p, b)
  m.2 = f32[4] multiply(m.1, b)
  ROOT r = f32[4] tanh(m.2)
)");
  const auto renamed = program(R"(
  c = f32[] constant(2)
  b = f32[4] broadcast(c), dimensions={}
  m.2 = f32[4] multiply(p, b)
  m.3 = f32[4] multiply(m.2, b)
  ROOT r = f32[4] negate(m.3)
)");
  const auto damaged = program(R"(
  c = f32[] constant(3)
  b = f32[4] broadcast(c), dimensions={}
  m.1 = f32[4] multiply(p, b)
  m.2 = f32[4] multiply(m.1, b)
  ROOT r = f32[4] tanh(m.2)
)");
  CHECK_FALSE(IsNamedAlike(*renamed, *reference));
  CHECK(IsNamedAlike(*damaged, *reference));

  std::vector<LocalForm> forms;
  for (const Instruction* x : reference->entry()->instructions()) forms.push_back({x->name(), x});
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const LocalForm& form : FormsMadeAlike(*renamed, *reference, forms)) {
    pairs.emplace_back(form.name, form.local->name());
  }
  CHECK(pairs == std::vector<std::pair<std::string, std::string>>{
                     {"p", "p"}, {"c", "c"}, {"b", "b"}, {"m.1", "m.2"}, {"m.2", "m.3"}});
}

TEST_CASE("an unannotated reference takes shardings of arrays that it has", "[cpu]") {
  const auto program = Parsed(R"hlo(HloModule m, num_partitions=2, frontend_attributes={
gshard.num_partitions="2",gshard.output_shapes="f32[4]",gshard.output_shardings="{devices=[2]<=[2]}",gshard.parameter_shapes="(f32[4])"}
ENTRY e {
  p = f32[2] parameter(0), sharding={devices=[2]<=[2]}
  ROOT r = f32[2] negate(p)
})hlo");
  const auto reference =
      Parsed("HloModule m\nENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] negate(p) }");
  const auto other =
      Parsed("HloModule m\nENTRY e { p = f32[8] parameter(0)  ROOT r = f32[8] negate(p) }");
  CHECK_FALSE(TakeShardings(*other, *program, TakenShardings::kParameters));
  CHECK_FALSE(TakeShardings(*reference, *program, TakenShardings::kNone));
  REQUIRE(TakeShardings(*reference, *program, TakenShardings::kParameters));
  CHECK(ToString(reference->entry()->parameter(0)->sharding()) == "{devices=[2]<=[2]}");
  CHECK(reference->entry()->root()->sharding() == nullptr);
  CHECK_FALSE(TakeShardings(*reference, *program, TakenShardings::kParameters));
  REQUIRE(TakeShardings(*reference, *program, TakenShardings::kParametersAndResults));
  CHECK(ToString(reference->entry()->root()->sharding()) == "{devices=[2]<=[2]}");
}

TEST_CASE("parameters of compiled text are spread as the reference's", "[cpu]") {
  const auto reference = Parsed(R"(HloModule whole, num_partitions=4
ENTRY e {
  p = f32[2,6] parameter(0), sharding={devices=[4,1]<=[4]}
  t = (f32[3], f32[4]) parameter(1), sharding={{devices=[2,2]<=[4] last_tile_dim_replicate}, {devices=[4]<=[4]}}
  q = f32[3] parameter(2), sharding={devices=[2,2]<=[4] last_tile_dim_replicate}
  r = f32[2] parameter(3), sharding={devices=[4]<=[4]}
  ROOT s = f32[3] negate(q)
})");
  // Of the tuple's second leaf and of r the compiler has made something else: whole, and of other
  // tiles. q says by itself how it lies.
  const std::string parameters = R"(
  p = f32[2,6] parameter(0)
  t = (f32[3], f32[16]) parameter(1)
  q = f32[3] parameter(2), sharding={devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  r = f32[4] parameter(3)
  ROOT s = f32[3] negate(q)
})";
  const auto program = Parsed("HloModule device, num_partitions=4\nENTRY e {" + parameters);
  Context& context = program->context();
  const auto shape = [&](std::vector<int64_t> dims) { return context.Array(DType::kF32, dims); };
  const std::vector<const Shape*> whole = {shape({8, 6}), shape({6}), shape({16}), shape({6}),
                                           shape({8})};
  CHECK(TakeParameterShardings(*program, *reference, whole) == std::vector<int64_t>{0, 1});
  const auto text = [&](int64_t number) {
    const Sharding* sharding = program->entry()->parameter(number)->sharding();
    return sharding == nullptr ? "none" : ToString(sharding);
  };
  CHECK(text(0) == "{devices=[4,1]<=[4]}");
  CHECK(text(1) == "{{devices=[2,2]<=[4] last_tile_dim_replicate}, {replicated}}");
  CHECK(text(2) == "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}");
  CHECK(text(3) == "none");
  CHECK_FALSE(CheckParameters(*program, whole));

  // Our own text has said all there is to say.
  const auto ours = Parsed(
      "HloModule device, num_partitions=4, frontend_attributes={gshard.num_partitions=\"4\"}\n"
      "ENTRY e {" +
      parameters);
  CHECK(TakeParameterShardings(*ours, *reference, whole).empty());
}

}  // namespace gshard::cpu
