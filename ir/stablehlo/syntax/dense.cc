// Constants: `dense<..>` in all its spellings (docs/stablehlo.md, "Constants").
#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/stablehlo/syntax/attribute.h"
#include "ir/stablehlo/syntax/hex_blob.h"
#include "ir/stablehlo/syntax/lexer.h"

namespace gshard::stablehlo {
namespace {

template <typename T>
void Store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

void StoreBits(std::byte* to, uint64_t bits, int bytes) {
  std::memcpy(to, &bits, static_cast<size_t>(bytes));
}

// Reads the elements of a dense literal of one type.
class ElementReader {
 public:
  ElementReader(Lexer& lexer, DType dtype) : lexer_(lexer), dtype_(dtype) {}

  bool Read(std::byte* to) {
    lexer_.SkipSpace();
    switch (ClassOf(dtype_)) {
      case DTypeClass::kPredicate:
        if (lexer_.ConsumeWord("true")) return Store<uint8_t>(to, 1), true;
        if (lexer_.ConsumeWord("false")) return Store<uint8_t>(to, 0), true;
        return ReadWhole(to);
      case DTypeClass::kSigned:
      case DTypeClass::kUnsigned:
        return ReadWhole(to);
      case DTypeClass::kFloat:
        return ReadFloat(dtype_, to);
      default:
        break;
    }
    const DType part = dtype_ == DType::kC64 ? DType::kF32 : DType::kF64;
    return lexer_.Consume('(') && ReadFloat(part, to) && lexer_.Consume(',') &&
           ReadFloat(part, to + StorageBytes(part)) && lexer_.Consume(')');
  }

 private:
  bool ReadHex(uint64_t& bits) {
    lexer_.SkipSpace();
    if (lexer_.Raw() != '0' || lexer_.RawAt(1) != 'x') return false;
    const std::string_view text = lexer_.Rest();
    const auto result = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    if (result.ec != std::errc()) return false;
    lexer_.set_position(result.ptr);
    return true;
  }

  bool ReadWhole(std::byte* to) {
    const int bytes = StorageBytes(dtype_);
    uint64_t bits = 0;
    if (ReadHex(bits)) return StoreBits(to, bits, bytes), true;
    const std::string_view text = lexer_.Rest();
    const int width = dtype_ == DType::kPred ? 1 : DTypeBits(dtype_);
    if (ClassOf(dtype_) == DTypeClass::kSigned || text.starts_with('-')) {
      int64_t value = 0;
      const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
      const int64_t largest = std::numeric_limits<int64_t>::max() >> (64 - width);
      if (result.ec != std::errc() || value > largest || value < -largest - 1) return false;
      lexer_.set_position(result.ptr);
      bits = static_cast<uint64_t>(value);
    } else {
      const auto result = std::from_chars(text.data(), text.data() + text.size(), bits);
      if (result.ec != std::errc() || (width < 64 && bits >> width != 0)) return false;
      lexer_.set_position(result.ptr);
    }
    StoreBits(to, bits, bytes);
    return true;
  }

  bool ReadFloat(DType dtype, std::byte* to) {
    uint64_t bits = 0;
    if (ReadHex(bits)) return StoreBits(to, bits, StorageBytes(dtype)), true;
    lexer_.SkipSpace();
    const std::string_view text = lexer_.Rest();
    if (text.starts_with("nan") || text.starts_with("inf")) return false;
    const char* end = text.data() + text.size();
    std::from_chars_result result{};
    if (dtype == DType::kF32) {
      float value = 0;
      result = std::from_chars(text.data(), end, value);
      Store(to, value);
    } else {
      double value = 0;
      result = std::from_chars(text.data(), end, value);
      if (dtype == DType::kF64) {
        Store(to, value);
      } else {
        StoreBits(to, EncodeSmallFloat(dtype, value), StorageBytes(dtype));
      }
    }
    // Too small or too large: MLIR prints such values in hexadecimal, others may not.
    if (result.ec != std::errc()) return false;
    lexer_.set_position(result.ptr);
    return true;
  }

  Lexer& lexer_;
  DType dtype_;
};

class DenseReader {
 public:
  DenseReader(Arena& arena, const Shape* shape, DenseError& error)
      : arena_(arena),
        shape_(shape),
        error_(error),
        width_(static_cast<size_t>(StorageBytes(shape->dtype()))) {}

  bool ReadBlob(std::string_view quoted, size_t skipped, std::span<const std::byte>& data) {
    std::vector<std::byte> bytes;
    if (!DecodeHexBlob(quoted, bytes) || bytes.size() < skipped) {
      return Fail("these are no bytes in hexadecimal", quoted);
    }
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(skipped));
    const auto count = static_cast<size_t>(shape_->element_count());
    if (shape_->dtype() == DType::kPred && count > 1 && bytes.size() == (count + 7) / 8 &&
        bytes.size() != count && bytes.size() != 1) {
      UnpackBits(bytes, count);
    }
    if (count <= kMaxElements && bytes.size() == width_ * count) {
      SignExtend(bytes);
      data = arena_.Copy(bytes);
      return true;
    }
    if (bytes.size() != width_) {
      return Fail(fmt::format("{} bytes for {} elements of {} bytes", bytes.size(), count, width_),
                  quoted);
    }
    SignExtend(bytes);
    return Splat(bytes, quoted, data);
  }

  bool ReadElements(Lexer& lexer, std::string_view text, std::span<const std::byte>& data) {
    ElementReader reader(lexer, shape_->dtype());
    const auto count = static_cast<size_t>(shape_->element_count());
    if (lexer.Peek() != '[') {
      if (lexer.Peek() == '>') return count == 0 || Fail("there are no values", text);
      std::vector<std::byte> one(width_);
      if (!reader.Read(one.data())) return FailElement(lexer);
      return Splat(one, text, data);
    }
    // As many elements as the text can hold, whatever the type claims.
    if (count > text.size()) return FailCount(text);
    const std::span<std::byte> bytes = arena_.NewSpan<std::byte>(count * width_);
    size_t filled = 0;
    if (!ReadNested(lexer, reader, 0, bytes, filled)) return false;
    if (filled != count) return FailCount(text);
    data = bytes;
    return true;
  }

 private:
  static constexpr size_t kMaxElements = size_t{1} << 40;

  bool Fail(std::string why, std::string_view where) {
    if (error_.why.empty()) error_ = {std::move(why), where};
    return false;
  }
  bool FailCount(std::string_view text) {
    return Fail(fmt::format("the values do not fill {}", ToString(shape_, /*layouts=*/false)),
                text);
  }
  bool FailElement(Lexer& lexer) {
    lexer.SkipSpace();
    std::string_view rest = lexer.Rest();
    rest = rest.substr(0, std::max<size_t>(1, std::min(rest.find_first_of(",] >"), size_t{40})));
    return Fail(fmt::format("this is no value of {}", DTypeName(shape_->dtype())), rest);
  }

  static void UnpackBits(std::vector<std::byte>& bytes, size_t count) {
    std::vector<std::byte> unpacked(count);
    for (size_t i = 0; i < count; ++i) unpacked[i] = (bytes[i / 8] >> (i % 8)) & std::byte{1};
    bytes = std::move(unpacked);
  }

  // Types below 8 bits have a byte each with the value in its low bits.
  void SignExtend(std::vector<std::byte>& bytes) const {
    const int bits = shape_->dtype() == DType::kPred ? 8 : DTypeBits(shape_->dtype());
    if (bits >= 8) return;
    const int unused = 8 - bits;
    const bool is_signed = ClassOf(shape_->dtype()) == DTypeClass::kSigned;
    for (std::byte& byte : bytes) {
      const auto high = static_cast<uint8_t>(std::to_integer<unsigned>(byte) << unused);
      byte = is_signed ? static_cast<std::byte>(static_cast<int8_t>(high) >> unused)
                       : static_cast<std::byte>(high >> unused);
    }
  }

  bool Splat(std::span<const std::byte> element, std::string_view text,
             std::span<const std::byte>& data) {
    const auto count = static_cast<size_t>(shape_->element_count());
    if (count > kMaxSplat / width_) {
      return Fail("a splat of more than 4 GiB", text);
    }
    const std::span<std::byte> bytes = arena_.NewSpan<std::byte>(count * width_);
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(bytes.data() + i * width_, element.data(), width_);
    }
    data = bytes;
    return true;
  }
  static constexpr size_t kMaxSplat = size_t{1} << 32;

  bool ReadNested(Lexer& lexer, ElementReader& reader, int64_t dim, std::span<std::byte> bytes,
                  size_t& filled) {
    if (dim == shape_->rank()) {
      if ((filled + 1) * width_ > bytes.size()) return FailCount(lexer.Rest().substr(0, 1));
      if (!reader.Read(bytes.data() + filled * width_)) return FailElement(lexer);
      ++filled;
      return true;
    }
    if (!lexer.Consume('[')) return FailElement(lexer);
    int64_t count = 0;
    if (!lexer.Consume(']')) {
      do {
        if (!ReadNested(lexer, reader, dim + 1, bytes, filled)) return false;
        ++count;
      } while (lexer.Consume(','));
      if (!lexer.Consume(']')) return FailElement(lexer);
    }
    return count == shape_->dim(dim) || FailCount(lexer.Rest().substr(0, 1));
  }

  Arena& arena_;
  const Shape* shape_;
  DenseError& error_;
  size_t width_;
};

}  // namespace

const Literal* ReadDense(Arena& arena, std::string_view text, const Shape* shape,
                         const ViewMap<std::string_view>& resources, DenseError& error) {
  auto* literal = arena.New<Literal>();
  literal->shape = shape;
  Lexer lexer(text);
  DenseReader reader(arena, shape, error);
  if (lexer.Consume("dense_resource<")) {
    const std::string_view key = lexer.Suffix();
    const auto it = resources.find(key);
    if (key == "__elided__" || (it == resources.end() && key.find("elided") != key.npos)) {
      literal->elided = true;
      return literal;
    }
    if (it == resources.end()) {
      error = {fmt::format("no resource '{}' at the end of the text", key), text};
      return nullptr;
    }
    // The first four bytes say how the rest is aligned.
    return reader.ReadBlob(it->second, 4, literal->data) ? literal : nullptr;
  }
  if (!lexer.Consume("dense<")) {
    // A scalar attribute: 1.0 : f32.
    return reader.ReadElements(lexer, text, literal->data) ? literal : nullptr;
  }
  if (lexer.Peek() == '"') {
    const std::string_view quoted = lexer.String();
    if (quoted.find("__elided__") != quoted.npos) {
      literal->elided = true;
      return literal;
    }
    return reader.ReadBlob(quoted, 0, literal->data) ? literal : nullptr;
  }
  if (!reader.ReadElements(lexer, text, literal->data)) return nullptr;
  if (lexer.Peek() == '>') return literal;
  error = {"more values than the type holds", lexer.Rest().substr(0, 1)};
  return nullptr;
}

}  // namespace gshard::stablehlo
