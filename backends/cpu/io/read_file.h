// A file that is read where it is asked for. Unlike a mapped one, which may be cut off meanwhile
// and then ends the process (SIGBUS), it says so.
#ifndef GSHARD_BACKENDS_CPU_IO_READ_FILE_H_
#define GSHARD_BACKENDS_CPU_IO_READ_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gshard::cpu {

// Thread-safe.
class ReadFile {
 public:
  // Null if it cannot be opened or is no regular file.
  static std::shared_ptr<const ReadFile> Open(const std::string& path);
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  const std::string& path() const { return path_; }
  // Bytes, when it was opened.
  size_t size() const { return size_; }
  // Fills `out` with what begins at byte `begin`. False: the file does not reach so far (any more),
  // or the system does not read it.
  bool Read(size_t begin, std::span<std::byte> out) const;

 private:
  ReadFile(std::string path, int fd, size_t size) : path_(std::move(path)), fd_(fd), size_(size) {}
  std::string path_;
  int fd_;
  size_t size_;
};

// Reads runs of a file in ascending order: short ones close to one another together, with what lies
// between them. Not thread-safe.
class RunReader {
 public:
  explicit RunReader(const ReadFile& file) : file_(file) {}
  // As ReadFile::Read.
  bool Read(size_t begin, std::span<std::byte> out);

 private:
  const ReadFile& file_;
  size_t last_begin_ = SIZE_MAX, window_begin_ = 0;
  std::vector<std::byte> window_;
};

// An array's data as they lie in a file, row-major, from byte `begin` on.
struct StoredArray {
  std::shared_ptr<const ReadFile> file;  // null: none
  size_t begin = 0;
  std::string name;  // with the file's, for errors
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_IO_READ_FILE_H_
