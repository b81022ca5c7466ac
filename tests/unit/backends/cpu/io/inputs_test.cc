#include "backends/cpu/io/inputs.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "backends/cpu/arrays/fill.h"
#include "tests/unit/temporary_folder.h"

namespace gshard::cpu {
namespace {

template <typename T>
std::vector<T> ValuesOf(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_CASE("random numbers depend on their place only", "[cpu]") {
  std::vector<std::byte> whole(4000), part(400);
  FillRandom(DType::kF32, 2, 5, 3, 0, 1000, whole.data());
  FillRandom(DType::kF32, 2, 5, 3, 700, 100, part.data());
  CHECK(std::memcmp(whole.data() + 2800, part.data(), 400) == 0);
  std::vector<std::byte> other(4000);
  FillRandom(DType::kF32, 2, 6, 3, 0, 1000, other.data());
  CHECK(other != whole);
  FillRandom(DType::kF32, 2, 5, 4, 0, 1000, other.data());
  CHECK(other != whole);
}

TEST_CASE("random numbers have the documented ranges", "[cpu]") {
  const int64_t n = 100000;
  std::vector<std::byte> bytes(n * 4);
  FillRandom(DType::kF32, 2, 0, 0, 0, n, bytes.data());
  const std::vector<float> floats = ValuesOf<float>(bytes);
  double sum = 0, squares = 0;
  for (float x : floats) {
    sum += static_cast<double>(x);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  CHECK(std::fabs(sum / n) < 0.001);
  CHECK(std::sqrt(squares / n) == Approx(0.1).epsilon(0.01));
  FillRandom(DType::kF32, 1, 0, 0, 0, n, bytes.data());
  for (float x : ValuesOf<float>(bytes)) REQUIRE(x >= 0.5f);
  FillRandom(DType::kS32, 3, 0, 0, 0, n, bytes.data());
  int counts[4] = {};
  for (int32_t x : ValuesOf<int32_t>(bytes)) {
    REQUIRE((x >= 0 && x < 4));
    ++counts[x];
  }
  for (int count : counts) CHECK(count == Approx(n / 4).epsilon(0.05));
}

GlobalArray Counting(std::vector<int64_t> dims) {
  GlobalArray array;
  array.dtype = DType::kS32;
  array.dims = std::move(dims);
  int64_t count = 1;
  for (int64_t dim : array.dims) count *= dim;
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  array.data.resize(values.size() * 4);
  std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

std::vector<int32_t> Box(const GlobalArray& array, std::vector<int64_t> start,
                         std::vector<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  std::vector<std::byte> out(static_cast<size_t>(count) * 4);
  REQUIRE(array.ReadBox(start, sizes, Padding::kPoisoned, out.data()));
  return ValuesOf<int32_t>(out);
}

TEST_CASE("boxes are cut out of arrays, padding is poisoned", "[cpu]") {
  const GlobalArray array = Counting({4, 6});
  CHECK(Box(array, {2, 0}, {2, 6}) ==
        std::vector<int32_t>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  CHECK(Box(array, {1, 4}, {2, 2}) == std::vector<int32_t>{10, 11, 16, 17});
  const int32_t p = 0x7f7f7f7f;
  CHECK(Box(array, {3, 4}, {2, 3}) == std::vector<int32_t>{22, 23, p, p, p, p});
  CHECK(Box(array, {4, 0}, {1, 2}) == std::vector<int32_t>{p, p});
  // A dim that one tile holds: the next tile is all padding.
  CHECK(Box(Counting({2, 1}), {0, 1}, {2, 1}) == std::vector<int32_t>{p, p});
  CHECK(Box(Counting({2, 1}), {0, 0}, {2, 1}) == std::vector<int32_t>{0, 1});
  CHECK(Box(Counting({}), {}, {}) == std::vector<int32_t>{0});
  CHECK(Box(Counting({2, 3, 4}), {1, 1, 0}, {1, 2, 4}) ==
        std::vector<int32_t>{16, 17, 18, 19, 20, 21, 22, 23});
}

TEST_CASE("an array of a file that needs no change is not copied to memory", "[cpu][io]") {
  const TemporaryFolder folder;
  const std::string path = folder.File("a.npz");
  const GlobalArray given = Counting({4, 6});
  NpzWriter writer(path);
  REQUIRE(writer.Add("p0", FormatNpy(given.dtype, given.dims, given.data)));
  REQUIRE(writer.Finish());
  auto inputs = Inputs::Open(path, 0);
  REQUIRE(inputs);

  Context context;
  InputForm form = InputForm::kWhole;
  auto load = [&](DType dtype) {
    ParameterLeaf leaf;
    leaf.shape = context.Array(dtype, given.dims);
    auto array = (*inputs)->Load(leaf, 0, given.dims, given.dims, true, DeviceGrid(), &form);
    REQUIRE(array);
    CHECK(!array->IsRandom());
    return *array;
  };
  const GlobalArray same = load(DType::kS32);
  CHECK(same.data.empty());
  CHECK(Box(same, {1, 4}, {2, 2}) == std::vector<int32_t>{10, 11, 16, 17});
  const GlobalArray other = load(DType::kF32);
  CHECK(other.stored.file == nullptr);
  CHECK(ValuesOf<float>(other.data)[23] == 23);

  // Somebody cuts the file off before the array is read.
  std::filesystem::resize_file(path, 150);
  std::vector<std::byte> out(4 * 24);
  const std::vector<int64_t> start = {0, 0};
  const Expected<void> read = same.ReadBox(start, given.dims, Padding::kPoisoned, out.data());
  REQUIRE_FALSE(read);
  CHECK(read.error().code == "E-NPZ-FILE");
  CHECK(read.error().message == path + ": p0 was cut off while it was read");
}

}  // namespace
}  // namespace gshard::cpu
