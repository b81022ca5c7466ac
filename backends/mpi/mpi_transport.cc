// Point-to-point messages on a communicator of our own. A mutex keeps calls apart, so that
// MPI_THREAD_SERIALIZED is enough; waits poll and soon sleep in between, since ranks may share a
// processor.
#include "backends/mpi/mpi_transport.h"

#include <mpi.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "backends/mpi/host_memory.h"

namespace gshard::mpi {
namespace {

// MPI_Abort runs the exit handlers of the process, in which it may hang.
constexpr unsigned kSecondsToAbort = 2;
// Most messages come at once; of long waits little is lost by sleeping a part of them.
constexpr std::chrono::microseconds kSpin(50);
using Microseconds = std::chrono::duration<double, std::micro>;
constexpr Microseconds kShortestSleep(20), kLongestSleep(500);
constexpr unsigned long kTimerSlackNanoseconds = 1000;
int abort_code = 1;

useconds_t SleepAfter(Microseconds waited) {
  return static_cast<useconds_t>(std::clamp(waited / 16, kShortestSleep, kLongestSleep).count());
}

}  // namespace

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator_);
    MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(communicator_, &rank_);
    MPI_Comm_size(communicator_, &size_);
    prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds);  // else a sleep takes 50 us longer
  }
  ~MpiTransport() override { MPI_Comm_free(&communicator_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Request ISend(int peer, int tag, std::span<const std::byte> data) override {
    const std::lock_guard lock(mutex_);
    MPI_Request request = MPI_REQUEST_NULL;
    Check(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, communicator_,
                    &request),
          "MPI_Isend", peer);
    return Note(request);
  }

  Request IReceive(int peer, int tag, std::span<std::byte> data) override {
    const std::lock_guard lock(mutex_);
    MPI_Request request = MPI_REQUEST_NULL;
    Check(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, communicator_,
                    &request),
          "MPI_Irecv", peer);
    return Note(request);
  }

  std::vector<size_t> WaitSome(std::span<const Request> requests, double seconds) override {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    for (;;) {
      std::vector<size_t> done = Poll(requests);
      const std::chrono::duration<double> waited = Clock::now() - start;
      if (!done.empty() || waited.count() >= seconds) return done;
      // Asleep, not sched_yield: beside other work that gives away a whole slice of milliseconds.
      if (waited > kSpin) usleep(SleepAfter(waited));
    }
  }

  std::span<std::byte> Shared(int rank) override {
    const auto found = shared_.find(rank);
    return found == shared_.end() ? std::span<std::byte>() : found->second.data();
  }

  // Called by all ranks, before messages of others.
  void ShareMemory(size_t bytes) {
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(communicator_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
    int count = 0;
    MPI_Comm_size(host, &count);
    HostMemory own = HostMemory::Create(count > 1 ? bytes : 0);
    struct Offer {
      HostMemory::Key key;
      int64_t rank = 0;
    };
    const Offer mine{own.key(), rank_};
    std::vector<Offer> offers(static_cast<size_t>(count));
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, offers.data(), sizeof mine, MPI_BYTE, host);
    // Both of a pair must see the other's.
    std::vector<HostMemory> opened;
    std::vector<uint8_t> here, there(offers.size());
    for (const Offer& offer : offers) {
      opened.push_back(offer.rank == rank_ || own.data().empty() ? HostMemory()
                                                                 : HostMemory::Open(offer.key));
      here.push_back(opened.back().data().empty() ? 0 : 1);
    }
    MPI_Alltoall(here.data(), 1, MPI_BYTE, there.data(), 1, MPI_BYTE, host);
    for (size_t i = 0; i < offers.size(); ++i) {
      if (here[i] == 0 || there[i] == 0) continue;
      shared_[static_cast<int>(offers[i].rank)] = std::move(opened[i]);
    }
    own.CloseFile();
    if (!shared_.empty()) shared_[rank_] = std::move(own);
    MPI_Comm_free(&host);
  }

  void Abort(int code) override {
    // No other thread may be in MPI, and none gets there again.
    const std::lock_guard lock(mutex_);
    std::fflush(stdout);
    std::fflush(stderr);
    abort_code = code;
    std::signal(SIGALRM, [](int) { _exit(abort_code); });
    alarm(kSecondsToAbort);
    MPI_Abort(communicator_, code);
    std::_Exit(code);
  }

 private:
  Request Note(MPI_Request request) {
    requests_[next_] = request;
    return next_++;
  }

  std::vector<size_t> Poll(std::span<const Request> requests) {
    const std::lock_guard lock(mutex_);
    std::vector<size_t> done;
    for (size_t i = 0; i < requests.size(); ++i) {
      auto found = requests_.find(requests[i]);
      int flag = 0;
      Check(MPI_Test(&found->second, &flag, MPI_STATUS_IGNORE), "MPI_Test", -1);
      if (flag == 0) continue;
      requests_.erase(found);
      done.push_back(i);
    }
    return done;
  }

  // What MPI itself reports (a lost connection, a message cut short) ends the run.
  void Check(int code, const char* call, int peer) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    std::fprintf(stderr, "[rank %d] error: %s%s%s: %s [E-MPI]\n", rank_, call,
                 peer >= 0 ? " with rank " : "", peer >= 0 ? std::to_string(peer).c_str() : "",
                 text);
    Abort(4);
  }

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::recursive_mutex mutex_;  // Abort, where an error is found, too
  std::map<Request, MPI_Request> requests_;
  Request next_ = 1;
  std::map<int, HostMemory> shared_;  // by rank
};

MpiSession::MpiSession(int* argc, char*** argv) {
  int granted = MPI_THREAD_SINGLE;
  MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &granted);
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  library_.assign(version, static_cast<size_t>(length));
  library_.resize(library_.find_first_of(",\n\0") == std::string::npos
                      ? library_.size()
                      : library_.find_first_of(",\n"));
  if (granted < MPI_THREAD_SERIALIZED) {
    std::fprintf(stderr, "error: %s gives no MPI_THREAD_SERIALIZED [E-MPI]\n", library_.c_str());
    MPI_Abort(MPI_COMM_WORLD, 4);
  }
  transport_ = std::make_unique<MpiTransport>();
}

Transport& MpiSession::transport() { return *transport_; }

void MpiSession::ShareMemory(size_t bytes) { transport_->ShareMemory(bytes); }

MpiSession::~MpiSession() {
  transport_.reset();
  MPI_Finalize();
}

}  // namespace gshard::mpi
