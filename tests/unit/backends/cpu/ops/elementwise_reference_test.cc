// Elementwise kernels against the reference evaluator, over all types and special values.
#include <catch2/catch.hpp>
#include <set>

#include "ir/dtype.h"
#include "ir/opcode.h"
#include "tests/unit/backends/cpu/ops/random_case.h"

namespace gshard::cpu::testing {
namespace {

// Of few bits: what is rounded to it is off by one unit at most.
bool IsTiny(const std::string& type) {
  return std::find(kTinyFloats.begin(), kTinyFloats.end(), type) != kTinyFloats.end();
}

// Results that the reference rounds once, as kernels must: no unit in the last place may differ.
bool IsExactOnReals(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAbs:
    case Opcode::kNegate:
    case Opcode::kSign:
    case Opcode::kFloor:
    case Opcode::kCeil:
    case Opcode::kRoundNearestAfz:
    case Opcode::kRoundNearestEven:
    case Opcode::kIsFinite:
    case Opcode::kReal:
    case Opcode::kImag:
    case Opcode::kSqrt:
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kMultiply:
    case Opcode::kDivide:
    case Opcode::kRemainder:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
      return true;
    default:
      return false;
  }
}

double UlpsOnComplex(Opcode opcode) {
  switch (opcode) {
    case Opcode::kNegate:
    case Opcode::kReal:
    case Opcode::kImag:
    case Opcode::kAdd:
    case Opcode::kSubtract:
      return 0;
    case Opcode::kAbs:
    case Opcode::kSign:
    case Opcode::kMultiply:
    case Opcode::kDivide:
      return 8;
    default:
      return 64;
  }
}

// Have attributes, operands of several types or none of their own in ir/opcodes.def: tests below.
const std::set<Opcode> kTestedApart = {
    Opcode::kCopy,    Opcode::kConvert,           Opcode::kBitcastConvert, Opcode::kReducePrecision,
    Opcode::kComplex, Opcode::kStochasticConvert, Opcode::kCompare,        Opcode::kSelect,
    Opcode::kClamp};

// The shape rules take complex numbers, as XLA's do; like XLA's code generators, ours have no loop.
const std::set<Opcode> kNotOnComplex = {Opcode::kRemainder, Opcode::kMaximum, Opcode::kMinimum,
                                        Opcode::kAtan2};

void RunElementwise(Opcode opcode, const std::string& type, double ulps) {
  RunCases(2, [&](Dice& dice) {
    const Index dims = {dice.Roll(1, 7), dice.Roll(1, 40)};
    Case test;
    test.parameters.assign(static_cast<size_t>(InfoOf(opcode).arity), ShapeText(type, dims));
    test.body = fmt::format("  ROOT r = {}({})", OpcodeName(opcode),
                            InfoOf(opcode).arity == 1 ? "p0" : "p0, p1");
    test.special_values = true;
    test.ulps = IsTiny(type) ? std::min(ulps, 1.0) : ulps;
    return test;
  });
}

}  // namespace

// A new row of ir/opcodes.def is tested from here on: without a loop the kernel cannot be made,
// without its line in tests/reference the reference throws.
TEST_CASE("every elementwise operation, on every type that it takes", "[kernels][reference]") {
  const auto of_class = [](DTypeClass c) {
    std::vector<std::string> types;
    for (const std::string& type : kIntegers) {
      if (ClassOf(*DTypeFromName(type)) == c) types.push_back(type);
    }
    return types;
  };
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    const OpcodeInfo& info = InfoOf(opcode);
    if (!IsElementwise(opcode) || kTestedApart.count(opcode) != 0) continue;
    INFO(info.text);
    REQUIRE(info.types != kAnyType);
    REQUIRE((info.arity == 1 || info.arity == 2));
    const auto run = [&](uint32_t mask, const std::vector<std::string>& types, double ulps) {
      if ((info.types & mask) == 0) return;
      for (const std::string& type : types) {
        // Zero is no value of this type: what stands for it is not said.
        if (opcode == Opcode::kImag && type == "f8e8m0fnu") continue;
        RunElementwise(opcode, type, ulps);
      }
    };
    run(kPredType, {"pred"}, 0);
    run(kSignedType, of_class(DTypeClass::kSigned), 0);
    run(kUnsignedType, of_class(DTypeClass::kUnsigned), 0);
    run(kFloatType, Joined({kFloats, kTinyFloats}), IsExactOnReals(opcode) ? 0 : 8);
    if (kNotOnComplex.count(opcode) == 0) run(kComplexType, kComplexes, UlpsOnComplex(opcode));
  }
}

TEST_CASE("copies of every type", "[kernels][reference]") {
  for (const std::string& type : kAll) RunElementwise(Opcode::kCopy, type, 0);
}

TEST_CASE("random compare, select, clamp, convert", "[kernels][reference]") {
  for (const std::string& type : kAll) {
    RunCases(4, [&](Dice& dice) {
      const bool is_float = type[0] == 'f' || type[0] == 'b';
      const Index dims = {dice.Roll(1, 90)};
      const std::string shape = ShapeText(type, dims), pred = ShapeText("pred", dims);
      const std::string direction =
          type[0] == 'c' ? dice.Pick<std::string>({"EQ", "NE"})
                         : dice.Pick<std::string>({"EQ", "NE", "LT", "LE", "GT", "GE"});
      Case test;
      test.parameters = {shape, shape, shape, pred, "pred[]"};
      test.body = fmt::format(
          "  c = {1} compare(p0, p1), direction={2}{3}\n  s = {0} select(p3, p0, p1)\n  t = {0} "
          "select(p4, p0, p1)\n",
          shape, pred, direction, is_float && dice.Flip() ? ", type=TOTALORDER" : "");
      if (type[0] != 'c' && type != "pred") {
        test.body +=
            fmt::format("  k = {0} clamp(p0, p1, p2)\n  ROOT r = tuple(c, s, t, k)", shape);
      } else {
        test.body += "  ROOT r = tuple(c, s, t)";
      }
      test.special_values = true;
      return test;
    });
  }
  for (const std::string& from : kAll) {
    for (const std::string& to : kAll) {
      if (from[0] == 'c' && to[0] != 'c') continue;  // real part: XLA takes it, the rule is real()
      RunCases(1, [&](Dice& dice) {
        const Index dims = {dice.Roll(1, 60)};
        Case test;
        test.parameters = {ShapeText(from, dims)};
        test.body = fmt::format("  ROOT r = {} convert(p0)", ShapeText(to, dims));
        test.special_values = true;
        return test;
      });
    }
  }
  for (const std::string& type : kFloats) {
    RunCases(6, [&](Dice& dice) {
      Case test;
      test.parameters = {type + "[50]"};
      test.body = fmt::format(
          "  i = pred[50] is-finite(p0)\n  q = {0}[50] reduce-precision(p0), exponent_bits={1}, "
          "mantissa_bits={2}\n  ROOT r = tuple(i, q)",
          type, dice.Roll(2, 8), dice.Roll(1, 10));
      test.special_values = true;
      return test;
    });
  }
  for (const std::string real : {"f32", "f64"}) {
    RunCases(1, [&](Dice&) {
      Case test;
      test.parameters = {real + "[50]", real + "[50]"};
      test.body = fmt::format(
          "  z = {1}[50] complex(p0, p1)\n  a = {0}[50] abs(z)\n  b = {0}[50] real(z)\n  c = "
          "{0}[50] imag(z)\n  ROOT r = tuple(z, a, b, c)",
          real, real == "f32" ? "c64" : "c128");
      test.ulps = 2;
      return test;
    });
  }
}

}  // namespace gshard::cpu::testing
