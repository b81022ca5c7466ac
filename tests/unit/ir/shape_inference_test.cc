// One good and one bad case at least for every opcode. Shapes are what XLA's parser infers for the
// same text (jaxlib 0.10.2) where it infers; the rest follows docs/semantics.md by hand.
#include "ir/shape_inference.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "ir/source_text.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

// Computations that cases may call.
constexpr const char* kComputations = R"(
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
add_bf16 { p = bf16[] parameter(0) q = bf16[] parameter(1) ROOT r = bf16[] add(p, q) }
less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = pred[] compare(p, q), direction=LT }
less_by_key {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  s = s32[] parameter(2)
  t = s32[] parameter(3)
  ROOT r = pred[] compare(p, q), direction=LT
}
argmax {
  p = f32[] parameter(0)
  s = s32[] parameter(1)
  q = f32[] parameter(2)
  t = s32[] parameter(3)
  ROOT r = (f32[], s32[]) tuple(q, t)
}
negate { p = f32[] parameter(0) ROOT r = f32[] negate(p) }
to_pred { p = f32[] parameter(0) ROOT r = pred[] constant(true) }
negate4 { p = f32[4] parameter(0) ROOT r = f32[4] negate(p) }
only { p = (f32[4]) parameter(0) ROOT r = f32[4] get-tuple-element(p), index=0 }
step {
  p = s32[5] parameter(0)
  c = f32[] parameter(1)
  o = f32[5] convert(p)
  ROOT r = (f32[5], f32[]) tuple(o, c)
}
step_of_two {
  p = s32[5] parameter(0)
  q = s32[] parameter(1)
  c = f32[] parameter(2)
  ROOT r = (s32[5], f32[]) tuple(p, c)
}
)";

struct Case {
  std::string operands;  // shapes of a, b, c, ..; separated by ';'
  std::string root;      // "f32[4] convert(a)"
  std::string expected;  // the inferred shape, or "error: part of the message"
};

std::string ModuleText(const Case& c) {
  std::string text = "HloModule m, num_partitions=4\n";
  text += kComputations;
  text += "ENTRY e {\n";
  size_t begin = 0;
  for (int k = 0; begin < c.operands.size(); ++k) {
    size_t end = std::min(c.operands.find(';', begin), c.operands.size());
    text += fmt::format("  {} = {} parameter({})\n", static_cast<char>('a' + k),
                        c.operands.substr(begin, end - begin), k);
    begin = end + 1;
  }
  return text + "  ROOT r = " + c.root + "\n}\n";
}

// What XLA and we call the verdict: the inferred shape of the root, or what is wrong.
std::string Infer(const Case& c, Opcode* opcode) {
  auto module = ParseModule(SourceText::FromString("case", ModuleText(c)));
  if (!module) return "error: " + module.error().message;
  const Instruction* root = (*module)->entry()->root();
  *opcode = root->opcode();
  if (Expected<void> ok = VerifyModule(**module); !ok) return "error: " + ok.error().message;
  std::vector<const Shape*> operands;
  for (const Instruction* operand : root->operands()) operands.push_back(operand->shape());
  auto shape = InferShape((*module)->context(), {root->opcode(), operands, root->raw_attributes(),
                                                 root->called(), root->shape()});
  return shape ? ToString(*shape, /*layouts=*/false) : "error: " + shape.error();
}

// The opcode in "f32[4] convert(a)", for cases that do not parse.
std::optional<Opcode> OpcodeInText(const std::string& root) {
  std::string name = root.substr(0, root.find('(', root[0] == '(' ? root.rfind(") ") : 0));
  return OpcodeFromName(name.substr(name.rfind(' ') + 1));
}

const std::vector<Case>& ElementwiseCases() {
  static const std::vector<Case> cases = {
      {"f32[4,2]", "abs(a)", "f32[4,2]"},
      {"c64[4]", "abs(a)", "f32[4]"},
      {"c128[4]", "abs(a)", "f64[4]"},
      {"u32[4]", "abs(a)", "error: abs takes arrays of type signed integer, float or complex"},
      {"u8[4]", "negate(a)", "u8[4]"},
      {"pred[4]", "negate(a)", "error: found pred[4]"},
      {"c64[4]", "sign(a)", "c64[4]"},
      {"u32[4]", "sign(a)", "error: sign takes arrays of type signed integer"},
      {"bf16[4]", "floor(a)", "bf16[4]"},
      {"s32[4]", "floor(a)", "error: floor takes arrays of type float, found s32[4]"},
      {"f64[]", "ceil(a)", "f64[]"},
      {"c64[]", "ceil(a)", "error: ceil takes"},
      {"f32[4]", "round-nearest-afz(a)", "f32[4]"},
      {"s32[4]", "round-nearest-afz(a)", "error: round-nearest-afz takes"},
      {"f32[4]", "round-nearest-even(a)", "f32[4]"},
      {"pred[4]", "round-nearest-even(a)", "error: round-nearest-even takes"},
      {"pred[4]", "not(a)", "pred[4]"},
      {"f32[4]", "not(a)", "error: not takes arrays of type pred or integer"},
      {"s4[4]", "popcnt(a)", "s4[4]"},
      {"pred[4]", "popcnt(a)", "error: popcnt takes"},
      {"u32[4]", "count-leading-zeros(a)", "u32[4]"},
      {"f32[4]", "count-leading-zeros(a)", "error: count-leading-zeros takes"},
      {"f32[<=4]", "is-finite(a)", "pred[<=4]"},
      {"c64[4]", "is-finite(a)", "error: is-finite takes"},
      {"f32[4]", "real(a)", "f32[4]"},
      {"c128[4]", "real(a)", "f64[4]"},
      {"s32[4]", "real(a)", "error: real takes"},
      {"c64[4]", "imag(a)", "f32[4]"},
      {"s32[4]", "imag(a)", "error: imag takes"},
      {"(f32[4], token[])", "copy(a)", "(f32[4], token[])"},
      {"f32[4]", "f32[5] copy(a)", "error: must be f32[4], found f32[5]"},
      {"f32[4,<=2]", "s8[4,<=2] convert(a)", "s8[4,<=2]"},
      {"f32[4]", "s8[5] convert(a)", "error: convert keeps the dims"},
      {"f32[4]", "u8[4,4] bitcast-convert(a)", "u8[4,4]"},
      {"u8[4,4]", "f32[4] bitcast-convert(a)", "f32[4]"},
      {"f32[4]", "s32[4] bitcast-convert(a)", "s32[4]"},
      {"u4[4,2]", "u8[4] bitcast-convert(a)", "u8[4]"},
      {"u8[4,2]", "f32[4] bitcast-convert(a)", "error: needs a last dim of size 4"},
      {"u8[]", "f32[] bitcast-convert(a)", "error: needs a last dim of size 4, found u8[]"},
      {"c64[4]", "f32[4,2] bitcast-convert(a)", "error: one is complex, the other is not"},
      {"f32[4]", "f32[4] reduce-precision(a), exponent_bits=5, mantissa_bits=10", "f32[4]"},
      {"f32[4]", "f32[4] reduce-precision(a), exponent_bits=0, mantissa_bits=1",
       "error: exponent_bits must be at least 1"},
      {"f32[4]", "exponential(a)", "f32[4]"},
      {"f32[4]", "exponential-minus-one(a)", "f32[4]"},
      {"f32[4]", "log(a)", "f32[4]"},
      {"c64[4]", "log-plus-one(a)", "c64[4]"},
      {"c64[4]", "logistic(a)", "c64[4]"},
      {"f8e4m3fn[4]", "sqrt(a)", "f8e4m3fn[4]"},
      {"f32[4]", "rsqrt(a)", "f32[4]"},
      {"f32[4]", "cbrt(a)", "f32[4]"},
      {"c64[4]", "cbrt(a)", "error: cbrt takes arrays of type float, found c64[4]"},
      {"f32[4]", "sine(a)", "f32[4]"},
      {"f32[4]", "cosine(a)", "f32[4]"},
      {"f32[4]", "tan(a)", "f32[4]"},
      {"c64[4]", "tanh(a)", "c64[4]"},
      {"f32[4]", "sinh(a)", "f32[4]"},
      {"f32[4]", "cosh(a)", "f32[4]"},
      {"f32[4]", "asin(a)", "f32[4]"},
      {"f32[4]", "acos(a)", "f32[4]"},
      {"f32[4]", "asinh(a)", "f32[4]"},
      {"f32[4]", "acosh(a)", "f32[4]"},
      {"f32[4]", "atanh(a)", "f32[4]"},
      {"f32[4]", "erf(a)", "f32[4]"},
      {"c64[4]", "erf(a)", "error: erf takes"},
      {"pred[4];pred[4]", "add(a, b)", "pred[4]"},
      {"f32[4];bf16[4]", "add(a, b)", "f32[4]"},
      {"f16[4];bf16[4]", "add(a, b)", "bf16[4]"},
      {"f8e4m3fn[4];f8e5m2[4]", "add(a, b)", "f8e5m2[4]"},
      {"f32[<=4];f32[4]", "add(a, b)", "f32[<=4]"},
      {"f32[?];f32[4]", "add(a, b)", "f32[4]"},
      {"f32[?];f32[<=4]", "add(a, b)", "f32[<=4]"},
      {"f32[<=4];f32[3]", "add(a, b)", "error: must have the same dims"},
      {"f32[];f32[4]", "add(a, b)", "error: must have the same dims, found f32[] and f32[4]"},
      {"s32[4];s64[4]", "add(a, b)", "error: must have the same element type"},
      {"c64[4];c128[4]", "add(a, b)", "error: must have the same element type"},
      {"f32[4]", "f32[4] add(a)", "error: add takes 2 operands"},
      {"c64[4];c64[4]", "subtract(a, b)", "c64[4]"},
      {"pred[4];pred[4]", "subtract(a, b)", "error: subtract takes"},
      {"pred[4];pred[4]", "multiply(a, b)", "pred[4]"},
      {"(f32[4]);f32[4]", "multiply(a, b)", "error: multiply takes arrays"},
      {"u64[4];u64[4]", "mulhi(a, b)", "u64[4]"},
      {"f32[4];f32[4]", "mulhi(a, b)", "error: mulhi takes arrays of type integer"},
      {"s32[4];s32[4]", "divide(a, b)", "s32[4]"},
      {"pred[4];pred[4]", "divide(a, b)", "error: divide takes"},
      {"u8[4];u8[4]", "remainder(a, b)", "u8[4]"},
      {"pred[4];pred[4]", "remainder(a, b)", "error: remainder takes"},
      {"s32[4];s32[4]", "power(a, b)", "s32[4]"},
      {"pred[4];pred[4]", "power(a, b)", "error: power takes"},
      {"c64[4];c64[4]", "atan2(a, b)", "c64[4]"},
      {"s32[4];s32[4]", "atan2(a, b)", "error: atan2 takes arrays of type float or complex"},
      {"pred[4];pred[4]", "maximum(a, b)", "pred[4]"},
      {"f32[4];s32[4]", "maximum(a, b)", "error: must have the same element type"},
      {"s32[4];s32[4]", "minimum(a, b)", "s32[4]"},
      {"token[];token[]", "minimum(a, b)", "error: minimum takes arrays"},
      {"pred[4];pred[4]", "and(a, b)", "pred[4]"},
      {"f32[4];f32[4]", "and(a, b)", "error: and takes arrays of type pred or integer"},
      {"u8[4];u8[4]", "or(a, b)", "u8[4]"},
      {"f32[4];f32[4]", "or(a, b)", "error: or takes"},
      {"s64[4];s64[4]", "xor(a, b)", "s64[4]"},
      {"c64[4];c64[4]", "xor(a, b)", "error: xor takes"},
      {"s32[4];s32[4]", "shift-left(a, b)", "s32[4]"},
      {"pred[4];pred[4]", "shift-left(a, b)", "error: shift-left takes"},
      {"s32[4];s32[4]", "shift-right-arithmetic(a, b)", "s32[4]"},
      {"pred[4];pred[4]", "shift-right-arithmetic(a, b)", "error: shift-right-arithmetic takes"},
      {"u32[4];u32[4]", "shift-right-logical(a, b)", "u32[4]"},
      {"pred[4];pred[4]", "shift-right-logical(a, b)", "error: shift-right-logical takes"},
      {"f32[4];f32[4]", "complex(a, b)", "c64[4]"},
      {"f64[4];f64[4]", "complex(a, b)", "c128[4]"},
      {"bf16[4];bf16[4]", "complex(a, b)", "error: complex takes two f32 or two f64 arrays"},
      {"f32[4];u32[4]", "bf16[4] stochastic-convert(a, b)", "bf16[4]"},
      {"f32[4];u16[4]", "bf16[4] stochastic-convert(a, b)", "error: random bits of the same width"},
      {"f32[4];bf16[4]", "compare(a, b), direction=LT", "pred[4]"},
      {"c64[4];c64[4]", "compare(a, b), direction=NE", "pred[4]"},
      {"c64[4];c64[4]", "compare(a, b), direction=LT", "error: complex numbers have no order"},
      {"pred[];f32[4];f32[4]", "select(a, b, c)", "f32[4]"},
      {"pred[4];f32[4];bf16[4]", "select(a, b, c)", "f32[4]"},
      {"pred[<=4];f32[4];f32[4]", "select(a, b, c)", "f32[4]"},
      {"s32[4];f32[4];f32[4]", "select(a, b, c)", "error: must be of type pred"},
      {"pred[4];f32[];f32[]", "select(a, b, c)", "error: must be a scalar or have the dims"},
      {"pred[];(f32[4]);(f32[4])", "select(a, b, c)", "error: operands of select must be arrays"},
      {"f32[];f32[4];f32[4]", "clamp(a, b, c)", "f32[4]"},
      {"pred[4];pred[4];pred[4]", "clamp(a, b, c)", "pred[4]"},
      {"f32[4];f32[];f32[4]", "clamp(a, b, c)", "error: a bound of clamp must be a scalar"},
      {"f32[4,2]", "map(a), dimensions={0,1}, to_apply=to_pred", "pred[4,2]"},
      {"f32[4,2]", "map(a), dimensions={1,0}, to_apply=to_pred", "error: map works on all dims"},
      {"s32[4]", "map(a), dimensions={0}, to_apply=negate", "error: must be s32[], found f32[]"},
      {"f32[4];f32[]", "map(a, b), dimensions={0}, to_apply=add", "error: must have the same dims"},
  };
  return cases;
}

const std::vector<Case>& MovementCases() {
  static const std::vector<Case> cases = {
      {"f32[2,3]", "f32[3,5,2] broadcast(a), dimensions={2,0}", "f32[3,5,2]"},
      {"f32[1,3]", "f32[2,3] broadcast(a), dimensions={0,1}", "f32[2,3]"},
      {"f32[]", "f32[2,3] broadcast(a), dimensions={}", "f32[2,3]"},
      {"f32[3]", "f32[2,4] broadcast(a), dimensions={1}", "error: sizes 3 and 4 differ"},
      {"f32[3,3]", "f32[3,3] broadcast(a), dimensions={0,0}", "error: names dim 0 twice"},
      {"f32[2,3]", "f32[3,2] reshape(a)", "f32[3,2]"},
      {"f32[0,3]", "f32[5,0] reshape(a)", "f32[5,0]"},
      {"f32[2,3]", "f32[7] reshape(a)", "error: f32[2,3] has 6, f32[7] has 7"},
      {"f32[6];s32[];s32[]", "f32[<=3,2] dynamic-reshape(a, b, c)", "f32[<=3,2]"},
      {"f32[6];s32[]", "f32[<=3,2] dynamic-reshape(a, b)", "error: one size per dim"},
      {"f32[2,3]", "s32[6] bitcast(a)", "s32[6]"},
      {"f32[2,3]", "f64[6] bitcast(a)", "error: f32[2,3] has 24, f64[6] has 48"},
      {"f32[4,<=5]", "transpose(a), dimensions={1,0}", "f32[<=5,4]"},
      {"f32[2,3,4]", "transpose(a), dimensions={2,0,1}", "f32[4,2,3]"},
      {"f32[2,3]", "transpose(a), dimensions={1,1}", "error: names dim 1 twice"},
      {"f32[2,3]", "transpose(a), dimensions={0}", "error: must be a permutation of the 2 dims"},
      {"f32[8,6]", "f32[3,6] slice(a), slice={[1:7:2], [0:6]}", "f32[3,6]"},
      {"f32[8]", "f32[0] slice(a), slice={[8:8]}", "f32[0]"},
      {"f32[8]", "f32[4] slice(a), slice={[5:9]}", "error: slice [5:9] does not fit dim 0"},
      {"f32[8]", "f32[4] slice(a), slice={[0:8:0]}", "error: must be positive, found 0"},
      {"f32[4,<=5];f32[]", "pad(a, b), padding=-1_2_1x0_1", "f32[8,<=6]"},
      {"f32[0];f32[]", "pad(a, b), padding=1_1_3", "f32[2]"},
      {"f32[5];f32[]", "pad(a, b), padding=-5_4_2", "f32[12]"},
      {"f32[4];f32[]", "pad(a, b), padding=-5_0", "error: leaves no valid size"},
      {"f32[4];f32[]", "pad(a, b), padding=0_9223372036854775800",
       "error: more bytes than 64 bits"},
      {"f32[4];s32[]", "pad(a, b), padding=1_0", "error: must have the type of the operand"},
      {"f32[4,5];f32[4,6]", "concatenate(a, b), dimensions={1}", "f32[4,11]"},
      {"f32[4,<=5];f32[4,6]", "concatenate(a, b), dimensions={1}", "f32[4,<=11]"},
      {"f32[4,<=5];f32[4,5]", "concatenate(a, b), dimensions={0}", "f32[8,<=5]"},
      {"f32[4,?];f32[4,5]", "concatenate(a, b), dimensions={1}", "f32[4,?]"},
      {"f32[4,5];f32[3,5]", "concatenate(a, b), dimensions={1}", "error: agree in type and other"},
      {"f32[4,5]", "reverse(a), dimensions={1,0}", "f32[4,5]"},
      {"f32[4,5]", "reverse(a), dimensions={}", "f32[4,5]"},
      {"f32[4,5]", "reverse(a), dimensions={1,1}", "error: names dim 1 twice"},
      {"f32[8,6];s32[]", "f32[2,6] dynamic-slice(a, b, b), dynamic_slice_sizes={2,6}", "f32[2,6]"},
      {"f32[8,6];u8[2]", "f32[2,6] dynamic-slice(a, b), dynamic_slice_sizes={2,6}", "f32[2,6]"},
      {"f32[8,6];s32[]", "f32[9,6] dynamic-slice(a, b, b), dynamic_slice_sizes={9,6}",
       "error: does not fit dim 0"},
      {"f32[8];f32[]", "f32[2] dynamic-slice(a, b), dynamic_slice_sizes={2}",
       "error: must be integer scalars, found f32[]"},
      {"f32[8,6];f32[2,6];s32[]", "f32[8,6] dynamic-update-slice(a, b, c, c)", "f32[8,6]"},
      {"f32[8,6];f32[2,7];s32[]", "f32[8,6] dynamic-update-slice(a, b, c, c)",
       "error: must fit into f32[8,6]"},
      {"f32[<=8,6]", "get-dimension-size(a), dimensions={0}", "s32[]"},
      {"f32[8]", "get-dimension-size(a), dimensions={1}", "error: dimensions 1 is out of range"},
      {"f32[8,6];s32[]", "set-dimension-size(a, b), dimensions={1}", "f32[8,<=6]"},
      {"f32[8];s64[]", "set-dimension-size(a, b), dimensions={0}", "error: must be s32[]"},
  };
  return cases;
}

const std::vector<Case>& ContractionCases() {
  static const std::vector<Case> cases = {
      {"f32[4,8];f32[8,5]", "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "f32[4,5]"},
      {"bf16[4,8];f32[8,5]", "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "f32[4,5]"},
      {"bf16[4,8];bf16[8,5]",
       "f32[4,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "f32[4,5]"},
      {"s8[4,8];u8[8,5]", "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "s8[4,5]"},
      {"f32[4,8];f32[8,5]", "dot(a, b)", "f32[4,8,8,5]"},
      {"f32[<=4,8];f32[<=8,5]", "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "f32[<=4,5]"},
      {"f32[2,3,4,8];f32[3,2,8,5]",
       "dot(a, b), lhs_batch_dims={1,0}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, "
       "rhs_contracting_dims={2}",
       "f32[3,2,4,5]"},
      {"f32[4,8];f32[7,5]", "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "error: dot contracts dim 1 of f32[4,8] (size 8) with dim 0 of f32[7,5] (size 7)"},
      {"f32[2,2];f32[2,2]",
       "dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={0}, rhs_batch_dims={0}, "
       "rhs_contracting_dims={1}",
       "error: must be different dims"},
      {"f32[4,8];f32[8,5]",
       "s32[4,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "error: cannot have results of type s32"},
      {"f32[6,8];f32[3,8,5];s32[3]",
       "ragged-dot(a, b, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
       "lhs_ragged_dims={0}, rhs_group_dims={0}",
       "f32[6,5]"},
      {"f32[6,8];f32[6,5];s64[3]",
       "ragged-dot(a, b, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
       "lhs_ragged_dims={0}",
       "f32[3,8,5]"},
      {"f32[2,6,8];f32[2,6,5];s64[2,3]",
       "ragged-dot(a, b, c), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, "
       "rhs_contracting_dims={1}, lhs_ragged_dims={1}",
       "f32[3,2,8,5]"},
      {"f32[2,6,8];f32[2,6,5];s64[3]",
       "ragged-dot(a, b, c), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, "
       "rhs_contracting_dims={1}, lhs_ragged_dims={0}",
       "f32[2,8,5]"},
      {"f32[6,8];bf16[3,8,5];s32[3]",
       "ragged-dot(a, b, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
       "lhs_ragged_dims={0}, rhs_group_dims={0}",
       "f32[6,5]"},
      {"f32[<=2,6,8];f32[2,6,5];s64[3]",
       "ragged-dot(a, b, c), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, "
       "rhs_contracting_dims={1}, lhs_ragged_dims={0}",
       "f32[<=2,8,5]"},
      {"f32[6,8];f32[3,8,5];s32[2]",
       "ragged-dot(a, b, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
       "lhs_ragged_dims={0}, rhs_group_dims={0}",
       "error: must have one entry per group size"},
      {"f8e4m3fn[4,64];f8e4m3fn[64,8];f8e8m0fnu[4,2];f8e8m0fnu[2,8]",
       "f32[4,8] scaled-dot(a, b, c, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "f32[4,8]"},
      {"f8e4m3fn[4,64];bf16[64,8];f8e8m0fnu[4,3];bf16[]",
       "f32[4,8] scaled-dot(a, b, c, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "error: divide the dims of f8e4m3fn[4,64], found f8e8m0fnu[4,3]"},
      {"f32[4,10,12,8];f32[3,3,8,16]",
       "convolution(a, b), window={size=3x3 stride=2x1 pad=1_1x0_-1 lhs_dilate=1x2 "
       "rhs_dilate=2x1}, dim_labels=b01f_01io->b01f",
       "f32[4,4,20,16]"},
      {"f32[4,10,10,8];f32[3,3,8,16]",
       "convolution(a, b), window={size=3x3}, dim_labels=b01f_01io->f01b, batch_group_count=4",
       "f32[16,8,8,1]"},
      {"f32[4,2,8];f32[3,8,16]", "convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f",
       "f32[4,0,16]"},
      {"bf16[4,8];f32[8,16]", "convolution(a, b), dim_labels=bf_io->bf", "f32[4,16]"},
      {"f32[<=4,8];f32[8,16]", "convolution(a, b), dim_labels=bf_io->bf", "f32[<=4,16]"},
      {"f32[4,10,8];f32[3,4,16]",
       "convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2, "
       "batch_group_count=2",
       "error: not both above 1, found 2 and 2"},
      {"f32[4,10,10,8];f32[3,3,8,16]",
       "convolution(a, b), window={size=2x3}, dim_labels=b01f_01io->b01f",
       "error: window size 2 does not match"},
      {"f32[4,10,8];f32[3,8,16]",
       "convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=4",
       "error: has 8 features, the rhs takes 8 in 4 groups"},
  };
  return cases;
}

const std::vector<Case>& ReductionCases() {
  static const std::vector<Case> cases = {
      {"f32[2,3,4];f32[]", "reduce(a, b), dimensions={2,0}, to_apply=add", "f32[3]"},
      {"f32[<=2,<=3];f32[]", "reduce(a, b), dimensions={1}, to_apply=add", "f32[<=2]"},
      {"bf16[2,3];bf16[]", "reduce(a, b), dimensions={1}, to_apply=add", "f32[2]"},
      {"f32[2,3];s32[2,3];f32[];s32[]", "reduce(a, b, c, d), dimensions={1}, to_apply=argmax",
       "(f32[2], s32[2])"},
      {"f32[2,3];f32[]", "reduce(a, b), dimensions={1,1}, to_apply=add",
       "error: names dim 1 twice"},
      {"s32[2];s32[]", "reduce(a, b), dimensions={0}, to_apply=add", "error: must be s32[]"},
      {"f32[2];f32[2]", "reduce(a, b), dimensions={0}, to_apply=add", "error: initial value 0"},
      {"f32[2,9,4];f32[]",
       "reduce-window(a, b), window={size=1x3x1 stride=1x2x1 pad=0_0x1_1x0_0}, to_apply=add",
       "f32[2,5,4]"},
      {"f32[2,9,4];f32[]",
       "reduce-window(a, b), window={size=1x2x1 lhs_dilate=1x2x1 rhs_dilate=1x3x1}, to_apply=add",
       "f32[2,14,4]"},
      {"f32[9];s32[9];f32[];s32[]", "reduce-window(a, b, c, d), window={size=3}, to_apply=argmax",
       "(f32[7], s32[7])"},
      {"f32[4,5];f32[]", "reduce-window(a, b), window={size=2}, to_apply=add",
       "error: one window dim per dim"},
      {"f32[4];f32[]", "reduce-window(a, b), window={size=0}, to_apply=add",
       "error: window size of dim 0 must be positive"},
      {"f32[4];f32[3];f32[]",
       "select-and-scatter(a, b, c), window={size=2}, select=less, scatter=add", "f32[4]"},
      {"f32[4];f32[4];f32[]",
       "select-and-scatter(a, b, c), window={size=2}, select=less, scatter=add",
       "error: leave size 3 in dim 0, the source is f32[4]"},
      {"f32[4];f32[3];f32[]",
       "select-and-scatter(a, b, c), window={size=2}, select=add, scatter=add",
       "error: select add must return pred[]"},
      {"s32[4,5];f32[]", "scan(a, b), dimensions={0}, num_carries=1, to_apply=step",
       "(f32[4,5], f32[])"},
      {"s32[5,4];f32[]", "scan(a, b), dimensions={1}, num_carries=1, to_apply=step",
       "(f32[5,4], f32[])"},
      {"s32[5,4];f32[]",
       "(f32[5,4], f32[]) scan(a, b), dimensions={0}, num_carries=1, to_apply=step",
       "error: parameter 0 of computation step must be s32[4]"},
      {"s32[5,4];s32[4];f32[]",
       "scan(a, b, c), dimensions={1}, num_carries=1, to_apply=step_of_two",
       "error: inputs of scan must have 4 elements along dim 1, found s32[4]"},
      {"f32[4,8,3];f32[8];f32[8]", "batch-norm-training(a, b, c), epsilon=0.001, feature_index=1",
       "(f32[4,8,3], f32[8], f32[8])"},
      {"bf16[4,8];f32[8];f32[8]", "batch-norm-training(a, b, c), epsilon=0.001, feature_index=1",
       "(bf16[4,8], bf16[8], bf16[8])"},
      {"f32[4,8];f32[8];f32[8]", "batch-norm-training(a, b, c), epsilon=0.001, feature_index=2",
       "error: feature_index 2 is out of range"},
      {"f32[4,8];f32[8]", "batch-norm-inference(a, b, b, b, b), epsilon=0.001, feature_index=1",
       "f32[4,8]"},
      {"f32[4,8];f32[4]", "batch-norm-inference(a, b, b, b, b), epsilon=0.001, feature_index=1",
       "error: a vector over the 8 features"},
      {"f32[4,8];f32[8]", "batch-norm-grad(a, b, b, b, a), epsilon=0.001, feature_index=1",
       "(f32[4,8], f32[8], f32[8])"},
      {"f32[4,8];f32[8]", "batch-norm-grad(a, b, b, b, b), epsilon=0.001, feature_index=1",
       "error: operand 4 of batch-norm-grad must be f32[4,8]"},
      {"f32[4,8];s32[4,8]", "sort(a, b), dimensions={1}, to_apply=less_by_key",
       "(f32[4,8], s32[4,8])"},
      {"f32[4]", "sort(a), dimensions={0}, to_apply=less", "f32[4]"},
      {"f32[4]", "sort(a), dimensions={1}, to_apply=less", "error: dimensions 1 is out of range"},
      {"f32[4]", "sort(a), dimensions={0}, to_apply=add",
       "error: comparator add must return pred[]"},
      {"bf16[4,8]", "topk(a), k=3, largest=true", "(bf16[4,3], s32[4,3])"},
      {"f32[4,8]", "topk(a), k=9, largest=true", "error: topk takes up to the 8 elements"},
      {"f32[10,4,6];s32[3,5,2]",
       "gather(a, b), offset_dims={1}, collapsed_slice_dims={0,2}, start_index_map={2,0}, "
       "index_vector_dim=2, slice_sizes={1,4,1}",
       "f32[3,4,5]"},
      {"f32[3,5,4];s32[5,3,1]",
       "gather(a, b), offset_dims={2}, collapsed_slice_dims={}, start_index_map={2}, "
       "operand_batching_dims={0,1}, start_indices_batching_dims={1,0}, index_vector_dim=2, "
       "slice_sizes={1,1,4}",
       "f32[5,3,4]"},
      {"f32[<=3,5];s32[<=7,1]",
       "gather(a, b), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=1, slice_sizes={1,5}",
       "f32[<=7,5]"},
      {"f32[10];s32[3]",
       "gather(a, b), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=1, slice_sizes={1}",
       "f32[3]"},
      {"f32[10];s32[3]",
       "gather(a, b), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
       "index_vector_dim=1, slice_sizes={2}",
       "error: so its slice size must be 1, found 2"},
      {"f32[10,4,6];s32[3,5,2];f32[3,4,5]",
       "scatter(a, b, c), update_window_dims={1}, inserted_window_dims={0,2}, "
       "scatter_dims_to_operand_dims={2,0}, index_vector_dim=2, to_apply=add",
       "f32[10,4,6]"},
      {"bf16[4];s32[2];bf16[2]",
       "scatter(a, b, c), update_window_dims={}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
       "bf16[4]"},
      {"f32[4];s32[4];u32[2];f32[2];s32[2]",
       "scatter(a, b, c, d, e), update_window_dims={}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=argmax",
       "(f32[4], s32[4])"},
      {"f32[4];s32[2];f32[3]",
       "scatter(a, b, c), update_window_dims={}, inserted_window_dims={0}, "
       "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
       "error: dim 0 of updates f32[3] must have the size of dim 0 of indices s32[2]"},
  };
  return cases;
}

const std::vector<Case>& SourceCases() {
  static const std::vector<Case> cases = {
      {"", "f32[2,<=3] parameter(0)", "f32[2,<=3]"},
      {"", "s32[2] constant({1, 2})", "s32[2]"},
      {"", "bf16[3,2] iota(), iota_dimension=1", "bf16[3,2]"},
      {"", "s32[] iota(), iota_dimension=0", "error: iota needs at least one dim"},
      {"", "pred[4] iota(), iota_dimension=0", "error: found pred[4]"},
      {"", "partition-id()", "u32[]"},
      {"", "s32[] partition-id()", "error: must be u32[], found s32[]"},
      {"", "replica-id()", "u32[]"},
      {"", "u32[1] replica-id()", "error: must be u32[], found u32[1]"},
      {"f32[]", "f32[4,4] rng(a, a), distribution=rng_normal", "f32[4,4]"},
      {"f32[]", "f64[4] rng(a, a), distribution=rng_uniform",
       "error: operands of rng must be f64[]"},
      {"u64[2]", "(u64[2], u32[8]) rng-bit-generator(a), algorithm=rng_three_fry",
       "(u64[2], u32[8])"},
      {"u64[2]", "(u64[3], u32[8]) rng-bit-generator(a), algorithm=rng_three_fry",
       "error: returns its new state u64[2]"},
      {"", "u64[2] rng-get-and-update-state(), delta=3", "u64[2]"},
      {"", "u32[2] rng-get-and-update-state(), delta=3", "error: returns u64[2]"},
      {"c64[3,4,4]", "cholesky(a), lower=true", "c64[3,4,4]"},
      {"f32[4,5]", "cholesky(a)", "error: square matrices"},
      {"f32[3,4,4];f32[3,4,2]", "triangular-solve(a, b), left_side=true, transpose_a=NO_TRANSPOSE",
       "f32[3,4,2]"},
      {"f32[4,4];f32[2,4]", "triangular-solve(a, b), transpose_a=TRANSPOSE", "f32[2,4]"},
      {"f32[4,4];f32[2,4]", "triangular-solve(a, b), left_side=true, transpose_a=TRANSPOSE",
       "error: matching right-hand side"},
      {"c64[5,8]", "fft(a), fft_type=IFFT, fft_length={5,8}", "c64[5,8]"},
      {"f64[5,8]", "fft(a), fft_type=RFFT, fft_length={8}", "c128[5,5]"},
      {"c64[5,8]", "fft(a), fft_type=IRFFT, fft_length={14}", "f32[5,14]"},
      {"c64[5,8]", "fft(a), fft_type=IRFFT, fft_length={15}", "f32[5,15]"},
      {"f32[5,8]", "fft(a), fft_type=RFFT, fft_length={7}", "error: needs size 7 in dim 1"},
      {"c64[8]", "fft(a), fft_type=FFT, fft_length={8,8}", "error: no more than the dims"},
  };
  return cases;
}

const std::vector<Case>& ControlCases() {
  static const std::vector<Case> cases = {
      {"f32[]", "while(a), condition=to_pred, body=negate", "f32[]"},
      {"f32[]", "while(a), condition=negate, body=negate", "error: condition negate must return"},
      {"f32[4]", "while(a), condition=to_pred, body=negate", "error: parameter 0 of condition"},
      {"pred[];f32[4];(f32[4])",
       "conditional(a, b, c), true_computation=negate4, false_computation=only", "f32[4]"},
      {"s32[];f32[4];(f32[4])",
       "conditional(a, b, c, b), branch_computations={negate4, only, negate4}", "f32[4]"},
      {"s32[];f32[4]", "conditional(a, b, b), branch_computations={negate4, only}",
       "error: parameter 0 of branch only must be f32[4], found (f32[4])"},
      {"f32[4]", "call(a), to_apply=negate4", "f32[4]"},
      {"f32[4]", "call(a, a), to_apply=negate4", "error: must take 2 parameters, found 1"},
      {"f32[4]", "f32[4] fusion(a), kind=kLoop, calls=negate4", "f32[4]"},
      {"f32[4]", "f32[5] fusion(a), kind=kLoop, calls=negate4", "error: must be f32[4]"},
      {"f32[4]", "((f32[4]), f32[4], u32[]) async-start(a), calls=negate4",
       "((f32[4]), f32[4], u32[])"},
      {"f32[4]", "((f32[4]), f32[5]) async-start(a), calls=negate4",
       "error: found ((f32[4]), f32[5])"},
      {"f32[4]", "f32[4] async-done(a)", "error: found"},
      {"f32[4]", "f32[4] async-update(a)", "error: found"},
      {"f32[4];s32[]", "tuple(a, b, a)", "(f32[4], s32[], f32[4])"},
      {"", "tuple()", "()"},
      {"f32[4]", "(f32[5]) tuple(a)", "error: must be (f32[4]), found (f32[5])"},
      {"(f32[4], s32[])", "get-tuple-element(a), index=1", "s32[]"},
      {"(f32[4], s32[])", "get-tuple-element(a), index=2", "error: out of range for a tuple of 2"},
      {"f32[4]", "get-tuple-element(a), index=0", "error: takes a tuple, found f32[4]"},
      {"(f32[4], token[])", "opt-barrier(a)", "(f32[4], token[])"},
      {"f32[4]", "f32[5] opt-barrier(a)", "error: must be f32[4]"},
      {"token[]", "after-all(a, a)", "token[]"},
      {"f32[4]", "after-all(a)", "error: after-all takes tokens"},
      {"f32[4];token[]", "add-dependency(a, b)", "f32[4]"},
      {"f32[4]", "add-dependency(a, a)", "error: must be a token"},
      {"f32[4]", "domain(a), domain={kind=\"sharding\", entry={replicated}, exit={replicated}}",
       "f32[4]"},
      {"f32[4]",
       "f32[5] domain(a), domain={kind=\"sharding\", entry={replicated}, exit={replicated}}",
       "error: must be f32[4]"},
      {"f32[4]", "(f32[4], f32[4], u32[]) copy-start(a)", "(f32[4], f32[4], u32[])"},
      {"f32[4]", "(f32[4], f32[4]) copy-start(a)", "error: found (f32[4], f32[4])"},
      {"f32[4]", "f32[4] copy-done(a)", "error: found"},
      {"f32[4]", "f32[9] custom-call(a), custom_call_target=\"x\"", "f32[9]"},
      {"f32[4]", "f32[9] custom-call(a), custom_call_target=\"Sharding\"",
       "error: a Sharding custom-call returns its one operand"},
  };
  return cases;
}

const std::vector<Case>& CollectiveCases() {
  static const std::vector<Case> cases = {
      {"f32[4];f32[2]", "(f32[4], f32[2]) all-reduce(a, b), replica_groups={}, to_apply=add",
       "(f32[4], f32[2])"},
      {"s32[4]", "s32[4] all-reduce(a), replica_groups={}, to_apply=add",
       "error: must combine s32[], found f32[]"},
      {"f32[4,2]",
       "f32[8,2] all-gather(a), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}, "
       "use_global_device_ids=true",
       "f32[8,2]"},
      {"f32[4];f32[2]",
       "(f32[16], f32[8]) all-gather(a, b), channel_id=1, replica_groups=[1,4]<=[4], "
       "dimensions={0}, use_global_device_ids=true",
       "(f32[16], f32[8])"},
      {"f32[4];f32[2]",
       "(f32[16], f32[4]) all-gather(a, b), channel_id=1, replica_groups=[1,4]<=[4], "
       "dimensions={0}, use_global_device_ids=true",
       "error: by one factor, found 4 and 2"},
      {"f32[4]",
       "f32[8] all-gather(a), channel_id=1, replica_groups={}, dimensions={0}, "
       "use_global_device_ids=true",
       "error: all-gather of groups of 4 must make dim 0 of f32[4] 4 times as large"},
      {"f32[4];f32[4]", "f32[8] all-gather(a, b), replica_groups={{0,1}}, dimensions={0}",
       "error: all-gather of 2 operands returns a tuple of 2"},
      {"f32[4]", "f32[8] all-gather(a), replica_groups={{0,1}}, dimensions={1}",
       "error: out of range for rank 1"},
      {"f32[8]",
       "f32[4] reduce-scatter(a), channel_id=1, replica_groups={{0,1},{2,3}}, "
       "use_global_device_ids=true, dimensions={0}, to_apply=add",
       "f32[4]"},
      {"f32[8]",
       "f32[3] reduce-scatter(a), channel_id=1, replica_groups={{0,1},{2,3}}, "
       "use_global_device_ids=true, dimensions={0}, to_apply=add",
       "error: a divisor of that of f32[8]"},
      {"f32[8,2]",
       "f32[8,2] all-to-all(a), channel_id=1, replica_groups=[1,4]<=[4], dimensions={0}",
       "f32[8,2]"},
      {"f32[8]", "(f32[8], f32[8]) all-to-all(a, a), channel_id=1, replica_groups={{0,1},{2,3}}",
       "(f32[8], f32[8])"},
      {"f32[6]", "f32[6] all-to-all(a), channel_id=1, replica_groups=[1,4]<=[4], dimensions={0}",
       "error: into 4 blocks, which does not divide"},
      {"f32[6,8];f32[9,8];s32[2]",
       "f32[9,8] ragged-all-to-all(a, b, c, c, c, c), replica_groups={}", "f32[9,8]"},
      {"f32[6,8];f32[9,7];s32[2]",
       "f32[9,7] ragged-all-to-all(a, b, c, c, c, c), replica_groups={}",
       "error: must agree in all but dim 0"},
      {"f32[6]", "f32[6] collective-permute(a), channel_id=1, source_target_pairs={{0,1},{1,0}}",
       "f32[6]"},
      {"f32[6]", "f32[6] collective-permute(a), channel_id=1, source_target_pairs={{0,1},{0,2}}",
       "error: has device 0 twice as a source"},
      {"f32[6];f32[9];s32[]",
       "f32[9] collective-permute(a, b, c, c), channel_id=1, source_target_pairs={{0,1}}, "
       "slice_sizes={{1}}",
       "f32[9]"},
      {"f32[6]", "f32[6] collective-broadcast(a), channel_id=1, replica_groups={{0,1},{2,3}}",
       "f32[6]"},
      {"f32[6]", "f32[7] collective-broadcast(a), channel_id=1, replica_groups={{0,1},{2,3}}",
       "error: must be f32[6]"},
      {"f32[4]", "f32[4] all-reduce-start(a), replica_groups={}, to_apply=add", "f32[4]"},
      {"f32[4]", "f32[5] all-reduce-start(a), replica_groups={}, to_apply=add",
       "error: must be f32[4]"},
      {"f32[4]", "f32[4] all-reduce-done(a)", "error: must take the result of all-reduce-start"},
      {"f32[4]",
       "(f32[4], f32[8]) all-gather-start(a), channel_id=1, replica_groups={{0,1},{2,3}}, "
       "dimensions={0}, use_global_device_ids=true",
       "(f32[4], f32[8])"},
      {"f32[4]", "f32[8] all-gather-start(a), replica_groups={{0,1}}, dimensions={0}",
       "error: all-gather-start returns (operands, results)"},
      {"f32[4]", "f32[4] all-gather-done(a)", "error: takes the result of its start"},
      {"f32[4]",
       "(f32[4], f32[4], u32[], u32[]) collective-permute-start(a), channel_id=1, "
       "source_target_pairs={{0,1}}",
       "(f32[4], f32[4], u32[], u32[])"},
      {"f32[4]",
       "(f32[4], f32[5], u32[], u32[]) collective-permute-start(a), channel_id=1, "
       "source_target_pairs={{0,1}}",
       "error: must be (f32[4], f32[4], u32[], u32[])"},
      {"f32[4]", "f32[4] collective-permute-done(a)", "error: takes the result of its start"},
      {"f32[4];token[]", "(f32[4], u32[], token[]) send(a, b), channel_id=1",
       "(f32[4], u32[], token[])"},
      {"f32[4];f32[]", "(f32[4], u32[], token[]) send(a, b), channel_id=1",
       "error: operand 1 of send must be a token"},
      {"(f32[4], u32[], token[])", "token[] send-done(a), channel_id=1", "token[]"},
      {"f32[4]", "token[] send-done(a), channel_id=1", "error: must be (data, u32[], token[])"},
      {"token[]", "(f32[4], u32[], token[]) recv(a), channel_id=1", "(f32[4], u32[], token[])"},
      {"token[]", "(f32[4], token[]) recv(a), channel_id=1",
       "error: must be (data, u32[], token[])"},
      {"(f32[4], u32[], token[])", "(f32[4], token[]) recv-done(a), channel_id=1",
       "(f32[4], token[])"},
      {"(f32[4], u32[], token[])", "(f32[5], token[]) recv-done(a), channel_id=1",
       "error: must be (f32[4], token[])"},
      {"token[]", "((f32[4], s32[]), token[]) infeed(a)", "((f32[4], s32[]), token[])"},
      {"token[]", "(f32[4], s32[]) infeed(a)", "error: infeed returns (data, token[])"},
      {"f32[4];token[]", "token[] outfeed(a, b), outfeed_shape=f32[4]", "token[]"},
      {"f32[4];token[]", "token[] outfeed(a, b), outfeed_shape=f32[5]",
       "error: outfeed_shape must be that of the data"},
  };
  return cases;
}

std::vector<Case> AllCases() {
  std::vector<Case> all;
  for (const auto* cases :
       {&ElementwiseCases(), &MovementCases(), &ContractionCases(), &ReductionCases(),
        &SourceCases(), &ControlCases(), &CollectiveCases()}) {
    all.insert(all.end(), cases->begin(), cases->end());
  }
  return all;
}

// Cases of pairs whose -done needs its -start beside it.
const char* kPairs = R"(
HloModule m, num_partitions=4
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] all-reduce-start(x), channel_id=1, replica_groups={}, use_global_device_ids=true, to_apply=add
  b = f32[4] all-reduce-done(a)
  c = (f32[4], f32[16]) all-gather-start(b), channel_id=2, replica_groups={}, dimensions={0}, use_global_device_ids=true
  d = f32[16] all-gather-done(c)
  f = (f32[16], f32[16], u32[], u32[]) collective-permute-start(d), channel_id=3, source_target_pairs={{0,1}}
  g = f32[16] collective-permute-done(f)
  h = ((f32[16]), f32[16]) sine-start(g)
  i = ((f32[16]), f32[16]) sine-update(h)
  j = f32[16] sine-done(i)
  k = (f32[16], f32[16], u32[]) copy-start(j)
  ROOT l = f32[16] copy-done(k)
}
)";

TEST_CASE("inferred shapes", "[ir][shape_inference]") {
  for (const Case& c : AllCases()) {
    CAPTURE(c.operands, c.root);
    Opcode opcode = Opcode::kTuple;
    const std::string found = Infer(c, &opcode);
    if (c.expected.rfind("error: ", 0) == 0) {
      CHECK_THAT(found, Catch::StartsWith("error: ") && Catch::Contains(c.expected.substr(7)));
    } else {
      CHECK(found == c.expected);
    }
  }
}

TEST_CASE("async and native pairs", "[ir][shape_inference]") {
  auto module = ParseModule(SourceText::FromString("pairs", kPairs));
  REQUIRE(module);
  const Expected<void> ok = VerifyModule(**module);
  CHECK((ok ? "" : ok.error().message) == "");
}

TEST_CASE("every opcode has a good and a bad case", "[ir][shape_inference]") {
  std::set<Opcode> good, bad;
  for (const Case& c : AllCases()) {
    const std::optional<Opcode> opcode = OpcodeInText(c.root);
    CAPTURE(c.root);
    REQUIRE(opcode.has_value());
    (c.expected.rfind("error: ", 0) == 0 ? bad : good).insert(*opcode);
  }
  for (Opcode paired : {Opcode::kAllReduceDone, Opcode::kAllGatherDone, Opcode::kAsyncUpdate,
                        Opcode::kCollectivePermuteDone, Opcode::kAsyncDone, Opcode::kCopyDone}) {
    good.insert(paired);  // in kPairs
  }
  // The mathematical functions share one rule and one type mask, checked for some.
  const std::set<Opcode> no_bad = {Opcode::kParameter, Opcode::kConstant};
  for (int i = 0; i < kOpcodeCount; ++i) {
    const Opcode opcode = static_cast<Opcode>(i);
    CAPTURE(OpcodeName(opcode));
    CHECK(good.count(opcode) == 1);
    const bool is_math = AttributeTagOf(opcode) == &AttributeType<MathAttributes>::kTag;
    if (!is_math && no_bad.count(opcode) == 0) CHECK(bad.count(opcode) == 1);
  }
}

TEST_CASE("mathematical functions take floats and complex numbers", "[ir][shape_inference]") {
  for (int i = 0; i < kOpcodeCount; ++i) {
    const Opcode opcode = static_cast<Opcode>(i);
    if (AttributeTagOf(opcode) != &AttributeType<MathAttributes>::kTag) continue;
    CAPTURE(OpcodeName(opcode));
    Opcode found = Opcode::kTuple;
    const std::string call = std::string(OpcodeName(opcode)) + "(a)";
    CHECK(Infer({"f16[3]", call, ""}, &found) == "f16[3]");
    for (const char* type : {"s32[3]", "u8[3]", "pred[3]"}) {
      CHECK_THAT(Infer({type, call, ""}, &found), Catch::StartsWith("error: "));
    }
  }
}

TEST_CASE("sizes through windows, pads and slices", "[ir][shape_inference]") {
  // size, stride, low, high, base dilation, window dilation
  CHECK(WindowOutputSize(6, {2, 2, 0, 0, 1, 1}) == 3);
  CHECK(WindowOutputSize(6, {2, 1, 0, 0, 1, 2}) == 4);
  CHECK(WindowOutputSize(6, {2, 1, 0, 0, 2, 1}) == 10);
  CHECK(WindowOutputSize(6, {2, 1, -1, 3, 1, 1}) == 7);
  CHECK(WindowOutputSize(6, {7, 1, 0, 0, 1, 1}) == 0);
  CHECK(WindowOutputSize(0, {1, 1, 0, 0, 3, 1}) == 0);
  CHECK(WindowOutputSize(0, {1, 1, 1, 1, 3, 1}) == 2);
  CHECK(WindowOutputSize(Shape::kUnbounded, {2, 2, 0, 0, 1, 1}) == Shape::kUnbounded);
  CHECK(WindowOutputSize(3, {2, 1, 0, 0, INT64_MAX, 1}) == -1);
  CHECK(PaddedSize(5, {-2, 0, 1}) == 7);
  CHECK(PaddedSize(5, {-5, 4, 2}) == 12);
  CHECK(PaddedSize(0, {1, 1, 3}) == 2);
  CHECK(PaddedSize(5, {-6, 0, 0}) == -1);
  CHECK(PaddedSize(5, {INT64_MAX, 1, 0}) == -1);
  CHECK(SliceSize(1, 8, 2) == 4);
  CHECK(SliceSize(3, 3, 2) == 0);
}

TEST_CASE("shapes that need no declaration", "[ir][shape_inference]") {
  for (Opcode opcode : {Opcode::kAdd, Opcode::kCopy, Opcode::kDot, Opcode::kTranspose,
                        Opcode::kReduce, Opcode::kWhile, Opcode::kTuple, Opcode::kPartitionId}) {
    CHECK(ShapeIsInferable(opcode));
  }
  for (Opcode opcode :
       {Opcode::kConvert, Opcode::kBitcastConvert, Opcode::kReducePrecision, Opcode::kReshape,
        Opcode::kSlice, Opcode::kBroadcast, Opcode::kFusion, Opcode::kAllReduce,
        Opcode::kCustomCall, Opcode::kStochasticConvert, Opcode::kParameter}) {
    CHECK_FALSE(ShapeIsInferable(opcode));
  }
}

}  // namespace
}  // namespace gshard
