// Bump allocator that owns everything a Context or Module hands out by pointer, span or view.
//
// Objects are never destroyed one by one, so only trivially destructible types may live here.
// Not thread-safe.
#ifndef GSHARD_IR_ARENA_H_
#define GSHARD_IR_ARENA_H_

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gshard {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* Allocate(size_t bytes, size_t alignment) {
    size_t start = (used_ + alignment - 1) & ~(alignment - 1);
    if (start + bytes > capacity_) {
      Grow(bytes + alignment);
      start = (used_ + alignment - 1) & ~(alignment - 1);
    }
    used_ = start + bytes;
    return block_ + start;
  }

  template <typename T, typename... Args>
  T* New(Args&&... args) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (Allocate(sizeof(T), alignof(T))) T{std::forward<Args>(args)...};
  }

  // Uninitialised storage for `count` elements.
  template <typename T>
  std::span<T> NewSpan(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (count == 0) return {};
    return {static_cast<T*>(Allocate(sizeof(T) * count, alignof(T))), count};
  }

  template <typename T>
  std::span<const T> Copy(std::span<const T> values) {
    if (values.empty()) return {};
    std::span<T> copy = NewSpan<T>(values.size());
    std::memcpy(copy.data(), values.data(), values.size_bytes());
    return copy;
  }
  template <typename T>
  std::span<const T> Copy(const std::vector<T>& values) {
    return Copy(std::span<const T>(values));
  }
  std::string_view Copy(std::string_view text) {
    std::span<const char> copy = Copy(std::span<const char>(text.data(), text.size()));
    return {copy.data(), copy.size()};
  }

  // Bytes reserved from the system.
  size_t bytes() const { return total_; }

 private:
  void Grow(size_t at_least);

  std::vector<std::unique_ptr<char[]>> blocks_;
  char* block_ = nullptr;
  size_t used_ = 0;
  size_t capacity_ = 0;
  size_t total_ = 0;
};

}  // namespace gshard

#endif  // GSHARD_IR_ARENA_H_
