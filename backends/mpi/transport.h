// What a run over several processes ("ranks") needs of a network: six functions, so that the same
// code runs over MPI and, in tests, between the threads of one process.
#ifndef GSHARD_BACKENDS_MPI_TRANSPORT_H_
#define GSHARD_BACKENDS_MPI_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gshard::mpi {

// Messages of at most this many bytes: MPI counts with ints.
inline constexpr size_t kMostMessageBytes = size_t{1} << 30;
// Tags are below this: the least upper bound that MPI allows a library.
inline constexpr int kTagLimit = 32768;
// Of signs of life (ranks.h).
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
  // Ends all ranks. Does not return (in tests: throws, here and in the others).
  [[noreturn]] virtual void Abort(int code) = 0;
};

}  // namespace gshard::mpi

#endif  // GSHARD_BACKENDS_MPI_TRANSPORT_H_
