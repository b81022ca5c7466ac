// StableHLO text as modules: forms, literals, locations, names, shardings, what is refused.
#include "ir/stablehlo/reader.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <complex>
#include <limits>

#include "ir/literal.h"
#include "ir/metadata.h"
#include "ir/printer.h"
#include "ir/sharding_text.h"
#include "ir/source_lines.h"
#include "ir/stablehlo/writer.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

std::unique_ptr<Module> Read(const std::string& text) {
  auto module = stablehlo::ReadModule(SourceText::FromString("test.mlir", text));
  if (!module.has_value()) {
    FAIL(Render(module.error()));
    return nullptr;
  }
  const Expected<void> verified = VerifyModule(**module);
  if (!verified.has_value()) FAIL(Render(verified.error()));
  return std::move(*module);
}

std::string ErrorOf(const std::string& text, const stablehlo::ReadOptions& options = {}) {
  auto module = stablehlo::ReadModule(SourceText::FromString("test.mlir", text), nullptr, options);
  return module.has_value() ? "no error" : module.error().message;
}

// A function that returns `dense` of `type`.
const Literal& Constant(std::unique_ptr<Module>& module, const std::string& dense,
                        const std::string& type) {
  module = Read("func.func @main() -> " + type + " {\n  %c = stablehlo.constant dense<" + dense +
                "> : " + type + "\n  return %c : " + type + "\n}\n");
  const Instruction* x = module->entry()->root();
  if (x->opcode() == Opcode::kBroadcast) x = x->operand(0);
  return *x->attributes<ConstantAttributes>().literal;
}

TEST_CASE("MLIR is told from HLO by its first words", "[ir][stablehlo]") {
  for (const char* text :
       {"module @m {", "// x\nmodule @jit_f attributes {", "#loc = loc(unknown)\nmodule @m {",
        "func.func @main() {", "\"builtin.module\"() ({", "module {\n func.func @main() {",
        "module {}", "module attributes {a.b = 1 : i32} {",
        "module {\n  // x\n  sdy.mesh @m = <[]>"}) {
    CHECK(stablehlo::IsMlirText(text));
  }
  for (const char* text :
       {"HloModule m", "ENTRY e { ROOT p = f32[] parameter(0) }",
        "module { ROOT p = f32[] parameter(0) }", "module { %p-1 = f32[] parameter(0)",
        "module {\n  p = f32[]", "", "add = f32[] add(f32[] a)",
        "module (p: f32[]) -> f32[] { ROOT p = f32[] parameter(0) }"}) {
    CHECK_FALSE(stablehlo::IsMlirText(text));
  }
}

TEST_CASE("dense literals", "[ir][stablehlo]") {
  std::unique_ptr<Module> m;
  CHECK(ElementAsDouble(Constant(m, "[1.5, -2.0]", "tensor<2xf32>"), 1) == -2.0);
  CHECK(ElementAsDouble(Constant(m, "0x7F800000", "tensor<f32>"), 0) ==
        std::numeric_limits<double>::infinity());
  CHECK(std::isnan(ElementAsDouble(Constant(m, "[0x7FC00000, 1.0]", "tensor<2xf32>"), 0)));
  CHECK(ElementAsDouble(Constant(m, "0x3FC0", "tensor<bf16>"), 0) == 1.5);
  CHECK(ElementAsInt64(Constant(m, "\"0xFFFFFFFF02000000\"", "tensor<2xi32>"), 0) == -1);
  CHECK(ElementAsInt64(Constant(m, "\"0x08FF\"", "tensor<2xi4>"), 0) == -8);
  CHECK(ElementAsInt64(Constant(m, "[[true, false]]", "tensor<1x2xi1>"), 0) == 1);
  CHECK(ElementAsInt64(Constant(m, "18446744073709551615", "tensor<ui64>"), 0) == -1);
  CHECK(ElementAsComplex(Constant(m, "(1.0,-2.5)", "tensor<complex<f32>>"), 0) ==
        std::complex<double>(1.0, -2.5));
  CHECK(Constant(m, "", "tensor<0x3xf32>").data.empty());
  // A splat is a scalar that is broadcast.
  CHECK(Constant(m, "3.0", "tensor<8x8xf32>").shape->IsScalar());
  CHECK(m->entry()->root()->shape()->element_count() == 64);
  // A blob of one element is a splat, too.
  CHECK(ElementAsInt64(Constant(m, "\"0x07000000\"", "tensor<3xi32>"), 2) == 7);
}

TEST_CASE("resources at the end of the text", "[ir][stablehlo]") {
  const std::string text = R"(func.func @main() -> tensor<2xi32> {
  %c = stablehlo.constant dense_resource<w> : tensor<2xi32>
  return %c : tensor<2xi32>
}
{-# dialect_resources: { builtin: { w: "0x040000000100000002000000" } } #-})";
  const auto module = Read(text);
  const Literal& literal = *module->entry()->root()->attributes<ConstantAttributes>().literal;
  CHECK(ElementAsInt64(literal, 1) == 2);
  const auto elided = Read(
      "func.func @main() -> tensor<2xi32> {\n  %c = stablehlo.constant "
      "dense_resource<__elided__> : tensor<2xi32>\n  return %c : tensor<2xi32>\n}\n");
  CHECK(elided->entry()->root()->attributes<ConstantAttributes>().literal->elided);
}

TEST_CASE("locations become metadata and stack frames", "[ir][stablehlo]") {
  const auto module = Read(R"(#loc1 = loc("x")
module @m {
  func.func @main(%arg0: tensor<4xf32> loc("x")) -> tensor<4xf32> {
    %0 = stablehlo.sine %arg0 : tensor<4xf32> loc(#loc7)
    %1 = stablehlo.tanh %0 : tensor<4xf32> loc("jit(f)/tanh")
    return %1 : tensor<4xf32> loc(#loc1)
  } loc(unknown)
}
#loc2 = loc("f.py":12:4 to :20)
#loc3 = loc("main.py":3:0)
#loc4 = loc("inner"(#loc2))
#loc5 = loc("outer"(#loc3))
#loc6 = loc(callsite(#loc4 at #loc5))
#loc7 = loc("jit(f)/while/body/sin"(#loc6))
)");
  const Computation& entry = *module->entry();
  CHECK(entry.parameter(0)->name() == "x");
  const Instruction* sine = entry.root()->operand(0);
  CHECK(sine->name() == "sin.0");
  CHECK(OpNameOf(*sine) == "jit(f)/while/body/sin");
  CHECK(SourceLineOf(*module, *sine) == "f.py:12");
  const std::string tables(module->debug_tables());
  CHECK(tables.find("1 {file_location_id=1 parent_frame_id=1}") != std::string::npos);
  CHECK(tables.find("2 {file_location_id=2 parent_frame_id=2}") != std::string::npos);
  CHECK(OpNameOf(*entry.root()) == "jit(f)/tanh");
}

TEST_CASE("a function is converted once for all its calls", "[ir][stablehlo]") {
  const auto module = Read(R"(module @m {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = call @"<lambda>"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = func.call @"<lambda>"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @"<lambda>"(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.negate %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @unused(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
})");
  CHECK(module->computations().size() == 2);
  CHECK(module->entry()->root()->called(0)->name() == "_lambda_");
}

TEST_CASE("shardings of arguments and results", "[ir][stablehlo]") {
  const auto module = Read(R"(module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>, jax.buffer_donor = true}, %b: tensor<8x8xf32>) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, tensor<8x8xf32>) {
    %0 = stablehlo.add %a, %b : tensor<8x8xf32>
    return %0, %b : tensor<8x8xf32>, tensor<8x8xf32>
  }
})");
  CHECK(module->header().num_partitions == 4);
  CHECK(module->header().buffer_donor.size() == 1);
  CHECK(module->header().propagation_to_output == std::vector<bool>{false, true});
  CHECK(module->header().propagation_to_parameters == std::vector<bool>{false, true});
  CHECK(ToString(module->entry()->parameter(0)->sharding(), {.tiles = true}) ==
        "{devices=[2,2]<=[4]}");
  CHECK(module->entry()->parameter(1)->sharding() == nullptr);
  CHECK(ToString(module->entry()->root()->sharding()->elements[0], {.tiles = true}) ==
        "{devices=[1,2,2]<=[4] last_tile_dim_replicate}");
}

TEST_CASE("what all-to-all splits and concatenates along different dims", "[ir][stablehlo]") {
  const auto module = Read(R"(func.func @main(%x: tensor<4x64xf32>) -> tensor<2x128xf32> {
  %0 = "stablehlo.all_to_all"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, concat_dimension = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<4x64xf32>) -> tensor<2x128xf32>
  return %0 : tensor<2x128xf32>
})");
  const Instruction* root = module->entry()->root();
  CHECK(root->opcode() == Opcode::kReshape);
  CHECK(root->operand(0)->opcode() == Opcode::kTranspose);
  CHECK(ToString(root->operand(0)->operand(0)->shape(), false) == "f32[2,2,64]");
}

TEST_CASE("dynamic shapes are refined by the sizes that are given", "[ir][stablehlo]") {
  const std::string text = R"(module @m {
  func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %1 = call @inner(%0, %x) : (tensor<i32>, tensor<?x4xf32>) -> tensor<?x4xf32>
    return %1 : tensor<?x4xf32>
  }
  func.func private @inner(%n: tensor<i32> {jax.global_constant = "b"}, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {
    %c = stablehlo.constant dense<4> : tensor<1xi32>
    %0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.concatenate %0, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %2 = stablehlo.dynamic_iota %1, dim = 0 : (tensor<2xi32>) -> tensor<?x4xf32>
    %3 = stablehlo.add %x, %2 : tensor<?x4xf32>
    return %3 : tensor<?x4xf32>
  }
})";
  CHECK(ErrorOf(text) == "dim 0 of '%x' has no size");
  stablehlo::ReadOptions options;
  options.dims["b"] = 16;
  const auto module =
      stablehlo::ReadModule(SourceText::FromString("test.mlir", text), nullptr, options);
  REQUIRE(module.has_value());
  CHECK(ToString((*module)->entry()->root()->shape(), false) == "f32[16,4]");
  options.dims = {{"x:0", 3}};
  CHECK(ErrorOf(text, options) == "no error");
}

TEST_CASE("text that is damaged or refused", "[ir][stablehlo]") {
  const auto in_main = [](const std::string& line) {
    return "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  " + line +
           "\n  return %0 : tensor<4xf32>\n}\n";
  };
  CHECK(ErrorOf(in_main("%0 = stablehlo.sin %x : tensor<4xf32>")) ==
        "unknown operation 'stablehlo.sin'");
  CHECK(ErrorOf(in_main("%0 = stablehlo.sine %x : tensor<4xf33>")) == "'f33' is no element type");
  CHECK(ErrorOf(in_main("%0 = stablehlo.sine %x : memref<4xf32>")) ==
        "values of the type 'memref' are not read");
  CHECK(ErrorOf(in_main("%0 = stablehlo.sine %x, %x : tensor<4xf32>")) ==
        "stablehlo.sine has 2 operands, not 1");
  CHECK(ErrorOf(in_main("%0:2 = stablehlo.sine %x : tensor<4xf32>")) ==
        "'stablehlo.sine' has 2 result names and 1 result types");
  CHECK(ErrorOf("module @m {\n}\n") == "this module has no public function to run");
  CHECK(ErrorOf("module @m {") ==
        "the text ends where a function (func.func) or a mesh (sdy.mesh) is expected");
  CHECK(ErrorOf("func.func @main(%x: tensor<4xf32>) {\n  %0 = \"stablehlo.sine\"(%x\n") ==
        "the text ends where ')' after the operands is expected");
  std::string deep = "func.func @main(%x: ";
  for (int i = 0; i < 1000; ++i) deep += "tuple<";
  CHECK(ErrorOf(deep).find("levels of nesting") != std::string::npos);
}

TEST_CASE("what is written reads back and is written the same", "[ir][stablehlo]") {
  const auto module = Read(R"(module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}, %p: tensor<i1>) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
    %c = stablehlo.constant dense<[0.1, 1e-42, 3.0, 0x7FC00000, 1.0e+30, -0.0, 7.0, 1.17549435e-38]> : tensor<8xf32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
    %1 = "stablehlo.if"(%p) ({
      %2 = stablehlo.add %a, %0 : tensor<8x8xf32> loc("jit(f)/add"("f.py":3:1))
      stablehlo.return %2 : tensor<8x8xf32>
    }, {
      stablehlo.return %a : tensor<8x8xf32>
    }) : (tensor<i1>) -> tensor<8x8xf32>
    %3 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%l: tensor<4x8xf32>) {
      %4 = stablehlo.sine %l : tensor<4x8xf32>
      sdy.return %4 : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %3 : tensor<8x8xf32>
  }
})");
  const Expected<std::string> written = stablehlo::WriteModule(*module);
  REQUIRE(written.has_value());
  INFO(*written);
  const auto again = Read(*written);
  CHECK(*stablehlo::WriteModule(*again) == *written);
  CHECK(written->find("sdy.manual_computation") != std::string::npos);
  CHECK(written->find("[{\"x\"}, {?}]") != std::string::npos);
  CHECK(written->find("loc(\"jit(f)/add\"(\"f.py\":3:0))") != std::string::npos);
  // Literals keep their bits.
  const auto bits = [](const Module& m) {
    for (const Instruction* x : m.entry()->instructions()) {
      if (x->opcode() == Opcode::kConstant && x->shape()->rank() == 1) {
        const auto data = x->attributes<ConstantAttributes>().literal->data;
        return std::string(reinterpret_cast<const char*>(data.data()), data.size());
      }
    }
    return std::string();
  };
  CHECK(bits(*module) == bits(*again));
}

}  // namespace
}  // namespace gshard
