// NumPy's .npz: a zip file of .npy members.
#ifndef GSHARD_BACKENDS_CPU_IO_NPZ_H_
#define GSHARD_BACKENDS_CPU_IO_NPZ_H_

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/io/npy.h"
#include "backends/cpu/io/read_file.h"

struct zip_source;

namespace gshard::cpu {

class NpzReader {
 public:
  static Expected<std::unique_ptr<NpzReader>> Open(const std::string& path);
  ~NpzReader();

  // Without ".npy", in the order of the file.
  const std::vector<std::string>& names() const { return names_; }
  bool Has(const std::string& name) const;
  // What stands before the data of one array; they are not read.
  Expected<NpyHeader> Header(const std::string& name) const;
  // Reads and unpacks one array; nothing is kept.
  Expected<NpyArray> Read(const std::string& name) const;
  // Where in the file the data of one array lie, header.data_bytes of them, read once for the
  // checksum: whoever wants a part of them takes memory for that part. No file if they cannot be
  // had so (packed, an unusual layout): then there is Read.
  Expected<StoredArray> Stored(const std::string& name) const;

 private:
  NpzReader() = default;
  struct Archive;
  struct Member;
  // The member up to the end of its header.
  Expected<Member> Begin(const std::string& name) const;
  static Expected<void> CheckEnd(const Member& member);
  std::unique_ptr<Archive> archive_;
  std::string path_;
  std::vector<std::string> names_;
};

// Writes members one by one; the file appears when Finish succeeds.
class NpzWriter {
 public:
  // Nothing is there until Finish, and nothing if `stop` is set meanwhile: then E-RUN-STOPPED.
  explicit NpzWriter(std::string path, const std::atomic<bool>* stop = nullptr);
  ~NpzWriter();
  // `file` is a whole .npy (FormatNpy).
  Expected<void> Add(const std::string& name, std::vector<std::byte> file);
  // Room for such a file of so many bytes on the disk, to be filled until the next call of any
  // function: an array that is too large for memory is written piece by piece.
  Expected<std::span<std::byte>> AddOnDisk(const std::string& name, size_t bytes);
  Expected<void> Finish();

 private:
  struct Archive;
  Expected<void> OpenArchive();
  Expected<void> AddSource(const std::string& name, zip_source* source);

  std::string path_;
  const std::atomic<bool>* stop_;
  std::unique_ptr<Archive> archive_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_IO_NPZ_H_
