#include "ir/proto/wire.h"

#include <bit>

namespace gshard::proto {
namespace {

// The low seven bits of each byte, next to each other: pairs, then fours, then all eight.
uint64_t WithoutMarks(uint64_t bytes) {
  bytes = (bytes & 0x007f007f007f007f) | ((bytes & 0x7f007f007f007f00) >> 1);
  bytes = (bytes & 0x00003fff00003fff) | ((bytes & 0x3fff00003fff0000) >> 2);
  return (bytes & 0x000000000fffffff) | ((bytes & 0x0fffffff00000000) >> 4);
}

}  // namespace

const char* LongVarint(const char* p, const char* end, uint64_t& value) {
  if (end - p >= 8) {  // ids of instructions, which have six bytes
    uint64_t word = 0;
    std::memcpy(&word, p, sizeof(word));
    const uint64_t last = ~word & 0x8080808080808080;  // bytes that end a varint
    if (last != 0) {
      const int bits = std::countr_zero(last) + 1;
      value = WithoutMarks(word & (~uint64_t{0} >> (64 - bits)));
      return p + bits / 8;
    }
  }
  value = 0;
  for (unsigned shift = 0; shift < 64 && p != end; shift += 7) {
    const auto byte = static_cast<unsigned char>(*p++);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return p;
  }
  return nullptr;
}

bool AppendPacked(std::string_view bytes, std::vector<int64_t>& values) {
  const char* p = bytes.data();
  const char* end = p + bytes.size();
  while (p != end) {
    uint64_t value = static_cast<unsigned char>(*p);
    p = value < 0x80 ? p + 1 : LongVarint(p, end, value);
    if (p == nullptr) return false;
    values.push_back(static_cast<int64_t>(value));
  }
  return true;
}

}  // namespace gshard::proto
