#include "ir/utf8.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <iterator>

namespace gshard {

size_t Utf8Length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  size_t length = lead < 0x80   ? 1
                  : lead < 0xC2 ? 0
                  : lead < 0xE0 ? 2
                  : lead < 0xF0 ? 3
                  : lead < 0xF5 ? 4
                                : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  if (length >= 3) {  // overlong forms, surrogates, beyond U+10FFFF
    const unsigned char second = byte(at + 1);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
      return 0;
    }
  }
  return length;
}

size_t FirstNotUtf8(std::string_view text, size_t from) {
  size_t i = from;
  while (i < text.size()) {
    uint64_t word = 0;
    if (i + sizeof(word) <= text.size()) {  // most text is ASCII: eight bytes at a time
      std::memcpy(&word, text.data() + i, sizeof(word));
      if ((word & 0x8080808080808080) == 0) {
        i += sizeof(word);
        continue;
      }
    }
    const size_t length = Utf8Length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return text.size();
}

void EscapeNotUtf8(std::string& text, ByteEscape escape) {
  size_t at = FirstNotUtf8(text);
  if (at == text.size()) return;
  std::string result(text, 0, at);
  while (at < text.size()) {
    // Behind a backslash that escapes it, the byte's number stands for it as well.
    size_t backslashes = 0;
    while (backslashes < result.size() && result[result.size() - 1 - backslashes] == '\\') {
      ++backslashes;
    }
    if (backslashes % 2 == 0) result += '\\';
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto out = std::back_inserter(result);
    if (escape == ByteEscape::kOctal) {
      fmt::format_to(out, "{:03o}", byte);
    } else {
      fmt::format_to(out, "{:02X}", byte);
    }
    const size_t next = FirstNotUtf8(text, at + 1);
    result.append(text, at + 1, next - at - 1);
    at = next;
  }
  text = std::move(result);
}

}  // namespace gshard
