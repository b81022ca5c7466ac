// Messages in the wire format of protocol buffers, for tests.
#ifndef GSHARD_TESTS_UNIT_IR_PROTO_MESSAGE_H_
#define GSHARD_TESTS_UNIT_IR_PROTO_MESSAGE_H_

#include <cstdint>
#include <initializer_list>
#include <string>

namespace gshard {

// A message in the wire format.
class Message {
 public:
  Message& Int(uint32_t number, int64_t value) {
    Varint(number << 3);
    Varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& Bytes(uint32_t number, const std::string& bytes) {
    Varint((number << 3) | 2);
    Varint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  Message& Ints(uint32_t number, std::initializer_list<int64_t> values) {
    Message packed;
    for (int64_t value : values) packed.Varint(static_cast<uint64_t>(value));
    return Bytes(number, packed.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t value) {
    for (; value > 127; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

}  // namespace gshard

#endif  // GSHARD_TESTS_UNIT_IR_PROTO_MESSAGE_H_
