// Records of the .zip format (PKWARE's APPNOTE, 4.3): little-endian, found from the end.
#include "backends/cpu/io/zip_layout.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gshard::cpu {
namespace {

constexpr uint64_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50;
constexpr uint64_t kLocator64Signature = 0x07064b50;
constexpr uint64_t kEntrySignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr size_t kEntryBytes = 46, kLocalBytes = 30;
constexpr uint64_t kIn64 = 0xffffffff;    // the number is in the extra field
constexpr uint64_t kExtra64 = 1;          // whose id this is
constexpr size_t kReadAtOnce = 64 << 10;  // read at a time

// Reads numbers; beyond the file, or what is left of it, all are 0, which no signature is.
class Records {
 public:
  Records(size_t file_bytes, const ReadBytes& read) : size_(file_bytes), read_(read) {}
  bool Holds(size_t begin, size_t bytes) const { return begin <= size_ && bytes <= size_ - begin; }
  uint64_t At(size_t begin, size_t bytes) {
    uint64_t value = 0;
    if (!Holds(begin, bytes) || !Bring(begin, bytes)) return 0;
    for (size_t i = bytes; i-- > 0;)
      value = value << 8 | std::to_integer<uint64_t>(window_[begin - window_begin_ + i]);
    return value;
  }
  bool Is(size_t begin, uint64_t signature) { return At(begin, 4) == signature; }
  size_t size() const { return size_; }

 private:
  // Makes the window hold these bytes.
  bool Bring(size_t begin, size_t bytes) {
    if (begin >= window_begin_ && begin + bytes <= window_begin_ + window_.size()) return true;
    window_.resize(std::min(kReadAtOnce, size_ - begin));
    window_begin_ = begin;
    if (read_(begin, window_)) return true;
    window_.clear();
    return false;
  }

  size_t size_;
  const ReadBytes& read_;
  std::vector<std::byte> window_;
  size_t window_begin_ = 0;
};

struct Directory {
  size_t begin = 0, entries = 0;
};

std::optional<Directory> FindDirectory(Records& records) {
  if (records.size() < kEndBytes) return std::nullopt;
  const size_t end = records.size() - kEndBytes;
  if (!records.Is(end, kEndSignature)) return std::nullopt;
  Directory directory{records.At(end + 16, 4), records.At(end + 10, 2)};
  if (end < kLocator64Bytes || !records.Is(end - kLocator64Bytes, kLocator64Signature)) {
    return directory;
  }
  const size_t end64 = records.At(end - kLocator64Bytes + 8, 8);
  if (!records.Holds(end64, kEnd64Bytes) || !records.Is(end64, kEnd64Signature)) {
    return std::nullopt;
  }
  return Directory{records.At(end64 + 48, 8), records.At(end64 + 32, 8)};
}

// The entry of the directory that begins at `at`.
struct Entry {
  uint64_t flags = 0, method = 0, packed = 0, size = 0, local = 0;
  size_t bytes = 0;  // of the entry
};

Entry EntryAt(Records& records, size_t at) {
  const size_t name = records.At(at + 28, 2), extra = records.At(at + 30, 2);
  Entry entry{.flags = records.At(at + 8, 2),
              .method = records.At(at + 10, 2),
              .packed = records.At(at + 20, 4),
              .size = records.At(at + 24, 4),
              .local = records.At(at + 42, 4),
              .bytes = kEntryBytes + name + extra + records.At(at + 32, 2)};
  size_t field = at + kEntryBytes + name;
  for (const size_t end = field + extra; field + 4 <= end; field += 4 + records.At(field + 2, 2)) {
    if (records.At(field, 2) != kExtra64) continue;
    size_t value = field + 4;  // those that did not fit, in this order
    for (uint64_t* number : {&entry.size, &entry.packed, &entry.local}) {
      if (*number != kIn64) continue;
      *number = records.At(value, 8);
      value += 8;
    }
    break;
  }
  return entry;
}

}  // namespace

std::optional<MemberPlace> PlaceOfStoredMember(size_t file_bytes, const ReadBytes& read,
                                               size_t index) {
  Records records(file_bytes, read);
  const std::optional<Directory> directory = FindDirectory(records);
  if (!directory || index >= directory->entries) return std::nullopt;
  size_t at = directory->begin;
  for (size_t i = 0; i < index; ++i) {
    if (!records.Holds(at, kEntryBytes) || !records.Is(at, kEntrySignature)) return std::nullopt;
    at += EntryAt(records, at).bytes;
  }
  if (!records.Holds(at, kEntryBytes) || !records.Is(at, kEntrySignature)) return std::nullopt;
  const Entry entry = EntryAt(records, at);
  const bool is_stored = entry.method == 0 && (entry.flags & 1) == 0 && entry.packed == entry.size;
  if (!is_stored || !records.Holds(entry.local, kLocalBytes) ||
      !records.Is(entry.local, kLocalSignature)) {
    return std::nullopt;
  }
  const size_t begin =
      entry.local + kLocalBytes + records.At(entry.local + 26, 2) + records.At(entry.local + 28, 2);
  if (!records.Holds(begin, entry.size)) return std::nullopt;
  return MemberPlace{begin, entry.size};
}

}  // namespace gshard::cpu
