// Ranks as threads of one process: every test of what runs over several ranks runs without MPI.
#ifndef GSHARD_BACKENDS_MPI_IN_PROCESS_TRANSPORT_H_
#define GSHARD_BACKENDS_MPI_IN_PROCESS_TRANSPORT_H_

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "backends/mpi/transport.h"

namespace gshard::mpi {

// Thrown by Abort in the rank that calls it, and by every wait of the others.
class RanksAborted : public std::exception {
 public:
  explicit RanksAborted(int c) : code_(c) {}
  int code() const { return code_; }
  const char* what() const noexcept override { return "the ranks were aborted"; }

 private:
  int code_;
};

// Which ranks see one another's memory, as if the others were on other hosts, and how much of it.
struct InProcessHosts {
  size_t shared_bytes = 0;
  int ranks_per_host = 1;
};

// The post office of `size` ranks. Thread-safe; must outlive the transports.
class InProcessRanks {
 public:
  explicit InProcessRanks(int size, const InProcessHosts& hosts = {});
  std::unique_ptr<Transport> MakeTransport(int rank);

  // The payload that ISend has been asked to carry, all ranks together.
  struct Traffic {
    int64_t messages = 0, bytes = 0;
  };
  Traffic traffic() const;

 private:
  friend class InProcessTransport;
  using Address = std::tuple<int, int, int>;  // from, to, tag

  const int size_;
  const InProcessHosts hosts_;
  std::vector<std::unique_ptr<std::byte[]>> shared_;  // by rank
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Address, std::deque<std::vector<std::byte>>> waiting_;
  Traffic traffic_;
  int aborted_ = -1;  // the code
};

}  // namespace gshard::mpi

#endif  // GSHARD_BACKENDS_MPI_IN_PROCESS_TRANSPORT_H_
