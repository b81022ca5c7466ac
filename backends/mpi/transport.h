// What a run over several processes ("ranks") needs of a network: six functions, and memory that
// ranks of one host share, so that the same code runs over MPI and, in tests, between the threads
// of one process.
#ifndef GSHARD_BACKENDS_MPI_TRANSPORT_H_
#define GSHARD_BACKENDS_MPI_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gshard::mpi {

// Messages of at most this many bytes: MPI counts with ints.
inline constexpr size_t kMaxMessageBytes = size_t{1} << 30;
// Tags are below this: the least upper bound that MPI allows a library.
inline constexpr int kTagLimit = 32768;
// Payload has tags below this, by step (ranks.h); what is said about payload has those above.
inline constexpr int kPayloadTags = (kTagLimit - 1) / 3;
// Of signs of life.
inline constexpr int kBeatTag = kTagLimit - 1;

// All functions may be called by several threads.
class Transport {
 public:
  using Request = uint64_t;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Messages of one peer and tag arrive in the order in which they were sent. The data must stay
  // until the request is done; a receive has the size of its message.
  virtual Request ISend(int peer, int tag, std::span<const std::byte> data) = 0;
  virtual Request IReceive(int peer, int tag, std::span<std::byte> data) = 0;
  // Waits until a request is done, or for that long; the indices of those that are done, which are
  // used up. Empty: none was.
  virtual std::vector<size_t> WaitSome(std::span<const Request> requests, double seconds) = 0;
  // Memory that this rank and `rank`, which may be itself, both see: `rank` writes it. What was
  // written before a message was sent is there when that has arrived. Empty: they share none,
  // neither the one's nor the other's.
  virtual std::span<std::byte> Shared(int rank) = 0;
  // Ends all ranks. Does not return (in tests: throws, here and in the others).
  [[noreturn]] virtual void Abort(int code) = 0;
};

}  // namespace gshard::mpi

#endif  // GSHARD_BACKENDS_MPI_TRANSPORT_H_
