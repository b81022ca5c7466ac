#include "ir/proto/wire_writer.h"

#include <catch2/catch.hpp>

namespace gshard::proto {
namespace {

TEST_CASE("What is written is read again", "[proto]") {
  WireWriter inner, message;
  inner.Varint(1, 7);
  message.Varint(1, 0);
  message.Varint(16, UINT64_MAX);
  message.Integer(2, -5);
  message.Double(3, -0.25);
  message.Fixed64(4, 0x0102030405060708);
  message.Bytes(5, std::string("a\0b", 3));
  message.Message(6, inner);
  const uint64_t values[] = {1, 300, uint64_t{1} << 40};
  message.Packed(7, values);
  message.Packed(8, {});
  FieldReader reader(message.bytes());
  REQUIRE(reader.Next());
  CHECK((reader.number() == 1 && reader.value() == 0));
  REQUIRE(reader.Next());
  CHECK((reader.number() == 16 && reader.value() == UINT64_MAX));
  REQUIRE(reader.Next());
  CHECK((reader.number() == 2 && reader.integer() == -5));
  REQUIRE(reader.Next());
  CHECK((reader.number() == 3 && reader.real() == -0.25));
  REQUIRE(reader.Next());
  CHECK((reader.type() == WireType::kFixed64 && reader.value() == 0x0102030405060708));
  REQUIRE(reader.Next());
  CHECK(reader.bytes() == std::string_view("a\0b", 3));
  REQUIRE(reader.Next());
  CHECK(reader.bytes() == std::string_view("\x08\x07", 2));
  REQUIRE(reader.Next());
  std::vector<int64_t> packed;
  CHECK(reader.AppendTo(packed));
  CHECK(packed == std::vector<int64_t>{1, 300, int64_t{1} << 40});
  CHECK(!reader.Next());
  CHECK(reader.ok());
}

}  // namespace
}  // namespace gshard::proto
