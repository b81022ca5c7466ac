// Writes the wire format of protocol buffers: the fields of one message, in the order in which they
// are added. Format: https://protobuf.dev/programming-guides/encoding.
#ifndef GSHARD_IR_PROTO_WIRE_WRITER_H_
#define GSHARD_IR_PROTO_WIRE_WRITER_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "ir/proto/wire.h"

namespace gshard::proto {

inline void AppendVarint(uint64_t value, std::string& bytes) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
}

// A message that is being written. Fields are numbered as in its .proto file.
class WireWriter {
 public:
  const std::string& bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }
  void Clear() { bytes_.clear(); }

  // Of the types uint32, uint64, bool and enum, and of int32 and int64 (negative ones as their
  // two's complement).
  void Varint(uint32_t field, uint64_t value) {
    Key(field, WireType::kVarint);
    AppendVarint(value, bytes_);
  }
  void Integer(uint32_t field, int64_t value) { Varint(field, static_cast<uint64_t>(value)); }
  void Fixed64(uint32_t field, uint64_t value) {
    Key(field, WireType::kFixed64);
    // Little-endian on any machine.
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<char>(value >> shift));
    }
  }
  void Double(uint32_t field, double value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    Fixed64(field, bits);
  }
  // A string, or a message that is written already.
  void Bytes(uint32_t field, std::string_view value) {
    Key(field, WireType::kBytes);
    AppendVarint(value.size(), bytes_);
    bytes_ += value;
  }
  void Message(uint32_t field, const WireWriter& message) { Bytes(field, message.bytes()); }
  // Of a repeated integer field, packed; nothing if there are none.
  void Packed(uint32_t field, std::span<const uint64_t> values) {
    if (values.empty()) return;
    std::string packed;
    for (uint64_t value : values) AppendVarint(value, packed);
    Bytes(field, packed);
  }

 private:
  void Key(uint32_t field, WireType type) {
    AppendVarint((uint64_t{field} << 3) | static_cast<uint64_t>(type), bytes_);
  }

  std::string bytes_;
};

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_WIRE_WRITER_H_
