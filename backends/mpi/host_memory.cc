#include "backends/mpi/host_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace gshard::mpi {
namespace {

// Before the data, which begins with a page.
constexpr size_t kHeadBytes = 4096;

}  // namespace

HostMemory::HostMemory(HostMemory&& other) noexcept
    : key_(std::exchange(other.key_, {})), mapped_(std::exchange(other.mapped_, nullptr)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(key_, other.key_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

HostMemory::~HostMemory() {
  CloseFile();
  if (mapped_ != nullptr) munmap(mapped_, kHeadBytes + static_cast<size_t>(key_.bytes));
}

HostMemory HostMemory::Map(int file, size_t bytes) {
  HostMemory memory;
  memory.key_.file = file;
  if (file < 0 || bytes == 0) return memory;
  void* mapped = mmap(nullptr, kHeadBytes + bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, file, 0);
  if (mapped == MAP_FAILED) return memory;
  memory.mapped_ = static_cast<std::byte*>(mapped);
  memory.key_.bytes = static_cast<int64_t>(bytes);
  return memory;
}

HostMemory HostMemory::Create(size_t bytes) {
  const int file = bytes > 0 ? memfd_create("gshard", MFD_CLOEXEC) : -1;
  if (file < 0 || ftruncate(file, static_cast<off_t>(kHeadBytes + bytes)) != 0) {
    return Map(file, 0);
  }
  HostMemory memory = Map(file, bytes);
  if (memory.mapped_ == nullptr) return memory;
  memory.key_.process = getpid();
  if (getrandom(&memory.key_.secret, sizeof memory.key_.secret, 0) < 0) return {};
  std::memcpy(memory.mapped_, &memory.key_.secret, sizeof memory.key_.secret);
  return memory;
}

HostMemory HostMemory::Open(const Key& key) {
  if (key.bytes == 0) return {};
  const int file =
      open(fmt::format("/proc/{}/fd/{}", key.process, key.file).c_str(), O_RDWR | O_CLOEXEC);
  // A process of that number may be another one, in another container. What is too short would
  // kill who reads it.
  const auto needed = static_cast<off_t>(kHeadBytes) + static_cast<off_t>(key.bytes);
  HostMemory memory = Map(
      file, file >= 0 && lseek(file, 0, SEEK_END) == needed ? static_cast<size_t>(key.bytes) : 0);
  memory.CloseFile();
  if (memory.mapped_ == nullptr) return {};
  int64_t secret = 0;
  std::memcpy(&secret, memory.mapped_, sizeof secret);
  if (secret != key.secret) return {};
  return memory;
}

std::span<std::byte> HostMemory::data() const {
  if (mapped_ == nullptr) return {};
  return {mapped_ + kHeadBytes, static_cast<size_t>(key_.bytes)};
}

void HostMemory::CloseFile() {
  if (key_.file >= 0) close(static_cast<int>(key_.file));
  key_.file = -1;
}

}  // namespace gshard::mpi
