// Memory that processes of one host share. It has no name, so it is gone with the last process that
// has it, however that ends, and it does not count against /dev/shm, which containers keep small.
#ifndef GSHARD_BACKENDS_MPI_HOST_MEMORY_H_
#define GSHARD_BACKENDS_MPI_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace gshard::mpi {

class HostMemory {
 public:
  // Where another process of the host finds it, until CloseFile.
  struct Key {
    int64_t process = 0, file = -1, secret = 0, bytes = 0;
  };

  HostMemory() = default;
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;
  ~HostMemory();

  // Takes no memory before it is written. Empty where the system gives none.
  static HostMemory Create(size_t bytes);
  // Empty if it cannot be reached: another host, another container, another user.
  static HostMemory Open(const Key& key);

  const Key& key() const { return key_; }
  std::span<std::byte> data() const;
  void CloseFile();

 private:
  // Maps `file` and keeps it open.
  static HostMemory Map(int file, size_t bytes);

  Key key_;
  std::byte* mapped_ = nullptr;  // the secret, then the data
};

}  // namespace gshard::mpi

#endif  // GSHARD_BACKENDS_MPI_HOST_MEMORY_H_
