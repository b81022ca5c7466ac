// Memory for values that wait: pieces of one region, lowest addresses first, so that no more of it
// is ever touched than was in use at a time.
#ifndef GSHARD_BACKENDS_CPU_MEMORY_VALUE_POOL_H_
#define GSHARD_BACKENDS_CPU_MEMORY_VALUE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "backends/cpu/memory/memory.h"

namespace gshard::cpu {

// Not thread-safe.
class ValuePool {
 public:
  explicit ValuePool(int64_t capacity_bytes);
  // The next user of the memory is to find touched pages only.
  ~ValuePool() { region_.Shorten(static_cast<size_t>(touched_)); }
  ValuePool(const ValuePool&) = delete;
  ValuePool& operator=(const ValuePool&) = delete;

  // Empty if no piece is long enough. The region is mapped with the first one.
  std::span<std::byte> Take(int64_t bytes);
  // The same beside the region where it has no room.
  std::span<std::byte> TakeAnyway(int64_t bytes);
  void Return(std::span<std::byte> piece);

  bool IsUnused() const { return in_use_ == 0; }
  // What was touched at most.
  int64_t peak_bytes() const { return peak_; }

 private:
  void NotePeak();

  int64_t capacity_;
  MappedRegion region_;
  std::map<int64_t, int64_t> free_;             // offset -> bytes, neighbours joined
  std::map<std::byte*, MappedRegion> outside_;  // pieces beside the region
  int64_t in_use_ = 0;                          // pieces
  int64_t touched_ = 0;                         // end of the highest piece ever
  int64_t outside_bytes_ = 0;
  int64_t peak_ = 0;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MEMORY_VALUE_POOL_H_
