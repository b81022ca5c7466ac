// Gzip streams, unpacked within a limit.
#ifndef GSHARD_IR_INPUT_GZIP_H_
#define GSHARD_IR_INPUT_GZIP_H_

#include <memory>
#include <string_view>

#include "ir/source_text.h"

namespace gshard {

inline bool IsGzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

// The bytes of all members of the stream, under the name of `packed`. E-INPUT-001: damaged or cut
// short; E-INPUT-002: more than 1 GiB, or more than 64 MiB from a few bytes (a decompression bomb).
Expected<std::shared_ptr<const SourceText>> Gunzip(const SourceText& packed);

}  // namespace gshard

#endif  // GSHARD_IR_INPUT_GZIP_H_
