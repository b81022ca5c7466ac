// mmap-backed regions and bump scratch.
#include "backends/cpu/memory/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "ir/free_memory.h"

namespace gshard::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kScratchChunk = size_t{1} << 20;
constexpr size_t kWorthKeeping = size_t{16} << 20;

// Regions that were given up, with the pages that were touched.
class SpareRegions {
 public:
  // `bytes` of the smallest that has them, else the largest made longer, else null.
  void* Take(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (regions_.empty() || bytes < kWorthKeeping) return nullptr;
    auto best = regions_.end(), largest = regions_.begin();
    for (auto it = regions_.begin(); it != regions_.end(); ++it) {
      if (it->bytes > largest->bytes) largest = it;
      if (it->bytes >= bytes && (best == regions_.end() || it->bytes < best->bytes)) best = it;
    }
    if (best == regions_.end()) return Lengthen(largest, bytes);
    const Region region = *best;
    regions_.erase(best);
    Keep({region.data + bytes, region.bytes - bytes});
    return region.data;
  }
  void GiveUp(std::byte* data, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Keep({data, bytes});
  }
  int64_t bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    size_t bytes = 0;
    for (const Region& region : regions_) bytes += region.bytes;
    return static_cast<int64_t>(bytes);
  }

 private:
  struct Region {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };

  void Keep(Region region) {
    if (region.bytes >= kWorthKeeping) {
      regions_.push_back(region);
    } else if (region.bytes > 0) {
      munmap(region.data, region.bytes);
    }
  }

  // New pages are taken for the rest: as many of the other regions go, so that no more are held
  // than were ever in use.
  void* Lengthen(std::vector<Region>::iterator region, size_t bytes) {
    void* data = mremap(region->data, region->bytes, bytes, MREMAP_MAYMOVE);
    if (data == MAP_FAILED) return nullptr;
    size_t fresh = bytes - region->bytes;
    regions_.erase(region);
    while (fresh > 0 && !regions_.empty()) {
      const Region other = regions_.back();
      munmap(other.data, other.bytes);
      fresh -= std::min(fresh, other.bytes);
      regions_.pop_back();
    }
    return data;
  }

  std::mutex mutex_;
  std::vector<Region> regions_;
};
SpareRegions& Spares() {
  static SpareRegions spares;
  return spares;
}

}  // namespace

int64_t AvailableMemory() { return FreeMemory(Spares().bytes()); }

MappedRegion::MappedRegion(size_t bytes) {
  if (bytes == 0) return;
  const size_t rounded = AlignUp(bytes, bytes >= kHugePage ? kHugePage : 4096);
  void* mapped = Spares().Take(rounded);
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
  if (data_ != nullptr) Spares().GiveUp(data_, bytes_);
}

void MappedRegion::Shorten(size_t bytes) {
  const size_t kept = std::min(bytes_, AlignUp(bytes, kHugePage));
  if (kept < bytes_) munmap(data_ + kept, bytes_ - kept);
  bytes_ = kept;
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
