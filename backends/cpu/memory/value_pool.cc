// First fit over a list of free pieces: few values wait at a time.
#include "backends/cpu/memory/value_pool.h"

#include <algorithm>
#include <iterator>

namespace gshard::cpu {

ValuePool::ValuePool(int64_t capacity_bytes)
    : capacity_(static_cast<int64_t>(AlignUp(static_cast<size_t>(capacity_bytes)))) {
  free_.emplace(0, capacity_);
}

std::span<std::byte> ValuePool::Take(int64_t bytes) {
  const auto size = static_cast<int64_t>(AlignUp(static_cast<size_t>(bytes)));
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& piece) { return piece.second >= size; });
  if (found == free_.end()) return {};
  if (region_.data() == nullptr) region_ = MappedRegion(static_cast<size_t>(capacity_));
  const auto [offset, length] = *found;
  free_.erase(found);
  if (length > size) free_.emplace(offset + size, length - size);
  ++in_use_;
  touched_ = std::max(touched_, offset + size);
  NotePeak();
  return {region_.data() + offset, static_cast<size_t>(bytes)};
}

std::span<std::byte> ValuePool::TakeAnyway(int64_t bytes) {
  if (const std::span<std::byte> piece = Take(bytes); !piece.empty()) return piece;
  MappedRegion own(static_cast<size_t>(bytes));
  const std::span<std::byte> piece(own.data(), static_cast<size_t>(bytes));
  outside_bytes_ += static_cast<int64_t>(own.size());
  outside_.emplace(piece.data(), std::move(own));
  ++in_use_;
  NotePeak();
  return piece;
}

void ValuePool::Return(std::span<std::byte> piece) {
  --in_use_;
  if (const auto own = outside_.find(piece.data()); own != outside_.end()) {
    outside_bytes_ -= static_cast<int64_t>(own->second.size());
    outside_.erase(own);
    return;
  }
  int64_t offset = piece.data() - region_.data();
  auto size = static_cast<int64_t>(AlignUp(piece.size()));
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      free_.erase(before);
    }
  }
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    free_.erase(next);
  }
  free_.emplace(offset, size);
}

void ValuePool::NotePeak() { peak_ = std::max(peak_, touched_ + outside_bytes_); }

}  // namespace gshard::cpu
