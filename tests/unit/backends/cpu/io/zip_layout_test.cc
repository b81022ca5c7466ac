#include "backends/cpu/io/zip_layout.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace gshard::cpu {
namespace {

std::string Number(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(i < 8 ? value >> (8 * i) & 0xff : 0);
  }
  return text;
}

// An archive as numpy writes it: members "a" and "bc", the numbers of both beyond 32 bits or not.
struct Zip {
  uint64_t method = 0;
  uint64_t flags = 0;
  bool is_64 = false;

  std::string Sizes(uint64_t bytes) const {
    return is_64 ? Number(0xffffffff, 4) + Number(0xffffffff, 4)
                 : Number(bytes, 4) + Number(bytes, 4);
  }
  std::string Extra(uint64_t bytes) const {
    // Another field comes first.
    return is_64 ? Number(0x7075, 2) + Number(1, 2) + "x" + Number(1, 2) + Number(16, 2) +
                       Number(bytes, 8) + Number(bytes, 8)
                 : "";
  }
  std::string Text() const {
    std::string file, directory;
    for (const auto& [name, data] : {std::pair<std::string, std::string>{"a", "first"},
                                     std::pair<std::string, std::string>{"bc", "second"}}) {
      const std::string extra = Extra(data.size());
      const std::string both = Number(flags, 2) + Number(method, 2) + Number(0, 8) +
                               Sizes(data.size()) + Number(name.size(), 2) +
                               Number(extra.size(), 2);
      directory += Number(0x02014b50, 4) + Number(45, 2) + Number(45, 2) + both + Number(0, 10) +
                   Number(file.size(), 4) + name + extra;
      file += Number(0x04034b50, 4) + Number(45, 2) + both + name + extra + data;
    }
    const size_t begin = file.size();
    file += directory;
    if (is_64) {
      const size_t end64 = file.size();
      file += Number(0x06064b50, 4) + Number(44, 8) + Number(45, 2) + Number(45, 2) + Number(0, 8) +
              Number(2, 8) + Number(2, 8) + Number(directory.size(), 8) + Number(begin, 8);
      file += Number(0x07064b50, 4) + Number(0, 4) + Number(end64, 8) + Number(1, 4);
    }
    const uint64_t entries = is_64 ? 0xffff : 2, at = is_64 ? 0xffffffff : begin;
    return file + Number(0x06054b50, 4) + Number(0, 4) + Number(entries, 2) + Number(entries, 2) +
           Number(directory.size(), 4) + Number(at, 4) + Number(0, 2);
  }
};

std::optional<MemberPlace> PlaceIn(const std::string& file, size_t index) {
  const auto read = [&](size_t begin, std::span<std::byte> out) {
    if (begin > file.size() || out.size() > file.size() - begin) return false;
    std::memcpy(out.data(), file.data() + begin, out.size());
    return true;
  };
  return PlaceOfStoredMember(file.size(), read, index);
}

std::string MemberOf(const std::string& file, size_t index) {
  const auto place = PlaceIn(file, index);
  return place ? file.substr(place->begin, place->bytes) : "nowhere";
}

TEST_CASE("stored members are found", "[io]") {
  for (const bool is_64 : {false, true}) {
    const std::string file = Zip{.is_64 = is_64}.Text();
    CHECK(MemberOf(file, 0) == "first");
    CHECK(MemberOf(file, 1) == "second");
    CHECK(MemberOf(file, 2) == "nowhere");
  }
  CHECK(MemberOf(Zip{.method = 8}.Text(), 0) == "nowhere");
  CHECK(MemberOf(Zip{.flags = 1}.Text(), 0) == "nowhere");
}

TEST_CASE("no damage leads out of the file", "[io]") {
  for (const bool is_64 : {false, true}) {
    const std::string file = Zip{.is_64 = is_64}.Text();
    for (size_t length = 0; length < file.size(); ++length) {
      MemberOf(file.substr(0, length), 1);
      MemberOf(file.substr(length), 1);
      for (const char byte : {'\0', '\x7f', '\xff'}) {
        std::string damaged = file;
        damaged[length] = byte;
        const auto place = PlaceIn(damaged, 1);
        if (!place) continue;
        REQUIRE(place->begin <= damaged.size());
        REQUIRE(place->bytes <= damaged.size() - place->begin);
      }
    }
  }
}

}  // namespace
}  // namespace gshard::cpu
