// Where in a .zip file its members lie, which libzip does not tell.
#ifndef GSHARD_BACKENDS_CPU_IO_ZIP_LAYOUT_H_
#define GSHARD_BACKENDS_CPU_IO_ZIP_LAYOUT_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <span>

namespace gshard::cpu {

// First byte of the data of member `index`, counted as the central directory lists them, and its
// size. Nothing if the member is packed or encrypted, or the file is not laid out in the usual way:
// several volumes, text behind the directory, offsets that lead out of the file.
struct MemberPlace {
  size_t begin = 0, bytes = 0;
};
// Reads `out` from byte `begin` of the file on; false: it cannot.
using ReadBytes = std::function<bool(size_t begin, std::span<std::byte> out)>;
std::optional<MemberPlace> PlaceOfStoredMember(size_t file_bytes, const ReadBytes& read,
                                               size_t index);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_IO_ZIP_LAYOUT_H_
