#include "ir/literal.h"

#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "ir/literal_text.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "tests/unit/source_file.h"

namespace gshard {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Bits that ml_dtypes 0.5 (float16: numpy) gives for the same doubles.
TEST_CASE("small floats encode as ml_dtypes does", "[ir][literal]") {
  const std::vector<double> values = {0.0,
                                      -0.0,
                                      1.0,
                                      -1.5,
                                      0.1,
                                      0.3,
                                      2.75,
                                      3.0,
                                      5.0,
                                      6.0,
                                      7.0,
                                      15.6,
                                      28.0,
                                      31.0,
                                      31.9,
                                      -447.9,
                                      448.0,
                                      464.0,
                                      464.01,
                                      240.0,
                                      247.9,
                                      248.0,
                                      57344.0,
                                      61439.0,
                                      61440.0,
                                      65519.0,
                                      65520.0,
                                      1e-3,
                                      -1e-5,
                                      1.52587890625e-05,
                                      7.62939453125e-06,
                                      7.7e-06,
                                      1e-9,
                                      3e38,
                                      3.395e38,
                                      1e300,
                                      1e-300,
                                      kInfinity,
                                      -kInfinity,
                                      kNan,
                                      -kNan};
  struct Row {
    DType dtype;
    std::vector<int> bits;
  };
  const std::vector<Row> rows = {
      {DType::kF8E5M2,
       {0x0,  0x80, 0x3c, 0xbe, 0x2e, 0x35, 0x42, 0x42, 0x45, 0x46, 0x47, 0x4c, 0x4f, 0x50,
        0x50, 0xdf, 0x5f, 0x5f, 0x5f, 0x5c, 0x5c, 0x5c, 0x7b, 0x7b, 0x7c, 0x7c, 0x7c, 0x14,
        0x81, 0x1,  0x0,  0x1,  0x0,  0x7c, 0x7c, 0x7c, 0x0,  0x7c, 0xfc, 0x7e, 0xfe}},
      {DType::kF8E4M3,
       {0x0,  0x80, 0x38, 0xbc, 0x1d, 0x2a, 0x43, 0x44, 0x4a, 0x4c, 0x4e, 0x58, 0x5e, 0x60,
        0x60, 0xf8, 0x78, 0x78, 0x78, 0x77, 0x77, 0x78, 0x78, 0x78, 0x78, 0x78, 0x78, 0x1,
        0x80, 0x0,  0x0,  0x0,  0x0,  0x78, 0x78, 0x78, 0x0,  0x78, 0xf8, 0x7c, 0xfc}},
      {DType::kF8E4M3FN,
       {0x0,  0x80, 0x38, 0xbc, 0x1d, 0x2a, 0x43, 0x44, 0x4a, 0x4c, 0x4e, 0x58, 0x5e, 0x60,
        0x60, 0xfe, 0x7e, 0x7e, 0x7f, 0x77, 0x77, 0x78, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x1,
        0x80, 0x0,  0x0,  0x0,  0x0,  0x7f, 0x7f, 0x7f, 0x0,  0x7f, 0xff, 0x7f, 0xff}},
      {DType::kF8E4M3B11FNUZ,
       {0x0,  0x0,  0x58, 0xdc, 0x3d, 0x4a, 0x63, 0x64, 0x6a, 0x6c, 0x6e, 0x78, 0x7e, 0x80,
        0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x8,
        0x0,  0x0,  0x0,  0x0,  0x0,  0x80, 0x80, 0x80, 0x0,  0x80, 0x80, 0x80, 0x80}},
      {DType::kF8E3M4,
       {0x0,  0x80, 0x30, 0xb8, 0x6,  0x13, 0x46, 0x48, 0x54, 0x58, 0x5c, 0x6f, 0x70, 0x70,
        0x70, 0xf0, 0x70, 0x70, 0x70, 0x70, 0x70, 0x70, 0x70, 0x70, 0x70, 0x70, 0x70, 0x0,
        0x80, 0x0,  0x0,  0x0,  0x0,  0x70, 0x70, 0x70, 0x0,  0x70, 0xf0, 0x78, 0xf8}},
      {DType::kF8E5M2FNUZ,
       {0x0,  0x0,  0x40, 0xc2, 0x32, 0x39, 0x46, 0x46, 0x49, 0x4a, 0x4b, 0x50, 0x53, 0x54,
        0x54, 0xe3, 0x63, 0x63, 0x63, 0x60, 0x60, 0x60, 0x7f, 0x7f, 0x80, 0x80, 0x80, 0x18,
        0x81, 0x2,  0x1,  0x1,  0x0,  0x80, 0x80, 0x80, 0x0,  0x80, 0x80, 0x80, 0x80}},
      {DType::kF8E4M3FNUZ,
       {0x0,  0x0,  0x40, 0xc4, 0x25, 0x32, 0x4b, 0x4c, 0x52, 0x54, 0x56, 0x60, 0x66, 0x68,
        0x68, 0x80, 0x80, 0x80, 0x80, 0x7f, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x1,
        0x0,  0x0,  0x0,  0x0,  0x0,  0x80, 0x80, 0x80, 0x0,  0x80, 0x80, 0x80, 0x80}},
      {DType::kF8E8M0FNU,
       {0xff, 0xff, 0x7f, 0xff, 0x7c, 0x7d, 0x80, 0x81, 0x81, 0x82, 0x82, 0x83, 0x84, 0x84,
        0x84, 0xff, 0x88, 0x88, 0x88, 0x87, 0x87, 0x87, 0x8f, 0x8f, 0x8f, 0x8f, 0x8f, 0x75,
        0xff, 0x6f, 0x6e, 0x6e, 0x61, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
      {DType::kF4E2M1FN, {0x0, 0x8, 0x2, 0xb, 0x0, 0x1, 0x5, 0x5, 0x6, 0x7, 0x7, 0x7, 0x7, 0x7,
                          0x7, 0xf, 0x7, 0x7, 0x7, 0x7, 0x7, 0x7, 0x7, 0x7, 0x7, 0x7, 0x7, 0x0,
                          0x8, 0x0, 0x0, 0x0, 0x0, 0x7, 0x7, 0x7, 0x0, 0x7, 0xf, 0x8, 0x0}},
      {DType::kF6E3M2FN,
       {0x0,  0x20, 0xc,  0x2e, 0x2,  0x5,  0x12, 0x12, 0x15, 0x16, 0x17, 0x1c, 0x1f, 0x1f,
        0x1f, 0x3f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x0,
        0x20, 0x0,  0x0,  0x0,  0x0,  0x1f, 0x1f, 0x1f, 0x0,  0x1f, 0x3f, 0x20, 0x0}},
      {DType::kF6E2M3FN,
       {0x0,  0x20, 0x8,  0x2c, 0x1,  0x2,  0x13, 0x14, 0x1a, 0x1c, 0x1e, 0x1f, 0x1f, 0x1f,
        0x1f, 0x3f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x1f, 0x0,
        0x20, 0x0,  0x0,  0x0,  0x0,  0x1f, 0x1f, 0x1f, 0x0,  0x1f, 0x3f, 0x20, 0x0}},
      {DType::kBF16,
       {0x0,    0x8000, 0x3f80, 0xbfc0, 0x3dcd, 0x3e9a, 0x4030, 0x4040, 0x40a0, 0x40c0, 0x40e0,
        0x417a, 0x41e0, 0x41f8, 0x41ff, 0xc3e0, 0x43e0, 0x43e8, 0x43e8, 0x4370, 0x4378, 0x4378,
        0x4760, 0x4770, 0x4770, 0x4780, 0x4780, 0x3a83, 0xb728, 0x3780, 0x3700, 0x3701, 0x3089,
        0x7f62, 0x7f7f, 0x7f80, 0x0,    0x7f80, 0xff80, 0x7fc0, 0xffc0}},
      {DType::kF16,
       {0x0,    0x8000, 0x3c00, 0xbe00, 0x2e66, 0x34cd, 0x4180, 0x4200, 0x4500, 0x4600, 0x4700,
        0x4bcd, 0x4f00, 0x4fc0, 0x4ffa, 0xdf00, 0x5f00, 0x5f40, 0x5f40, 0x5b80, 0x5bbf, 0x5bc0,
        0x7b00, 0x7b80, 0x7b80, 0x7bff, 0x7c00, 0x1419, 0x80a8, 0x100,  0x80,   0x81,   0x0,
        0x7c00, 0x7c00, 0x7c00, 0x0,    0x7c00, 0xfc00, 0x7e00, 0xfe00}},
  };
  for (const Row& row : rows) {
    INFO(DTypeName(row.dtype));
    REQUIRE(row.bits.size() == values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      INFO(values[i]);
      // Tiny positive numbers are the smallest power of two, as in XLA.
      const bool tiny_power = row.dtype == DType::kF8E8M0FNU && values[i] == 1e-300;
      CHECK(EncodeSmallFloat(row.dtype, values[i]) == (tiny_power ? 0 : row.bits[i]));
    }
  }
}

const std::vector<DType> kSmallFloats = {
    DType::kF16,        DType::kBF16,      DType::kF8E5M2,        DType::kF8E4M3,
    DType::kF8E4M3FN,   DType::kF8E3M4,    DType::kF8E4M3B11FNUZ, DType::kF8E5M2FNUZ,
    DType::kF8E4M3FNUZ, DType::kF8E8M0FNU, DType::kF4E2M1FN,      DType::kF6E3M2FN,
    DType::kF6E2M3FN};

TEST_CASE("every small float survives decoding and encoding", "[ir][literal]") {
  for (DType dtype : kSmallFloats) {
    INFO(DTypeName(dtype));
    for (uint32_t bits = 0; bits < (1u << DTypeBits(dtype)); ++bits) {
      const double value = DecodeSmallFloat(dtype, static_cast<uint16_t>(bits));
      if (std::isnan(value)) continue;
      if (EncodeSmallFloat(dtype, value) != bits) {
        FAIL_CHECK("bits " << bits << " value " << value << " became "
                           << EncodeSmallFloat(dtype, value));
      }
    }
  }
}

std::string AllValuesText(DType dtype, std::string_view name) {
  std::string text = "ENTRY e { ROOT c = ";
  const int count = 1 << DTypeBits(dtype);
  text.append(name).append("[" + std::to_string(count) + "] constant({");
  return text;
}

std::unique_ptr<Module> Parse(std::string text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", std::move(text)));
  if (!module.has_value()) {
    FAIL(Render(module.error()));
    return nullptr;
  }
  return std::move(*module);
}

const Literal& ConstantOf(const Module& module) {
  return *module.entry()->root()->attributes<ConstantAttributes>().literal;
}

std::string PrintedConstant(const Module& module) {
  std::string text;
  AppendLiteral(text, ConstantOf(module));
  return text;
}

std::string Reprint(const std::string& shape, const std::string& value) {
  return PrintedConstant(*Parse("ENTRY e { ROOT c = " + shape + " constant(" + value + ") }"));
}

TEST_CASE("all values of the 8-bit and smaller floats print as XLA prints them", "[ir][literal]") {
  std::ifstream in(SourceFile("tests/data/small_floats.txt"));
  int types = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    ++types;
    const size_t first = line.find('|');
    const size_t second = line.find('|', first + 1);
    const std::string name = line.substr(0, first);
    const DType dtype = DTypeFromName(name).value();
    INFO(name);
    const auto module =
        Parse(AllValuesText(dtype, name) + line.substr(first + 1, second - first - 1) + "}) }");
    const Literal& literal = ConstantOf(*module);
    for (int64_t i = 0; i < literal.shape->element_count(); ++i) {
      const double value = DecodeSmallFloat(dtype, static_cast<uint16_t>(i));
      if (std::isnan(value)) continue;
      // The exact values in the text give back their bits, negative zeros included.
      CHECK(std::to_integer<int64_t>(literal.data[static_cast<size_t>(i)]) == i);
    }
    std::string printed = PrintedConstant(*module);
    std::erase(printed, ' ');
    printed = printed.substr(1, printed.size() - 2);
    std::stringstream ours(printed);
    std::stringstream theirs(line.substr(second + 1));
    for (std::string a, b; std::getline(theirs, b, ',');) {
      std::getline(ours, a, ',');
      if (a == "-0.0") a = "-0";  // we keep negative zeros readable
      CHECK(a == b);
    }
    // Reads back bit for bit.
    const auto again = Parse(AllValuesText(dtype, name) + printed + "}) }");
    CHECK(std::equal(literal.data.begin(), literal.data.end(), ConstantOf(*again).data.begin()));
  }
  CHECK(types == 11);
}

TEST_CASE("16-bit floats read back bit for bit", "[ir][literal]") {
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    Arena arena;
    Context ctx;
    const int64_t count = 1 << 16;
    const Shape* shape = ctx.Array(dtype, std::vector<int64_t>{count});
    std::vector<uint16_t> bits(static_cast<size_t>(count));
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
    const Literal* literal = RawLiteral(arena, shape, std::as_bytes(std::span<uint16_t>(bits)));
    std::string text;
    AppendLiteral(text, *literal);
    const auto module =
        Parse("ENTRY e { ROOT c = " + ToString(shape) + " constant(" + text + ") }");
    CHECK(std::equal(literal->data.begin(), literal->data.end(), ConstantOf(*module).data.begin()));
  }
}

// What jaxlib 0.10.2 prints for the same literal.
TEST_CASE("literals print as XLA prints them", "[ir][literal]") {
  const char* const table[][3] = {
      {"f32[2]", "{0.1, nan}", "{0.1, nan}"},
      {"f32[3]", "{nan(0x400001), -nan, nan(0x7)}", "{nan(0x400001), -nan, nan(0x7)}"},
      {"bf16[3]", "{0.1,1e-6,3}", "{0.1001, 9.984e-07, 3}"},
      {"f16[3]", "{0.1,nan,65519}", "{0.099976, nan, 65504}"},
      {"f64[3]", "{0.1, 1e300, 0.3333333333333333333}", "{0.1, 1e+300, 0.33333333333333331}"},
      {"c64[2]", "{(1,-2) (-nan,inf)}", "{(1, -2), (-nan, inf)}"},
      {"pred[3]", "{true, false, 5}", "{1, 0, 1}"},
      {"pred[]", "7", "true"},
      {"s4[2]", "{-8,7}", "{-8, 7}"},
      {"u4[1]", "{15}", "{15}"},
      {"s1[1]", "{-1}", "{-1}"},
      {"u64[1]", "{18446744073709551615}", "{18446744073709551615}"},
      {"s64[1]", "{-9223372036854775808}", "{-9223372036854775808}"},
      {"f32[2,2]", "{{1,2}{3,4}}", "{ { 1, 2 }, { 3, 4 } }"},
      {"s32[1,1]", "{{7}}", "{ {7} }"},
      {"f32[1,2,2]", "{{{1,2},{3,4}}}", "{ { { 1, 2 }, { 3, 4 } } }"},
      {"f32[1,2,1,2]", "{{{{1,2}},{{3,4}}}}",
       "{ { /*i0=0*/ { /*i1=0*/ { 1, 2 } }, { /*i1=1*/ { 3, 4 } } } }"},
      {"f32[2,1,1,1,2]", "{{{{{1,2}}}},{{{{3,4}}}}}",
       "{ { /*i0=0*/ { /*i1=0*/ { /*i2=0*/ { 1, 2 } } } }, { /*i0=1*/ { /*i1=0*/ { /*i2=0*/ "
       "{ 3, 4 } } } } }"},
      {"f32[0]", "{}", "{}"},
      {"f32[1,0]", "{{}}", "{ {} }"},
      {"f32[2,0,3]", "{{},{}}", "{ {  }, {  } }"},
      {"f32[0,3]", "{}", "{  }"},
      {"(f32[], s32[2], (pred[]))", "(1.5, {1,2}, (true))", "( 1.5, {1, 2}, ( true ) )"},
      {"()", "()", "(  )"},
      {"f32[2]", "{1000000, 1234567}", "{1e+06, 1234567}"},
      {"f32[3]", "{1e-45, 1.17549435e-38, 3.40282347e+38}",
       "{1.4013e-45, 1.17549435e-38, 3.40282347e+38}"},
      {"f32[4]", "{1., -.5, -5E-1, 007}", "{1, -0.5, -0.5, 7}"},
      {"f32[2]", "{1e-60, -0}", "{0, 0}"},
      {"f64[1]", "{1e-400}", "{0}"},
      {"f8e4m3fn[2]", "{inf, 449}", "{nan, 448}"},
      {"f4e2m1fn[2]", "{inf, 100}", "{6, 6}"},
      {"f8e8m0fnu[2]", "{3, 0.5}", "{4, 0.5}"},
      {"f32[2]", "{/*i0=0*/1,2,}", "{1, 2}"},
  };
  for (const auto& row : table) {
    INFO(row[0] << " " << row[1]);
    CHECK(Reprint(row[0], row[1]) == row[2]);
  }
  // XLA prints "-0", and reads that as positive: we write what reads back.
  CHECK(Reprint("f32[3]", "{-0.0, -0e0, -1e-60}") == "{-0.0, -0.0, -0.0}");
  // Elided values stay elided.
  CHECK(Reprint("f32[1000000000000]", "{...}") == "{...}");
  CHECK(Reprint("f32[]", "{...}") == "{...}");  // TensorFlow's optimized protos leave out scalars
  CHECK(Reprint("(f32[], f32[2])", "{...}") == "{...}");
  CHECK(Reprint("(f32[], f32[2])", "(1, { ... })") == "( 1, {...} )");
}

// As C's printf chooses between %.6g and %.9g, %.15g and %.17g.
TEST_CASE("floats print as printf does", "[ir][literal]") {
  uint64_t random = 7;
  for (int i = 0; i < 200000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const auto check = [](auto value, const char* few, const char* enough, auto read) {
      if (!std::isfinite(value) || value == 0) return;
      char expected[64];
      std::snprintf(expected, sizeof(expected), few, static_cast<double>(value));
      if (read(expected) != value) {
        std::snprintf(expected, sizeof(expected), enough, static_cast<double>(value));
      }
      std::string printed;
      if constexpr (sizeof(value) == 4) {
        AppendFloat(printed, value);
      } else {
        AppendDouble(printed, value);
      }
      if (printed != expected) FAIL_CHECK(printed << " is not " << expected);
    };
    const auto f = std::bit_cast<float>(static_cast<uint32_t>(random >> 32));
    check(f, "%.6g", "%.9g", [](const char* text) { return std::strtof(text, nullptr); });
    const auto short_float = static_cast<float>(static_cast<int64_t>(random >> 44)) / 1024.0f;
    check(short_float, "%.6g", "%.9g", [](const char* text) { return std::strtof(text, nullptr); });
    const auto d = std::bit_cast<double>(random);
    check(d, "%.15g", "%.17g", [](const char* text) { return std::strtod(text, nullptr); });
  }
}

TEST_CASE("elements of literals", "[ir][literal]") {
  Arena arena;
  Context ctx;
  const auto shape = [&](DType dtype, int64_t n) {
    return ctx.Array(dtype, std::vector<int64_t>{n});
  };
  const Literal* threes = SplatLiteral(arena, shape(DType::kS4, 5), 3);
  CHECK(IsSplat(*threes));
  CHECK(ElementAsInt64(*threes, 4) == 3);
  const Literal* integers =
      IntegerLiteral(arena, shape(DType::kS8, 3), std::vector<int64_t>{-128, 127, 0});
  CHECK_FALSE(IsSplat(*integers));
  CHECK(ElementAsInt64(*integers, 0) == -128);
  CHECK(ElementAsDouble(*integers, 1) == 127.0);
  const Literal* truth =
      IntegerLiteral(arena, shape(DType::kPred, 2), std::vector<int64_t>{256, 0});
  CHECK(ElementAsInt64(*truth, 0) == 1);
  const Literal* wrapped = IntegerLiteral(arena, shape(DType::kS4, 2), std::vector<int64_t>{9, -9});
  CHECK(ElementAsInt64(*wrapped, 0) == -7);
  CHECK(ElementAsInt64(*wrapped, 1) == 7);
  const Literal* tenth = SplatLiteral(arena, shape(DType::kBF16, 2), 0.1);
  CHECK(ElementAsDouble(*tenth, 1) == 0.10009765625);
  const Literal* complex = SplatLiteral(arena, shape(DType::kC64, 2), 0.5);
  CHECK(ElementAsComplex(*complex, 1) == std::complex<double>(0.5, 0));
  CHECK(IsSplat(*complex));
  CHECK_FALSE(IsSplat(*SplatLiteral(arena, shape(DType::kF32, 0), 1)));
  CHECK(ElementAsInt64(*SplatLiteral(arena, shape(DType::kU64, 1), 1e18), 0) ==
        1000000000000000000);
  CHECK_THROWS_AS(ElementAsInt64(*integers, 3), InternalError);
}

TEST_CASE("huge literals take linear time", "[ir][literal][clock]") {
  const int64_t count = 1 << 20;
  std::string text = "ENTRY e { ROOT c = f32[1024,1024] constant({";
  for (int64_t i = 0; i < count; ++i) {
    text += i % 1024 == 0 ? (i > 0 ? "}, {" : " {") : ", ";
    text += std::to_string(static_cast<double>(i) / 7.0);
  }
  text += "} }) }";
  const auto begin = std::chrono::steady_clock::now();
  const auto module = Parse(text);
  const std::string printed = PrintModule(*module);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  CHECK(ElementAsDouble(ConstantOf(*module), count - 1) == Approx((count - 1) / 7.0));
  CHECK(seconds.count() < 5);  // about 0.2 s
}

}  // namespace
}  // namespace gshard
