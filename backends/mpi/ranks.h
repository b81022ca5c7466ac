// The processes of one run: exchanges of planned messages, agreement, and a watch over peers that
// die or hang.
//
// Every rank goes through the same exchanges in the same order, so nothing is negotiated: a message
// is matched by its step. The run is aborted if a peer that others wait for sends nothing, or reports
// no progress, for the time-out; a peer that is slow but makes progress does not end it.
#ifndef GSHARD_BACKENDS_MPI_RANKS_H_
#define GSHARD_BACKENDS_MPI_RANKS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/mpi/message.h"
#include "backends/mpi/transport.h"

namespace gshard::mpi {

inline constexpr size_t kMinSharedBytes = 16 << 10;

struct RanksOptions {
  double timeout_seconds = 300;
  // Shorter messages are copied to the ranks of this host, too: that takes less time than to tell
  // where they are and that they were read.
  size_t least_shared_bytes = kMinSharedBytes;
  // Counts up while this rank computes; null: only its exchanges and ReportProgress show that it
  // gets on.
  const std::atomic<uint64_t>* work = nullptr;
  // Told what is wrong before Abort.
  std::function<void(const std::string& message)> report;
};

// Owned and used by the thread that runs the program; one more thread keeps watch.
class Ranks {
  struct Transfer {
    // kTold: a message's place in shared memory, or that it comes after all. kRead: the receiver is
    // done with a message in shared memory.
    enum class Kind : uint8_t { kSent, kReceived, kTold, kRead } kind = Kind::kSent;
    int peer = 0;
    size_t bytes = 0;
    Transport::Request request = 0;
    int tag = 0;
    Message* message = nullptr;  // of kTold
    bool incoming() const { return kind == Kind::kReceived || kind == Kind::kTold; }
  };

 public:
  Ranks(Transport& transport, RanksOptions options);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }

  struct Outgoing {
    int peer = 0;
    std::span<const std::byte> data;
  };
  struct Incoming {
    int peer = 0;
    std::span<std::byte> data;
  };
  // At most one message each way for each peer; empty ones are not sent. Returns when all are done.
  // `where` is shown if that takes too long.
  void Exchange(std::span<const Outgoing> out, std::span<const Incoming> in,
                std::string_view where);
  // The same in two parts, with work or other exchanges in between; the data must stay until
  // Finish.
  class Begun {
    friend class Ranks;
    std::vector<Transfer> transfers;
  };
  Begun Begin(std::span<const Outgoing> out, std::span<const Incoming> in);
  // The same with messages that peers on this host may read where they are packed. They must stay,
  // too; what has come is in them after FinishIncoming, until Release, which must follow, and for
  // which the senders' Finish waits: so it comes before one's own Finish.
  struct Packet {
    int peer = 0;
    Message* message = nullptr;
  };
  struct Awaited {
    int peer = 0;
    size_t bytes = 0;
    Message* message = nullptr;
  };
  Begun Begin(std::span<const Packet> out, std::span<const Awaited> in);
  // Room for what is sent to a peer.
  void Prepare(int peer, size_t bytes, Message& message);
  void Release(Message& message);
  void FinishIncoming(Begun& begun, std::string_view where);
  void Finish(Begun& begun, std::string_view where);
  // Everybody's bytes, by rank.
  std::vector<std::vector<std::byte>> AllGather(std::span<const std::byte> mine,
                                                std::string_view where);
  std::vector<std::string> AllGatherText(const std::string& mine, std::string_view where);
  // `text` as rank 0 has it.
  std::string Broadcast(const std::string& text, std::string_view where);

  // This rank gets on with work of its own between exchanges. Thread-safe.
  void ReportProgress() { own_work_.fetch_add(1, std::memory_order_relaxed); }

  [[noreturn]] void Abort(int code);

  // Of this rank; of what it sends, what others have read in shared memory.
  struct Traffic {
    int64_t messages = 0, bytes = 0;
    double wait_seconds = 0;
    int64_t shared_bytes = 0;
  };
  const Traffic& traffic() const { return traffic_; }

 private:
  class Watch;
  int NextStep();  // its tag
  void Send(int peer, int tag, std::span<const std::byte> data, Begun& begun);
  void Receive(int peer, int tag, std::span<std::byte> data, Begun& begun);
  bool IsShared(int peer, size_t bytes);
  // After a transfer's request is done: true if it has another now.
  bool Advance(Transfer& transfer);
  void ForgetNotes(double seconds);
  // Until no transfer is left, or none that comes in.
  void Wait(std::vector<Transfer>& transfers, bool incoming_only, std::string_view where);

  Transport& transport_;
  RanksOptions options_;
  Traffic traffic_;
  uint64_t step_ = 0;
  SharedBuffer room_;
  std::vector<Transport::Request> notes_;  // that messages were read
  std::atomic<uint64_t> own_work_{0};
  std::unique_ptr<Watch> watch_;
};

}  // namespace gshard::mpi

#endif  // GSHARD_BACKENDS_MPI_RANKS_H_
