// Text that others read is UTF-8: bytes of binary payloads that are none are printed as escapes.
#ifndef GSHARD_IR_UTF8_H_
#define GSHARD_IR_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace gshard {

// Length in bytes of the valid UTF-8 sequence that starts at text[at]; 0 if there is none.
size_t Utf8Length(std::string_view text, size_t at);
// Where the first byte is that belongs to no UTF-8 sequence; text.size() if there is none.
size_t FirstNotUtf8(std::string_view text, size_t from = 0);

// How a string of a language spells a byte by its number.
enum class ByteEscape { kOctal /* \377, as HLO */, kHex /* \FF, as MLIR */ };
// Replaces every byte of `text` that belongs to no UTF-8 sequence by its escape. Such bytes stand
// in strings only. Linear; text that is UTF-8 already is not copied.
void EscapeNotUtf8(std::string& text, ByteEscape escape);

}  // namespace gshard

#endif  // GSHARD_IR_UTF8_H_
