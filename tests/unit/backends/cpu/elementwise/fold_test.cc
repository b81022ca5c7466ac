// Folds: the tree is what the header says, and parts of it computed apart give the same bits.
#include "backends/cpu/elementwise/fold.h"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/memory/memory.h"
#include "ir/parser.h"

namespace gshard::cpu {
namespace {

std::unique_ptr<Module> Reduction(const std::string& type, const std::string& body) {
  auto module = ParseModule(SourceText::FromString(
      "r.hlo", "HloModule m\nENTRY r {\n  a = " + type + "[] parameter(0)\n  b = " + type +
                   "[] parameter(1)\n  " + body + "\n}\n"));
  REQUIRE(module);
  return std::move(*module);
}

std::vector<std::vector<float>> RandomMembers(size_t members, size_t count) {
  std::mt19937 random(static_cast<unsigned>(members));
  std::normal_distribution<float> normal(0, 1);
  std::vector<std::vector<float>> data(members, std::vector<float>(count));
  for (auto& member : data) {
    for (float& x : member) x = normal(random) * std::exp(5 * normal(random));
  }
  return data;
}

template <typename T>
std::vector<const std::byte*> Pointers(const std::vector<std::vector<T>>& members) {
  std::vector<const std::byte*> pointers;
  for (const auto& member : members) {
    pointers.push_back(reinterpret_cast<const std::byte*>(member.data()));
  }
  return pointers;
}

// The tree written down: blocks in order, then pairs of neighbours, level by level.
float TreeSum(const std::vector<std::vector<float>>& members, size_t element, size_t block) {
  std::vector<float> level;
  for (size_t first = 0; first < members.size(); first += block) {
    float sum = members[first][element];
    for (size_t m = first + 1; m < std::min(first + block, members.size()); ++m) {
      sum += members[m][element];
    }
    level.push_back(sum);
  }
  while (level.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      next.push_back(i + 1 < level.size() ? level[i] + level[i + 1] : level[i]);
    }
    level = std::move(next);
  }
  return level[0];
}

// By parts: every block in two pieces, and a tree over the blocks level by level.
std::vector<std::byte> ByParts(const Fold& fold, int64_t count,
                               std::span<const std::byte* const> members, size_t cut,
                               int64_t element_bytes) {
  BumpScratch scratch;
  const auto bytes = static_cast<size_t>(count * fold.partial_bytes());
  std::vector<std::vector<std::byte>> level;
  for (size_t first = 0; first < members.size(); first += kMembersPerBlock) {
    const auto block =
        members.subspan(first, std::min<size_t>(kMembersPerBlock, members.size() - first));
    const size_t begun = std::min(cut, block.size());
    std::vector<std::byte> sent(bytes), partial(bytes);
    fold.RunPart(count, nullptr, block.first(begun), sent.data(), scratch);
    fold.RunPart(count, sent.data(), block.subspan(begun), partial.data(), scratch);
    level.push_back(std::move(partial));
  }
  while (level.size() > 1) {
    std::vector<std::vector<std::byte>> next;
    for (size_t i = 0; i < level.size(); i += 2) {
      if (i + 1 < level.size()) fold.Merge(count, level[i].data(), level[i + 1].data(), scratch);
      next.push_back(std::move(level[i]));
    }
    level = std::move(next);
  }
  std::vector<std::byte> result(static_cast<size_t>(count * element_bytes));
  fold.Finish(count, level[0].data(), result.data());
  return result;
}

TEST_CASE("a sum is a tree over blocks of members", "[fold]") {
  const auto module = Reduction("f32", "ROOT s = f32[] add(a, b)");
  const auto fold = MakeFold(*module->entry(), DType::kF32);
  REQUIRE(fold);
  constexpr size_t kCount = 2051;  // more than a tile
  for (const size_t members : std::vector<size_t>{1, 2, 31, 32, 33, 64, 95, 97, 160, 225}) {
    const auto data = RandomMembers(members, kCount);
    for (const uint32_t block : {uint32_t{1}, kMembersPerBlock}) {
      std::vector<float> result(kCount);
      BumpScratch scratch;
      (*fold)->Run(kCount, Pointers(data), block, reinterpret_cast<std::byte*>(result.data()),
                   scratch);
      for (const size_t i : {size_t{0}, size_t{7}, size_t{2047}, kCount - 1}) {
        CHECK(std::bit_cast<uint32_t>(result[i]) ==
              std::bit_cast<uint32_t>(TreeSum(data, i, block)));
      }
    }
  }
}

TEST_CASE("parts of a fold give what the whole gives", "[fold]") {
  struct Case {
    const char* type;
    DType dtype;
    const char* body;
  };
  const Case cases[] = {
      {"f32", DType::kF32, "ROOT s = f32[] add(a, b)"},
      {"bf16", DType::kBF16, "ROOT s = bf16[] add(a, b)"},
      {"f16", DType::kF16, "ROOT s = f16[] add(a, b)"},
      {"s4", DType::kS4, "ROOT s = s4[] add(a, b)"},
      {"f64", DType::kF64, "ROOT s = f64[] maximum(a, b)"},
      {"c64", DType::kC64, "ROOT s = c64[] multiply(a, b)"},
      {"pred", DType::kPred, "ROOT s = pred[] or(a, b)"},
      {"f32", DType::kF32, "m = f32[] multiply(a, b)\n  ROOT s = f32[] subtract(m, a)"},
  };
  for (const Case& c : cases) {
    INFO(c.type << " " << c.body);
    const auto module = Reduction(c.type, c.body);
    const auto fold = MakeFold(*module->entry(), c.dtype);
    REQUIRE(fold);
    constexpr int64_t kCount = 100;
    const int64_t bytes = StorageBytes(c.dtype);
    for (const size_t members : std::vector<size_t>{1, 3, 32, 40, 130}) {
      std::mt19937 random(7);
      std::vector<std::vector<std::byte>> data(
          members, std::vector<std::byte>(static_cast<size_t>(kCount * bytes)));
      for (auto& member : data) {
        for (std::byte& x : member) x = static_cast<std::byte>(random() % 2);
        if (IsFloat(c.dtype)) {
          for (size_t i = static_cast<size_t>(bytes) - 1; i < member.size();
               i += static_cast<size_t>(bytes)) {
            member[i] = std::byte{0x3c};  // normal numbers of all sizes
            member[i - 1] = static_cast<std::byte>(random() % 256);
          }
        }
      }
      std::vector<std::byte> whole(static_cast<size_t>(kCount * bytes));
      BumpScratch scratch;
      (*fold)->Run(kCount, Pointers(data), kMembersPerBlock, whole.data(), scratch);
      for (const size_t cut : std::vector<size_t>{1, 5, 31}) {
        CHECK(ByParts(**fold, kCount, Pointers(data), cut, bytes) == whole);
      }
    }
  }
}

TEST_CASE("an element of a product has the same bits in every block of rows", "[fold]") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 1);
  constexpr int64_t kM = 61;  // heights differ: no block height divides it
  for (const auto [n, k, row] : {std::array<int64_t, 3>{5, 40, 40},
                                 {64, 200, 200},
                                 {77, 300, 1024},  // rows compete for lines of the cache
                                 {150, 130, 512}}) {
    std::vector<float> a(static_cast<size_t>(kM * row)), b(static_cast<size_t>(k * n));
    for (float& x : a) x = normal(random);
    for (float& x : b) x = normal(random);
    const MatrixView<float> rhs{b.data(), n, 1};
    std::vector<float> whole(static_cast<size_t>(kM * n)), parts(whole.size());
    RowGemm(kM, n, k, {a.data(), row, 1}, rhs, whole.data(), n);
    for (const int64_t height : {1, 2, 5, 7, 13, 14, 25}) {
      for (int64_t i = 0; i < kM; i += height) {
        RowGemm(std::min(height, kM - i), n, k, {a.data() + i * row, row, 1}, rhs,
                parts.data() + i * n, n);
      }
      CHECK(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("a matrix times a vector has the bits of any product", "[fold]") {
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 1);
  for (const auto [m, k, row, step] : {std::array<int64_t, 4>{1, 5, 5, 1},
                                       {8, 4, 4, 1},
                                       {61, 16, 16, 1},
                                       {24, 127, 130, 3},
                                       {37, 131, 131, 1},
                                       {16, 700, 701, 2}}) {
    INFO(m << " x " << k);
    std::vector<float> a(static_cast<size_t>(m * row)), x(static_cast<size_t>(k * step));
    for (float& value : a) value = normal(random);
    for (float& value : x) value = normal(random);
    std::vector<float> dots(static_cast<size_t>(m)), expected(dots.size());
    RowDots(m, k, a.data(), row, x.data(), step, dots.data());
    RowGemm(m, 1, k, {a.data(), row, 1}, MatrixView<float>{x.data(), step, 1}, expected.data(), 1);
    CHECK(std::memcmp(dots.data(), expected.data(), dots.size() * sizeof(float)) == 0);
  }
}

template <typename T>
void CheckPairs(int64_t count, int64_t k, int64_t row, int64_t column, int64_t other_row) {
  INFO(count << " of " << k);
  std::mt19937 random(13);
  std::normal_distribution<T> normal(0, 1);
  std::vector<T> a(static_cast<size_t>(count * row + k * column));
  std::vector<T> b(static_cast<size_t>(count * other_row + k));
  for (T& value : a) value = normal(random);
  for (T& value : b) value = normal(random);
  std::vector<T> dots(static_cast<size_t>(count)), expected(dots.size());
  PairDots(count, k, DotRows<T>{a.data(), row, column}, DotRows<T>{b.data(), other_row, 1},
           dots.data());
  for (int64_t i = 0; i < count; ++i) {
    RowGemm(1, 1, k, MatrixView<T>{a.data() + i * row, 1, column},
            MatrixView<T>{b.data() + i * other_row, 1, 1}, expected.data() + i, 1);
  }
  CHECK(std::memcmp(dots.data(), expected.data(), dots.size() * sizeof(T)) == 0);
}

TEST_CASE("many rows times a column each have the bits of any product", "[fold]") {
  for (const auto [count, k, row, column, other_row] : {std::array<int64_t, 5>{1, 3, 3, 1, 3},
                                                        {64, 2, 2, 1, 2},
                                                        {37, 7, 1, 40, 9},
                                                        {16, 128, 130, 1, 0},
                                                        {5, 129, 129, 1, 129},
                                                        {33, 700, 1, 35, 701}}) {
    CheckPairs<float>(count, k, row, column, other_row);
    CheckPairs<double>(count, k, row, column, other_row);
  }
}

TEST_CASE("sums of short products do not depend on how they are divided", "[fold]") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  for (const int64_t n : {3, 16, 37, 100}) {
    constexpr int64_t kM = 11, kK = 16, kMatrices = 40;
    std::vector<std::vector<float>> a(kMatrices, std::vector<float>(kM * kK));
    std::vector<std::vector<float>> b(kMatrices, std::vector<float>(static_cast<size_t>(kK * n)));
    std::vector<const float*> lhs, rhs;
    for (size_t i = 0; i < kMatrices; ++i) {
      for (float& x : a[i]) x = normal(random);
      for (float& x : b[i]) x = normal(random);
      lhs.push_back(a[i].data());
      rhs.push_back(b[i].data());
    }
    std::vector<float> whole(static_cast<size_t>(kM * n)), parts(whole.size());
    RowGemmSum(kMatrices, kM, n, kK, MatrixList<float>{lhs.data(), kK, 1},
               MatrixList<float>{rhs.data(), n, 1}, {whole.data(), n});
    for (const int64_t cut : {1, 7, 16, 33}) {
      RowGemmSum(cut, kM, n, kK, MatrixList<float>{lhs.data(), kK, 1},
                 MatrixList<float>{rhs.data(), n, 1}, {parts.data(), n});
      RowGemmSum(kMatrices - cut, kM, n, kK, MatrixList<float>{lhs.data() + cut, kK, 1},
                 MatrixList<float>{rhs.data() + cut, n, 1}, {parts.data(), n, true});
      CHECK(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)) == 0);
    }
  }
}

}  // namespace
}  // namespace gshard::cpu
