// The wire format: varints of every length, packed and alone, whole and cut; ids.
#include "ir/proto/wire.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/proto/id_table.h"

namespace gshard::proto {
namespace {

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}

// Values whose varints have one to ten bytes.
std::vector<uint64_t> Values() {
  std::vector<uint64_t> values = {0};
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    values.insert(values.end(), {power, power - 1, power | 0x5555555555555555 % power});
  }
  values.push_back(UINT64_MAX);
  return values;
}

TEST_CASE("varints of every length are read, whatever follows", "[ir][proto]") {
  for (const uint64_t value : Values()) {
    for (const std::string& rest : {std::string(), std::string(9, '\xff'), std::string(9, '\0')}) {
      const std::string bytes = Varint(value) + rest;
      uint64_t read = 0;
      const char* end = LongVarint(bytes.data(), bytes.data() + bytes.size(), read);
      CHECK(end == bytes.data() + bytes.size() - rest.size());
      CHECK(read == value);
    }
    const std::string bytes = Varint(5 << 3) + Varint(value);
    FieldReader field(bytes);
    REQUIRE(field.Next());
    CHECK(field.value() == value);
    CHECK(!field.Next());
    CHECK(field.ok());
  }
}

TEST_CASE("packed varints are read one after the other", "[ir][proto]") {
  std::string bytes;
  for (const uint64_t value : Values()) bytes += Varint(value);
  std::vector<int64_t> read;
  REQUIRE(AppendPacked(bytes, read));
  CHECK(std::vector<uint64_t>(read.begin(), read.end()) == Values());
}

TEST_CASE("a varint that is cut or has no end is damage", "[ir][proto]") {
  for (const uint64_t value : Values()) {
    std::string cut = Varint(value);
    cut.pop_back();
    uint64_t read = 0;
    CHECK(LongVarint(cut.data(), cut.data() + cut.size(), read) == nullptr);
    std::vector<int64_t> values;
    CHECK(AppendPacked(cut, values) == cut.empty());
    FieldReader field(cut.insert(0, 1, 5 << 3));
    CHECK(!field.Next());
    CHECK(!field.ok());
  }
  const std::string endless(11, '\x80');
  uint64_t read = 0;
  CHECK(LongVarint(endless.data(), endless.data() + endless.size(), read) == nullptr);
}

TEST_CASE("ids find their instructions, however they are spaced", "[ir][proto]") {
  for (const int shift : {0, 1, 10, 20, 32, 48}) {
    constexpr size_t kCount = 3000;
    std::vector<Instruction> instructions(kCount);
    IdTable table;
    CHECK(table.Find(0) == nullptr);
    table.Reset(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      CHECK(table.Add(static_cast<int64_t>(i << shift), &instructions[i]));
      CHECK(!table.Add(static_cast<int64_t>(i << shift), &instructions[0]));
    }
    for (size_t i = 0; i < kCount; ++i) {
      CHECK(table.Find(static_cast<int64_t>(i << shift)) == &instructions[i]);
    }
    CHECK(table.Find(static_cast<int64_t>(kCount << shift)) == nullptr);
    CHECK(table.Find(-1) == nullptr);
    table.Reset(1);
    CHECK(table.Find(0) == nullptr);
  }
}

}  // namespace
}  // namespace gshard::proto
