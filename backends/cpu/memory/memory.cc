// mmap-backed regions and bump scratch.
#include "backends/cpu/memory/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace gshard::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kScratchChunk = size_t{1} << 20;
constexpr size_t kWorthKeeping = size_t{16} << 20;

// The region given up last.
struct SpareRegion {
  std::mutex mutex;
  void* data = nullptr;
  size_t bytes = 0;
};
SpareRegion& Spare() {
  static SpareRegion spare;
  return spare;
}

// The spare region made `bytes` long, or null.
void* TakeSpare(size_t bytes) {
  SpareRegion& spare = Spare();
  const std::lock_guard<std::mutex> lock(spare.mutex);
  if (spare.data == nullptr || bytes < kWorthKeeping) return nullptr;
  void* data = mremap(spare.data, spare.bytes, bytes, MREMAP_MAYMOVE);
  if (data == MAP_FAILED) return nullptr;
  spare.data = nullptr;
  return data;
}

void GiveUp(void* data, size_t bytes) {
  if (bytes >= kWorthKeeping) {
    SpareRegion& spare = Spare();
    const std::lock_guard<std::mutex> lock(spare.mutex);
    std::swap(data, spare.data);
    std::swap(bytes, spare.bytes);
  }
  if (data != nullptr) munmap(data, bytes);
}

// The number a file holds; none if it says something else ("max") or is not there.
std::optional<int64_t> NumberIn(const char* path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// The bytes of some lines of /proc/meminfo.
std::optional<int64_t> FreeOnMachine() {
  std::ifstream file("/proc/meminfo");
  std::string line, key;
  int64_t kibibytes = 0, bytes = 0;
  bool found = false;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    if (!(words >> key >> kibibytes)) continue;
    if (key == "MemAvailable:" || key == "SwapFree:") bytes += kibibytes * 1024;
    found |= key == "MemAvailable:";
  }
  if (!found) return std::nullopt;
  return bytes;
}

}  // namespace

int64_t AvailableMemory() {
  int64_t bytes = INT64_MAX;
  if (const auto free = FreeOnMachine()) {
    const std::lock_guard<std::mutex> lock(Spare().mutex);
    bytes = *free + (Spare().data != nullptr ? static_cast<int64_t>(Spare().bytes) : 0);
  }
  for (const char* limit :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    bytes = std::min(bytes, NumberIn(limit).value_or(INT64_MAX));
  }
  return bytes;
}

MappedRegion::MappedRegion(size_t bytes) {
  if (bytes == 0) return;
  const size_t rounded = AlignUp(bytes, bytes >= kHugePage ? kHugePage : 4096);
  void* mapped = TakeSpare(rounded);
  if (mapped == nullptr) {
    mapped = mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  if (rounded >= kHugePage) madvise(mapped, rounded, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(mapped);
  bytes_ = rounded;
}

MappedRegion::~MappedRegion() {
  if (data_ != nullptr) GiveUp(data_, bytes_);
}

MappedRegion::MappedRegion(MappedRegion&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MappedRegion& MappedRegion::operator=(MappedRegion&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void BumpScratch::FreeDeleter::operator()(std::byte* p) const { std::free(p); }

std::byte* BumpScratch::Allocate(size_t bytes) {
  const size_t size = AlignUp(std::max<size_t>(bytes, 1));
  while (block_ < chunks_.size()) {
    if (used_ + size <= chunks_[block_].bytes) {
      std::byte* result = chunks_[block_].data.get() + used_;
      used_ += size;
      return result;
    }
    ++block_;
    used_ = 0;
  }
  const size_t chunk = std::max(size, kScratchChunk);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, chunk));
  if (data == nullptr) throw std::bad_alloc();
  chunks_.push_back({std::unique_ptr<std::byte, FreeDeleter>(data), chunk});
  reserved_ += chunk;
  used_ = size;
  return data;
}

}  // namespace gshard::cpu
