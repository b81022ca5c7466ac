// The wire format of protocol buffers: the fields of one message, in order, as views.
//
// Nothing is copied and nothing is allocated; every length is checked against the bytes that are
// there. Groups, which proto3 does not have, end a message as damage does. Format:
// https://protobuf.dev/programming-guides/encoding.
#ifndef GSHARD_IR_PROTO_WIRE_H_
#define GSHARD_IR_PROTO_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace gshard::proto {

// The varint at `p`, of any length: where it ends, or null where the bytes are none.
const char* LongVarint(const char* p, const char* end, uint64_t& value);
// False where the bytes are no varints.
bool AppendPacked(std::string_view bytes, std::vector<int64_t>& values);

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class FieldReader {
 public:
  explicit FieldReader(std::string_view message)
      : p_(message.data()), end_(message.data() + message.size()) {}

  // Takes the next field; false at the end, and where the bytes are no message.
  bool Next() {
    if (p_ == end_) return false;
    uint64_t key = 0;
    if (!Varint(key)) return Damaged();
    number_ = static_cast<uint32_t>(key >> 3);
    type_ = static_cast<WireType>(key & 7);
    if ((key >> 3) - 1 >= kLargestNumber) return Damaged();
    if (IsBytes()) {  // most fields
      uint64_t size = 0;
      if (!Varint(size) || size > static_cast<uint64_t>(end_ - p_)) return Damaged();
      bytes_ = {p_, static_cast<size_t>(size)};
      p_ += size;
      return true;
    }
    if (type_ == WireType::kVarint) return Varint(value_) || Damaged();
    if (type_ == WireType::kFixed64) return Fixed(8) || Damaged();
    return (type_ == WireType::kFixed32 && Fixed(4)) || Damaged();
  }

  // After Next() was false: was it the end?
  bool ok() const { return !damaged_; }
  uint32_t number() const { return number_; }
  WireType type() const { return type_; }
  bool IsBytes() const { return type_ == WireType::kBytes; }
  // Of a varint or fixed field; of others 0.
  uint64_t value() const { return IsBytes() ? 0 : value_; }
  int64_t integer() const { return static_cast<int64_t>(value()); }
  bool boolean() const { return value() != 0; }
  double real() const {
    if (type_ == WireType::kFixed32) {
      float narrow = 0;
      const auto bits = static_cast<uint32_t>(value_);
      std::memcpy(&narrow, &bits, sizeof(narrow));
      return static_cast<double>(narrow);
    }
    double wide = 0;
    if (type_ == WireType::kFixed64) std::memcpy(&wide, &value_, sizeof(wide));
    return wide;
  }
  // Of a string, bytes, a message or packed numbers; of others empty.
  std::string_view bytes() const { return IsBytes() ? bytes_ : std::string_view{}; }

  // The values of a repeated integer field, packed or one a field.
  bool AppendTo(std::vector<int64_t>& values) const {
    if (IsBytes()) return AppendPacked(bytes_, values);
    if (type_ != WireType::kVarint) return false;
    values.push_back(integer());
    return true;
  }

 private:
  static constexpr uint64_t kLargestNumber = 0x1fffffff;

  bool Varint(uint64_t& value) {
    if (p_ != end_ && (*p_ & 0x80) == 0) {  // most keys, lengths and numbers
      value = static_cast<unsigned char>(*p_++);
      return true;
    }
    if (end_ - p_ >= 2 && (p_[1] & 0x80) == 0) {  // keys of fields from 16 on
      value = (static_cast<unsigned char>(p_[0]) & 0x7fu) |
              (static_cast<uint64_t>(static_cast<unsigned char>(p_[1])) << 7);
      p_ += 2;
      return true;
    }
    uint64_t wide = 0;
    p_ = LongVarint(p_, end_, wide);
    value = wide;
    return p_ != nullptr;
  }
  bool Fixed(size_t size) {
    if (static_cast<size_t>(end_ - p_) < size) return false;
    value_ = 0;
    std::memcpy(&value_, p_, size);
    p_ += size;
    return true;
  }
  bool Damaged() {
    damaged_ = true;
    p_ = end_ = nullptr;
    return false;
  }

  const char* p_;
  const char* end_;
  bool damaged_ = false;
  uint32_t number_ = 0;
  WireType type_ = WireType::kVarint;
  uint64_t value_ = 0;
  std::string_view bytes_;
};

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_WIRE_H_
