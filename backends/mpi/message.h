// The bytes of a message on their way to or from another rank. Between ranks of one host a large
// one stays where its sender has packed it, in memory that both see, until its receiver is done
// with it.
#ifndef GSHARD_BACKENDS_MPI_MESSAGE_H_
#define GSHARD_BACKENDS_MPI_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

namespace gshard::mpi {

// The room in a rank's shared memory: first fit, so that the same memory is used again and again.
// Not thread-safe.
class SharedBuffer {
 public:
  explicit SharedBuffer(std::span<std::byte> memory);
  // Nothing: there is no such room.
  std::byte* Take(size_t bytes);
  void GiveBack(const std::byte* begin, size_t bytes);

 private:
  static size_t Rounded(size_t bytes);
  std::span<std::byte> memory_;
  std::map<size_t, size_t> free_;  // bytes by offset; neighbours are one
};

// A buffer that only grows. It is reused because the operating system zeroes fresh pages.
class GrowableBuffer {
 public:
  // What was in it is gone.
  std::byte* Take(size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte[]> data_;
  size_t bytes_ = 0;
};

// Filled or read by Ranks' user, moved by Ranks, which must outlive it.
class Message {
 public:
  Message() = default;
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  ~Message() { GiveBack(); }

  std::byte* data() { return data_.data(); }
  size_t size() const { return data_.size(); }
  // Memory that this rank has for it, used or not.
  size_t capacity() const { return own_.bytes() + room_bytes_; }

 private:
  friend class Ranks;

  // Contents are undefined afterwards. `room`: null, or where to look first.
  void Resize(size_t bytes, SharedBuffer* room);
  void GiveBack();

  std::span<std::byte> data_;
  GrowableBuffer own_;
  SharedBuffer* room_ = nullptr;
  std::byte* in_room_ = nullptr;
  size_t room_bytes_ = 0;
  int64_t place_ = 0;  // in its sender's shared memory, as told to its receiver; -1: nowhere
  std::byte read_{};   // what its sender hears when it is no longer read
  int lender_ = -1;    // whose memory `data_` is
  int tag_ = 0;
};

}  // namespace gshard::mpi

#endif  // GSHARD_BACKENDS_MPI_MESSAGE_H_
