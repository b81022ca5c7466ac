#include "backends/cpu/io/npy.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "backends/cpu/io/npz.h"
#include "tests/unit/temporary_folder.h"

namespace gshard::cpu {
namespace {

template <typename T>
std::vector<std::byte> BytesOf(std::vector<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<std::byte> FileOf(const std::string& dict, const std::vector<std::byte>& data) {
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(dict.size() & 0xff);
  head += static_cast<char>(dict.size() >> 8);
  head += dict;
  std::vector<std::byte> file(head.size() + data.size());
  std::memcpy(file.data(), head.data(), head.size());
  std::memcpy(file.data() + head.size(), data.data(), data.size());
  return file;
}

TEST_CASE("npy files are laid out as NumPy has them", "[cpu]") {
  const std::vector<int64_t> dims{2, 1};
  const std::vector<std::byte> file = FormatNpy(DType::kF32, dims, BytesOf<float>({1.5f, -2.0f}));
  const std::string text(reinterpret_cast<const char*>(file.data()), file.size());
  CHECK(text.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  CHECK(text.find("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }") == 10);
  CHECK((file.size() - 8) % 64 == 0);
  auto parsed = ParseNpy(file, "x");
  REQUIRE(parsed);
  CHECK(parsed->dims == dims);
  CHECK(parsed->data == BytesOf<float>({1.5f, -2.0f}));
  CHECK(NpyDescr(DType::kBF16) == "|V2");
  CHECK(NpyDescr(DType::kF8E4M3FN) == "|V1");
  const std::vector<std::byte> scalar = FormatNpy(DType::kS32, {}, BytesOf<int32_t>({7}));
  CHECK(std::string(reinterpret_cast<const char*>(scalar.data()), 80).find("'shape': ()") !=
        std::string::npos);
}

TEST_CASE("column-major arrays are turned, other numbers converted", "[cpu]") {
  const std::vector<std::byte> file =
      FileOf("{'descr': '<i8', 'fortran_order': True, 'shape': (2, 3), }",
             BytesOf<int64_t>({1, 4, 2, 5, 3, 6}));
  auto parsed = ParseNpy(file, "x");
  REQUIRE(parsed);
  CHECK(parsed->data == BytesOf<int64_t>({1, 2, 3, 4, 5, 6}));
  auto converted = ConvertNpy(*parsed, DType::kF32, "x");
  REQUIRE(converted);
  CHECK(*converted == BytesOf<float>({1, 2, 3, 4, 5, 6}));
  // bf16 of 1 and 2: 0x3f80, 0x4000.
  NpyArray doubles{"<f8", {2}, BytesOf<double>({1, 2})};
  CHECK(*ConvertNpy(doubles, DType::kBF16, "x") == BytesOf<uint16_t>({0x3f80, 0x4000}));
  CHECK_FALSE(ConvertNpy(doubles, DType::kC64, "x"));
}

TEST_CASE("integers for a float that NumPy does not know may be its bits", "[cpu]") {
  const NpyArray bits{"<u2", {2}, BytesOf<uint16_t>({0x3f80, 0x4000})};
  for (const char* descr : {"<u2", "<i2"}) {
    const auto refused = ConvertNpy({descr, bits.dims, bits.data}, DType::kBF16, "x");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == "E-NPY-TYPE");
    CHECK(refused.error().hint == "bits: x.view('V2'); numbers: x.astype('float32')");
  }
  CHECK_FALSE(ConvertNpy({"|u1", {1}, BytesOf<uint8_t>({7})}, DType::kF8E5M2, "x"));
  CHECK(*ConvertNpy({"|V2", bits.dims, bits.data}, DType::kBF16, "x") == bits.data);
  CHECK(*ConvertNpy({"<f1", {1}, BytesOf<uint8_t>({0x3c})}, DType::kF8E5M2, "x") ==
        BytesOf<uint8_t>({0x3c}));
  CHECK_FALSE(ConvertNpy({"<f1", {1}, BytesOf<uint8_t>({0x3c})}, DType::kF8E4M3FN, "x"));
  // Of another width, or for a type that NumPy has, they are numbers.
  CHECK(*ConvertNpy({"|u1", {1}, BytesOf<uint8_t>({2})}, DType::kBF16, "x") ==
        BytesOf<uint16_t>({0x4000}));
  CHECK(*ConvertNpy({"<u2", {1}, BytesOf<uint16_t>({2})}, DType::kF16, "x") ==
        BytesOf<uint16_t>({0x4000}));
}

TEST_CASE("values that a type does not have become ones that it has", "[cpu]") {
  const NpyArray large{"<u8", {1}, BytesOf<uint64_t>({uint64_t{1} << 63})};
  CHECK(*ConvertNpy(large, DType::kF32, "x") == BytesOf<float>({0x1p63f}));
  const NpyArray reals{"<f8", {3}, BytesOf<double>({1e300, -1e300, std::nan("")})};
  CHECK(*ConvertNpy(reals, DType::kS64, "x") == BytesOf<int64_t>({INT64_MAX, INT64_MIN, 0}));
  const NpyArray truths{"|b1", {2}, BytesOf<uint8_t>({2, 0})};
  CHECK(*ConvertNpy(truths, DType::kPred, "x") == BytesOf<uint8_t>({1, 0}));
  const NpyArray narrow{"|V1", {3}, BytesOf<uint8_t>({0x0f, 0x17, 0x88})};
  CHECK(*ConvertNpy(narrow, DType::kS4, "x") == BytesOf<int8_t>({-1, 7, -8}));
  CHECK(*ConvertNpy(narrow, DType::kU4, "x") == BytesOf<uint8_t>({15, 7, 8}));
}

TEST_CASE("big-endian numbers are turned round", "[cpu]") {
  const auto parsed = ParseNpy(FileOf("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
                                      BytesOf<uint32_t>({0x0000803f, 0x000000c0})),
                               "x");
  REQUIRE(parsed);
  CHECK(parsed->descr == "<f4");
  CHECK(parsed->data == BytesOf<float>({1, -2}));
}

TEST_CASE("damaged npy files are refused", "[cpu]") {
  const std::vector<std::byte> data(8);
  CHECK_FALSE(ParseNpy({}, "x"));
  CHECK_FALSE(ParseNpy(data, "x"));
  CHECK_FALSE(
      ParseNpy(FileOf("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", data), "x"));
  CHECK_FALSE(
      ParseNpy(FileOf("{'descr': '<f4', 'shape': (99999999999,99999999999), }", data), "x"));
  CHECK_FALSE(ParseNpy(FileOf("{'descr': '<f4', 'shape': (x,), }", data), "x"));
  CHECK_FALSE(ParseNpy(FileOf("{}", data), "x"));
}

TEST_CASE("npz files keep names and contents, and equal runs write equal bytes", "[cpu]") {
  const TemporaryFolder folder;
  const std::string path = folder.File("test.npz");
  auto write = [&] {
    NpzWriter writer(path);
    const std::vector<int64_t> dims{2};
    REQUIRE(writer.Add("p0", FormatNpy(DType::kF32, dims, BytesOf<float>({1, 2}))));
    REQUIRE(writer.Add("w", FormatNpy(DType::kS32, {}, BytesOf<int32_t>({7}))));
    REQUIRE(writer.Finish());
  };
  write();
  auto reader = NpzReader::Open(path);
  REQUIRE(reader);
  CHECK((*reader)->names() == std::vector<std::string>{"p0", "w"});
  CHECK((*reader)->Read("w")->data == BytesOf<int32_t>({7}));
  CHECK((*reader)->Read("p0")->dims == std::vector<int64_t>{2});
  CHECK_FALSE((*reader)->Read("q"));
  CHECK_FALSE(NpzReader::Open(path + ".absent"));
}

}  // namespace
}  // namespace gshard::cpu
