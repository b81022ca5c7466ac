#include "ir/stablehlo/syntax/hex_blob.h"

#include <array>
#include <cstdint>

namespace gshard::stablehlo {
namespace {

constexpr uint8_t kNoDigit = 0xFF;
constexpr std::array<uint8_t, 256> kDigits = [] {
  std::array<uint8_t, 256> digits{};
  digits.fill(kNoDigit);
  for (uint8_t i = 0; i < 10; ++i) digits[static_cast<size_t>('0' + i)] = i;
  for (uint8_t i = 0; i < 6; ++i) {
    digits[static_cast<size_t>('a' + i)] = static_cast<uint8_t>(10 + i);
    digits[static_cast<size_t>('A' + i)] = static_cast<uint8_t>(10 + i);
  }
  return digits;
}();

}  // namespace

bool DecodeHexBlob(std::string_view quoted, std::vector<std::byte>& bytes) {
  if (!quoted.starts_with("\"0x") || !quoted.ends_with('"') || quoted.size() % 2 != 0) return false;
  const std::string_view hex = quoted.substr(3, quoted.size() - 4);
  bytes.resize(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint8_t high = kDigits[static_cast<unsigned char>(hex[2 * i])];
    const uint8_t low = kDigits[static_cast<unsigned char>(hex[2 * i + 1])];
    if (high == kNoDigit || low == kNoDigit) return false;
    bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  return true;
}

}  // namespace gshard::stablehlo
