#include "tests/unit/backends/cpu/ops/random_case.h"

#include <cmath>
#include <cstring>

#include "tests/reference/reference.h"
#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {
namespace {

// A value of the type; small integers, so that integer-valued results do not depend on luck.
double RandomValue(Dice& dice, DType dtype, const Case& test) {
  if (dtype == DType::kPred) return dice.Flip() ? 1 : 0;
  if (IsInteger(dtype)) {
    if (test.largest_index >= 0) {
      const bool is_signed = ClassOf(dtype) == DTypeClass::kSigned;
      return static_cast<double>(dice.Roll(is_signed ? -1 : 0, test.largest_index));
    }
    const int64_t limit = int64_t{1} << std::min(DTypeBits(dtype) - 1, 7);
    return static_cast<double>(ClassOf(dtype) == DTypeClass::kSigned ? dice.Roll(-limit, limit - 1)
                                                                     : dice.Roll(0, 2 * limit - 1));
  }
  if (test.special_values && dice.Roll(0, 5) == 0) {
    return dice.Pick<double>({0.0, -0.0, 1, -1, 0.5, -2.5, INFINITY, -INFINITY, NAN, 100, -300});
  }
  return dice.Real();
}

Array RandomArray(Dice& dice, const Shape* shape, const Case& test) {
  ReferenceValue value = Zeros(shape);
  for (Number& number : value.data) {
    const DType dtype = shape->dtype();
    if (IsFloat(dtype) || IsComplex(dtype)) {
      number.z = RandomValue(dice, dtype, test);
      if (IsComplex(dtype)) number.z += std::complex<double>(0, dice.Real());
    } else {
      number.i = static_cast<int64_t>(RandomValue(dice, dtype, test));
    }
    number = RoundTo(dtype, number);
  }
  return {shape, ToBytes(value)};
}

// All bit patterns of the type, counted by the digit `k` of the element's number.
Array EveryValue(const Shape* shape, size_t k) {
  const DType dtype = shape->dtype();
  const int bits = dtype == DType::kPred ? 1 : DTypeBits(dtype);
  const size_t bytes = static_cast<size_t>(StorageBytes(dtype));
  Array array{shape, std::vector<std::byte>(static_cast<size_t>(shape->element_count()) * bytes)};
  for (int64_t i = 0; i < shape->element_count(); ++i) {
    int64_t pattern = (i >> (static_cast<size_t>(bits) * k)) & ((int64_t{1} << bits) - 1);
    if (!IsFloat(dtype)) pattern = RoundTo(dtype, {pattern, 0}).i;
    std::memcpy(&array.bytes[static_cast<size_t>(i) * bytes], &pattern, bytes);
  }
  return array;
}

// One unit in the last place of 1.
double UnitOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128:
      return std::ldexp(1.0, -52);
    case DType::kF32:
    case DType::kC64:
      return std::ldexp(1.0, -23);
    case DType::kF16:
      return std::ldexp(1.0, -10);
    case DType::kBF16:
      return std::ldexp(1.0, -7);
    case DType::kF8E3M4:
      return std::ldexp(1.0, -4);
    case DType::kF8E8M0FNU:
      return 1;
    default:
      return 0.25;
  }
}

void Compare(const Case& test, const Array& actual, const ReferenceValue& expected) {
  const DType dtype = expected.shape->dtype();
  REQUIRE(actual.bytes.size() == expected.data.size() * static_cast<size_t>(StorageBytes(dtype)));
  const ReferenceValue value = FromBytes(expected.shape, actual.bytes);
  double largest = 0;
  for (const Number& number : expected.data) {
    const double size = std::abs(number.z);
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  for (size_t i = 0; i < value.data.size(); ++i) {
    const Number &a = value.data[i], &b = expected.data[i];
    bool same = a.i == b.i;
    if (IsComplex(dtype) && !(std::isfinite(b.z.real()) && std::isfinite(b.z.imag()))) {
      same = !(std::isfinite(a.z.real()) && std::isfinite(a.z.imag()));
    } else if (IsFloat(dtype) || IsComplex(dtype)) {
      const double scale = test.relative_to_largest ? largest : std::abs(b.z);
      const double smallest = dtype == DType::kF16 ? 6e-8 : 1e-37;  // denormals
      same = std::isnan(b.z.real()) ? std::isnan(a.z.real())
             : a.z == b.z
                 ? test.ulps > 0 || IsComplex(dtype) ||
                       std::signbit(a.z.real()) == std::signbit(b.z.real())
                 : std::abs(a.z - b.z) <= test.ulps * std::max(UnitOf(dtype) * scale, smallest);
    }
    if (!same) {
      FAIL_CHECK(fmt::format("element {}: {} + {}i ({}) instead of {} + {}i ({})", i, a.z.real(),
                             a.z.imag(), a.i, b.z.real(), b.z.imag(), b.i));
      return;
    }
  }
}

void CompareLeaves(const Case& test, const Leaves& actual, size_t& at,
                   const ReferenceValue& expected) {
  if (expected.shape->IsArray()) Compare(test, actual.at(at++), expected);
  for (const ReferenceValue& element : expected.elements) CompareLeaves(test, actual, at, element);
}

void RunCase(const Case& test, uint32_t seed) {
  std::string text = "HloModule m\n" + test.computations + "\nENTRY e {\n";
  for (size_t k = 0; k < test.parameters.size(); ++k) {
    text += fmt::format("  p{0} = {1} parameter({0})\n", k, test.parameters[k]);
  }
  text += test.body + "\n}\n";
  INFO("seed " << seed << "\n" << text);
  const std::unique_ptr<Module> module = Parse(text);
  Dice dice(seed);
  std::vector<Leaves> arrays;
  std::vector<ReferenceValue> values;
  for (const Instruction* parameter : module->entry()->parameters()) {
    arrays.push_back({test.every_value ? EveryValue(parameter->shape(), arrays.size())
                                       : RandomArray(dice, parameter->shape(), test)});
    values.push_back(FromBytes(parameter->shape(), arrays.back()[0].bytes));
  }
  const Leaves actual = Evaluate(*module, arrays);
  size_t at = 0;
  CompareLeaves(test, actual, at, EvaluateReference(*module->entry(), values));
}

}  // namespace

std::string List(const Index& values) { return fmt::format("{}", fmt::join(values, ",")); }
std::string ShapeText(const std::string& type, const Index& dims) {
  return type + "[" + List(dims) + "]";
}

void RunCases(int count, const std::function<Case(Dice&)>& make) {
  for (int i = 0; i < count; ++i) {
    const uint32_t seed = static_cast<uint32_t>(i) * 7919 + 17;
    Dice dice(seed);
    RunCase(make(dice), seed);
  }
}

const std::vector<std::string> kIntegers = {"s32", "u32", "s8", "u8", "s16", "u16", "u64",
                                            "s64", "s4",  "u4", "s2", "u2",  "s1",  "u1"};
const std::vector<std::string> kFloats = {"f32", "f64", "bf16", "f16"};
const std::vector<std::string> kTinyFloats = {
    "f8e5m2",     "f8e4m3",    "f8e4m3fn", "f8e4m3b11fnuz", "f8e3m4",  "f8e5m2fnuz",
    "f8e4m3fnuz", "f8e8m0fnu", "f4e2m1fn", "f6e3m2fn",      "f6e2m3fn"};
const std::vector<std::string> kComplexes = {"c64", "c128"};
const std::vector<std::string> kAll =
    Joined({kFloats, kTinyFloats, kIntegers, kComplexes, {"pred"}});

std::vector<std::string> Joined(const std::vector<std::vector<std::string>>& lists) {
  std::vector<std::string> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::string Fold(const std::string& name, const std::string& type, const std::string& opcode) {
  return fmt::format(
      "{0} {{ a = {1}[] parameter(0) b = {1}[] parameter(1) ROOT r = {1}[] {2}(a, b) }}\n", name,
      type, opcode);
}

}  // namespace gshard::cpu::testing
