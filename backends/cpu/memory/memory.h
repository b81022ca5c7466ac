// Memory of the executor: one mapped region for all buffers of a plan, and per-thread scratch.
#ifndef GSHARD_BACKENDS_CPU_MEMORY_MEMORY_H_
#define GSHARD_BACKENDS_CPU_MEMORY_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/memory/scratch.h"

namespace gshard::cpu {

inline constexpr size_t kBufferAlignment = 64;

inline size_t AlignUp(size_t bytes, size_t alignment = kBufferAlignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

// What this process may still take: of the machine's memory, within its control group's. What
// MappedRegion holds ready counts as free.
int64_t AvailableMemory();

// Anonymous memory, backed by huge pages where the system has them. Pages cost nothing until
// touched. Contents are unspecified: big regions that were given up are handed out again, since
// touching new pages costs more than using them.
class MappedRegion {
 public:
  MappedRegion() = default;
  // Throws std::bad_alloc.
  explicit MappedRegion(size_t bytes);
  ~MappedRegion();
  MappedRegion(MappedRegion&& other) noexcept;
  MappedRegion& operator=(MappedRegion&& other) noexcept;

  // Gives up what lies beyond, to whole huge pages.
  void Shorten(size_t bytes);
  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Bump allocator that keeps its blocks. Not thread-safe: one per thread.
class BumpScratch final : public Scratch {
 public:
  std::byte* Allocate(size_t bytes) override;

  Mark Position() const override { return {block_, used_}; }
  void Rewind(Mark mark) override {
    block_ = mark.block;
    used_ = mark.used;
  }
  bool Stopped() const override {
    return stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  }
  void set_stop(const std::atomic<bool>* stop) { stop_ = stop; }
  size_t bytes_reserved() const { return reserved_; }

 private:
  struct FreeDeleter {
    void operator()(std::byte* p) const;
  };
  struct Chunk {
    std::unique_ptr<std::byte, FreeDeleter> data;
    size_t bytes = 0;
  };
  const std::atomic<bool>* stop_ = nullptr;
  std::vector<Chunk> chunks_;
  size_t block_ = 0;
  size_t used_ = 0;
  size_t reserved_ = 0;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MEMORY_MEMORY_H_
