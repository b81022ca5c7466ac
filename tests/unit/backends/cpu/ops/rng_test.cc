// Vectors of docs/semantics.md, "Random" (made by XLA); bounds and moments of rng.
#include "backends/cpu/ops/kernel_table.h"
#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {
namespace {

struct GeneratorVector {
  std::string algorithm;
  std::vector<uint64_t> state;
  std::string type;
  std::vector<uint64_t> bits;
  std::vector<uint64_t> new_state;
};

constexpr uint64_t kKey = 0x0123456789abcdef, kCounter = 0xfedcba9876543210,
                   kHigh = 0x1122334455667788, kMax = ~uint64_t{0};

uint64_t WordAt(const Array& array, size_t i) {
  const size_t bytes = array.bytes.size() / static_cast<size_t>(array.shape->element_count());
  uint64_t word = 0;
  std::memcpy(&word, array.bytes.data() + i * bytes, bytes);
  return word;
}

// Results with the module that their shapes belong to.
struct Outcome {
  std::unique_ptr<Module> module;
  Leaves leaves;
  const Array& operator[](size_t i) const { return leaves[i]; }
};
Outcome EvaluateText(const std::string& text) {
  std::unique_ptr<Module> module = Parse(text);
  Leaves leaves = Evaluate(*module);
  return {std::move(module), std::move(leaves)};
}

Outcome Generate(const std::string& algorithm, const std::vector<uint64_t>& state,
                 const std::string& type) {
  std::string list;
  for (const uint64_t word : state) list += fmt::format("{}{}", list.empty() ? "" : ", ", word);
  return EvaluateText(fmt::format(
      "HloModule m\nENTRY e {{\n s = u64[{0}] constant({{{1}}})\n ROOT r = (u64[{0}], {2}) "
      "rng-bit-generator(s), algorithm={3}\n}}\n",
      state.size(), list, type, algorithm));
}

}  // namespace

TEST_CASE("rng-bit-generator is XLA's bit for bit", "[kernels][rng]") {
  const std::vector<GeneratorVector> vectors = {
      {"rng_three_fry", {0, 0}, "u32[2]", {0x6b200159, 0x99ba4efe}, {0, 1}},
      {"rng_three_fry",
       {0, kMax},
       "u32[4]",
       {0x08a8003b, 0x75cb0abb, 0x6b200159, 0x99ba4efe},
       {0, 1}},
      {"rng_three_fry",
       {kKey, kCounter},
       "u32[5]",
       {0xaed4a37f, 0x1130d111, 0xc3cc4d02, 0x798e402e, 0xaee5264e},
       {kKey, kCounter + 3}},
      {"rng_three_fry",
       {kKey, kCounter},
       "u32[2,3]",
       {0xaed4a37f, 0xc3cc4d02, 0xaee5264e, 0x1130d111, 0x798e402e, 0xb089da7a},
       {kKey, kCounter + 3}},
      {"rng_three_fry",
       {kKey, kCounter},
       "u32[3,3]",
       {0xaed4a37f, 0xc3cc4d02, 0xaee5264e, 0x1130d111, 0x798e402e, 0xb089da7a, 0x49b105a8,
        0xe8e52210, 0xf0a39a78},
       {kKey, kCounter + 6}},
      {"rng_three_fry",
       {kKey, kCounter},
       "u64[3]",
       {0x1130d111aed4a37f, 0x798e402ec3cc4d02, 0xb089da7aaee5264e},
       {kKey, kCounter + 3}},
      {"rng_three_fry",
       {kKey, kCounter},
       "u16[4]",
       {0xa37f, 0xd111, 0x4d02, 0x402e},
       {kKey, kCounter + 2}},
      {"rng_three_fry", {kKey, kCounter}, "u32[]", {0xaed4a37f}, {kKey, kCounter + 1}},
      {"rng_philox",
       {0, 0, 0},
       "u32[4]",
       {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
       {0, 1, 0}},
      {"rng_philox",
       {0, kMax, 5},
       "u32[8]",
       {0x2f0b5a10, 0x253a4a71, 0xcbf39c75, 0xe6895799, 0x6a3e5da7, 0x93eb3d81, 0xcc3925fb,
        0xfd14dcbf},
       {0, 1, 6}},
      {"rng_philox",
       {kKey, kCounter, kHigh},
       "u32[5]",
       {0x6cf185da, 0x70c6f6af, 0x5025c806, 0xa2ecc791, 0x97976295},
       {kKey, kCounter + 2, kHigh}},
      {"rng_philox",
       {kKey, kCounter, kHigh},
       "u64[3]",
       {0x70c6f6af6cf185da, 0xa2ecc7915025c806, 0xb7517d4797976295},
       {kKey, kCounter + 2, kHigh}},
      {"rng_default",
       {kKey, kCounter},
       "u32[5]",
       {0x1ec53d42, 0xcfa390b5, 0xf2235702, 0xe71ff917, 0xcb472319},
       {kKey, kCounter + 2}},
  };
  for (const GeneratorVector& vector : vectors) {
    INFO(vector.algorithm << " " << vector.type);
    const Outcome results = Generate(vector.algorithm, vector.state, vector.type);
    for (size_t i = 0; i < vector.state.size(); ++i) {
      CHECK(WordAt(results[0], i) == vector.new_state[i]);
    }
    REQUIRE(results[1].shape->element_count() == static_cast<int64_t>(vector.bits.size()));
    for (size_t i = 0; i < vector.bits.size(); ++i) {
      CHECK(WordAt(results[1], i) == vector.bits[i]);
    }
  }
}

TEST_CASE("ThreeFry splits the first even dim, of many blocks too", "[kernels][rng]") {
  // Block j of [3,600,2] is element (o, i, k) of [3,300,2]; its words are at 2i and 2i+1.
  const Outcome wide = Generate("rng_three_fry", {kKey, 7}, "u64[1800]");
  const Outcome narrow = Generate("rng_three_fry", {kKey, 7}, "u32[3,600,2]");
  for (size_t o = 0; o < 3; ++o) {
    for (size_t i = 0; i < 300; ++i) {
      for (size_t k = 0; k < 2; ++k) {
        const uint64_t block = WordAt(wide[1], (o * 300 + i) * 2 + k);
        REQUIRE(WordAt(narrow[1], (o * 600 + 2 * i) * 2 + k) == (block & 0xffffffff));
        REQUIRE(WordAt(narrow[1], (o * 600 + 2 * i + 1) * 2 + k) == block >> 32);
      }
    }
  }
}

TEST_CASE("states that the algorithms do not know are refused", "[kernels][rng]") {
  const auto module = Parse(
      "HloModule m\nENTRY e {\n s = u32[4] constant({1,2,3,4})\n ROOT r = (u32[4], u32[8]) "
      "rng-bit-generator(s), algorithm=rng_philox\n}\n");
  const auto made = KernelFactoryOf(Opcode::kRngBitGenerator)(*module->entry()->root());
  REQUIRE(!made.has_value());
  CHECK(made.error().code == "E-RUN-005");
  CHECK(made.error().line == 4);
  // Only Philox has a state of three words.
  for (const bool three_fry : {false, true}) {
    const auto words = Parse(fmt::format(
        "HloModule m\nENTRY e {{\n s = u64[3] constant({{1,2,3}})\n ROOT r = (u64[3], u32[8]) "
        "rng-bit-generator(s), algorithm={}\n}}\n",
        three_fry ? "rng_three_fry" : "rng_philox"));
    CHECK(KernelFactoryOf(Opcode::kRngBitGenerator)(*words->entry()->root()).has_value() !=
          three_fry);
  }
}

TEST_CASE("rng draws from its distribution", "[kernels][rng]") {
  const auto draw = [](const std::string& type, const std::string& a, const std::string& b,
                       const std::string& distribution) {
    return EvaluateText(fmt::format(
        "HloModule m\nENTRY e {{\n a = {0}[] constant({1})\n b = {0}[] constant({2})\n ROOT r = "
        "{0}[20000] rng(a, b), distribution={3}\n}}\n",
        type, a, b, distribution));
  };
  for (const std::string type : {"f32", "f64", "f16", "bf16"}) {
    INFO(type);
    const Outcome uniforms = draw(type, "-1", "3", "rng_uniform");
    const Outcome normals = draw(type, "2", "0.5", "rng_normal");
    const Array &uniform = uniforms[0], &normal = normals[0];
    double sum = 0, low = 9, high = -9, normal_sum = 0, squares = 0;
    for (int64_t i = 0; i < 20000; ++i) {
      sum += uniform.at(i);
      low = std::min(low, uniform.at(i));
      high = std::max(high, uniform.at(i));
      normal_sum += normal.at(i);
      squares += (normal.at(i) - 2) * (normal.at(i) - 2);
    }
    CHECK(low >= -1);
    CHECK(high < 3);
    CHECK(std::abs(low + 1) < 0.02);
    CHECK(std::abs(high - 3) < 0.03);
    CHECK(std::abs(sum / 20000 - 1) < 0.03);
    CHECK(std::abs(normal_sum / 20000 - 2) < 0.015);
    CHECK(std::abs(squares / 20000 - 0.25) < 0.015);
  }
  for (const std::string type : {"s32", "u32", "s64", "s8"}) {
    INFO(type);
    const Outcome uniforms = draw(type, "3", "7", "rng_uniform");
    const Array& uniform = uniforms[0];
    int counts[8] = {};
    for (int64_t i = 0; i < 20000; ++i) {
      const int64_t value = ElementAsInt64(uniform.AsLiteral(), i);
      REQUIRE(value >= 3);
      REQUIRE(value < 7);
      ++counts[value];
    }
    for (int value = 3; value < 7; ++value) CHECK(std::abs(counts[value] - 5000) < 300);
  }
}

}  // namespace gshard::cpu::testing
