// Where in a .zip file its members lie, which libzip does not tell.
#ifndef GSHARD_BACKENDS_CPU_IO_ZIP_LAYOUT_H_
#define GSHARD_BACKENDS_CPU_IO_ZIP_LAYOUT_H_

#include <cstddef>
#include <optional>
#include <span>

namespace gshard::cpu {

// First byte of the data of member `index`, counted as the central directory lists them, and its
// size. Nothing if the member is packed or encrypted, or the file is not laid out in the usual way:
// several volumes, text behind the directory, offsets that lead out of the file.
struct MemberPlace {
  size_t begin = 0, bytes = 0;
};
std::optional<MemberPlace> PlaceOfStoredMember(std::span<const std::byte> file, size_t index);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_IO_ZIP_LAYOUT_H_
