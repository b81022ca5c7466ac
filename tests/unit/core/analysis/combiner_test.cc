#include "core/analysis/combiner.h"

#include <fmt/format.h>

#include "ir/builder.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// A module whose entry maps `body`, a computation with parameters a and b, over two arrays.
std::unique_ptr<Module> Mapping(std::string_view type, std::string_view body) {
  return Parsed(fmt::format(R"(HloModule m
f {{
  a = {0}[] parameter(0)
  b = {0}[] parameter(1)
{1}
}}
ENTRY e {{
  x = {0}[4] parameter(0)
  y = {0}[4] parameter(1)
  ROOT r = {0}[4] map(x, y), dimensions={{0}}, to_apply=f
}})",
                            type, body));
}

std::optional<Opcode> Combiner(std::string_view type, std::string_view body) {
  return CombinerOf(Mapping(type, body)->entry()->root()->called(0));
}

// `op` on a and b widened from `narrow` to `wide`, and narrowed again.
std::string Widened(std::string_view narrow, std::string_view wide, std::string_view op) {
  return fmt::format(R"(  wa = {1}[] convert(a)
  wb = {1}[] convert(b)
  s = {1}[] {2}(wa, wb)
  ROOT r = {0}[] convert(s))",
                     narrow, wide, op);
}

TEST_CASE("combiners of two parameters in either order", "[combiner]") {
  CHECK(Combiner("f32", "  ROOT r = f32[] add(a, b)") == Opcode::kAdd);
  CHECK(Combiner("f32", "  ROOT r = f32[] maximum(b, a)") == Opcode::kMaximum);
  CHECK(Combiner("s32", "  ROOT r = s32[] xor(a, b)") == Opcode::kXor);
  CHECK_FALSE(Combiner("f32", "  ROOT r = f32[] add(a, a)"));
  CHECK_FALSE(Combiner("f32", "  ROOT r = f32[] subtract(a, b)"));
  CHECK_FALSE(Combiner("f32", "  n = f32[] negate(b)\n  ROOT r = f32[] add(a, n)"));
}

TEST_CASE("combiners in a type wide enough for one rounding", "[combiner]") {
  CHECK(Combiner("bf16", Widened("bf16", "f32", "add")) == Opcode::kAdd);
  CHECK(Combiner("f16", Widened("f16", "f32", "multiply")) == Opcode::kMultiply);
  CHECK(Combiner("f32", Widened("f32", "f64", "minimum")) == Opcode::kMinimum);
  CHECK(Combiner("f8e4m3fn", Widened("f8e4m3fn", "f32", "add")) == Opcode::kAdd);
  // The sum would be rounded to the narrower type, another value.
  CHECK_FALSE(Combiner("f32", Widened("f32", "bf16", "add")));
  // s32 to f32 and back is not exact.
  CHECK_FALSE(Combiner("s32", Widened("s32", "f32", "add")));
  // f16 to bf16 loses digits.
  CHECK_FALSE(Combiner("f16", Widened("f16", "bf16", "add")));
}

TEST_CASE("what else a called computation may be", "[combiner]") {
  auto operation = [](std::string_view body) {
    return SingleBinaryOperation(*Mapping("f32", body)->entry()->root()->called(0));
  };
  CHECK(operation("  ROOT r = f32[] subtract(a, b)") == Opcode::kSubtract);
  CHECK_FALSE(operation("  ROOT r = f32[] subtract(b, a)"));
  auto forwarded = [](std::string_view body) {
    return ForwardedParameter(*Mapping("f32", body)->entry()->root()->called(0));
  };
  CHECK(forwarded("  ROOT r = f32[] copy(b)") == 1);
  CHECK(forwarded("  ROOT r = f32[] negate(b)") == -1);
}

TEST_CASE("comparisons of two parameters in either order", "[combiner]") {
  const auto direction = [](std::string_view operands, std::string_view word) {
    const auto module = Parsed(fmt::format(R"(HloModule m
f {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare({}), direction={}
}}
ENTRY e {{
  x = f32[4] parameter(0)
  ROOT s = f32[4] sort(x), dimensions={{0}}, to_apply=f
}})",
                                           operands, word));
    const auto compare = ComparisonOf(*module->entry()->root()->called(0));
    return compare ? std::optional(compare->direction) : std::nullopt;
  };
  CHECK(direction("a, b", "LT") == ComparisonDirection::kLt);
  CHECK(direction("b, a", "LT") == ComparisonDirection::kGt);
  CHECK(direction("b, a", "GE") == ComparisonDirection::kLe);
  CHECK(direction("b, a", "NE") == ComparisonDirection::kNe);
  CHECK(direction("a, a", "LT") == std::nullopt);
}

// An array that is made is known again, and differs from the identity of the opposite operation.
TEST_CASE("identities of every type", "[combiner]") {
  Module module("m", std::make_shared<Context>());
  Builder builder(module, module.AddComputation("e"));
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!IsArrayType(dtype)) continue;
    INFO(DTypeName(dtype));
    const Shape* shape = module.context().Array(dtype, std::vector<int64_t>{2});
    for (const Opcode combiner :
         {Opcode::kAdd, Opcode::kMultiply, Opcode::kMaximum, Opcode::kMinimum}) {
      const bool is_ordered = combiner == Opcode::kMaximum || combiner == Opcode::kMinimum;
      if (IsComplex(dtype) && is_ordered) continue;
      // Numbers that these types do not have.
      if (dtype == DType::kS1 && combiner == Opcode::kMultiply) continue;
      if (dtype == DType::kF8E8M0FNU && combiner == Opcode::kAdd) continue;
      const Instruction* made = IdentityArray(builder, shape, combiner);
      CHECK(IsFilledWithIdentity(made, combiner));
      if (is_ordered) {
        const Opcode other = combiner == Opcode::kMaximum ? Opcode::kMinimum : Opcode::kMaximum;
        CHECK_FALSE(IsFilledWithIdentity(made, other));
      }
    }
  }
  CHECK(IntegerIdentity(Opcode::kMaximum, DType::kS4) == -8);
  CHECK(IntegerIdentity(Opcode::kMinimum, DType::kU4) == 15);
  CHECK(IntegerIdentity(Opcode::kAnd, DType::kU2) == 3);
  CHECK(FloatIdentity(Opcode::kMaximum, DType::kF8E4M3FN) == -448);
}

}  // namespace
}  // namespace gshard
