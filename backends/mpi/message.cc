#include "backends/mpi/message.h"

#include <iterator>

namespace gshard::mpi {
namespace {

// Of a cache line, so that ranks do not write into one another's.
constexpr size_t kAlignment = 64;

}  // namespace

SharedBuffer::SharedBuffer(std::span<std::byte> memory) : memory_(memory) {
  if (!memory.empty()) free_[0] = memory.size() / kAlignment * kAlignment;
}

size_t SharedBuffer::Rounded(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::byte* SharedBuffer::Take(size_t bytes) {
  const size_t needed = Rounded(bytes);
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const auto [offset, room] = *at;
    if (room < needed) continue;
    free_.erase(at);
    if (room > needed) free_[offset + needed] = room - needed;
    return memory_.data() + offset;
  }
  return nullptr;
}

void SharedBuffer::GiveBack(const std::byte* begin, size_t bytes) {
  auto at = free_.emplace(static_cast<size_t>(begin - memory_.data()), Rounded(bytes)).first;
  if (const auto next = std::next(at);
      next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second != at->first) return;
  before->second += at->second;
  free_.erase(at);
}

std::byte* GrowableBuffer::Take(size_t bytes) {
  if (bytes > bytes_) {
    data_.reset();
    data_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  return data_.get();
}

void Message::Resize(size_t bytes, SharedBuffer* room) {
  if (room != nullptr && room_bytes_ < bytes) {
    GiveBack();
    in_room_ = room->Take(bytes);
    if (in_room_ != nullptr) {
      room_ = room;
      room_bytes_ = bytes;
    }
  }
  if (room != nullptr && in_room_ != nullptr) {
    data_ = {in_room_, bytes};
    return;
  }
  data_ = {own_.Take(bytes), bytes};
}

void Message::GiveBack() {
  if (in_room_ != nullptr) room_->GiveBack(in_room_, room_bytes_);
  in_room_ = nullptr;
  room_bytes_ = 0;
}

}  // namespace gshard::mpi
