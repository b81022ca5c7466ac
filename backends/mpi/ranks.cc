#include "backends/mpi/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

namespace gshard::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLongestBeat = 5, kPollSeconds = 0.1;
constexpr int64_t kNowhere = -1;
const std::byte kRead{1};

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

// Tells the peers every few seconds how far this rank is, and keeps what they tell.
class Ranks::Watch {
 public:
  Watch(Transport& transport, const RanksOptions& options, const std::atomic<uint64_t>& own_work)
      : transport_(transport),
        options_(options),
        own_work_(own_work),
        interval_(std::clamp(options.timeout_seconds / 4, 0.05, kLongestBeat)),
        peers_(static_cast<size_t>(transport.size())) {
    for (int p = 0; p < transport_.size(); ++p) {
      Peer& peer = PeerOf(p);
      peer.changed = Clock::now();
      if (p != transport_.rank()) peer.request = Receive(p);
    }
    thread_ = std::thread([this] { Run(); });
  }

  // Says good-bye and waits for everybody's, so that no message is left; not if `quietly`.
  void Finish(bool quietly) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
      quietly_ = quietly;
      wake_.notify_all();
    }
    thread_.join();
  }

  void set_step(uint64_t step) { step_.store(step, std::memory_order_relaxed); }
  void set_waiting(bool waiting) { waiting_.store(waiting, std::memory_order_relaxed); }

  // How long ago the peer last said that it got on, and the last step it told.
  struct News {
    double age = 0;
    uint64_t step = 0;
    bool silent = true;    // not even a sign of life
    bool waiting = false;  // for others
  };
  News NewsOf(int peer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Peer& p = PeerOf(peer);
    return {Since(p.changed), p.last.step, Since(p.heard) > 3 * interval_, p.last.waiting != 0};
  }

 private:
  struct Beat {
    uint64_t step = 0, work = 0, waiting = 0, last = 0;
  };
  struct Peer {
    Beat last, incoming, outgoing;
    Clock::time_point changed, heard;
    Transport::Request request = 0, sending = 0;
    // Our own beats since it was heard: time in which this process was stopped does not count.
    int missed = 0;
    bool left = false;
  };

  Peer& PeerOf(int peer) { return peers_[static_cast<size_t>(peer)]; }

  Transport::Request Receive(int p) {
    Peer& peer = PeerOf(p);
    return transport_.IReceive(p, kBeatTag, std::as_writable_bytes(std::span(&peer.incoming, 1)));
  }

  void SendProgress(bool last) {
    for (int p = 0; p < transport_.size(); ++p) {
      Peer& peer = PeerOf(p);
      if (p == transport_.rank()) continue;
      if (peer.sending != 0 && !last) continue;  // it does not listen
      while (peer.sending != 0) Poll(p);
      peer.outgoing = {
          step_.load(std::memory_order_relaxed),
          own_work_.load(std::memory_order_relaxed) +
              (options_.work != nullptr ? options_.work->load(std::memory_order_relaxed) : 0),
          waiting_.load(std::memory_order_relaxed), last};
      peer.sending = transport_.ISend(p, kBeatTag, std::as_bytes(std::span(&peer.outgoing, 1)));
    }
  }

  void Poll(int p) {
    Peer& peer = PeerOf(p);
    if (peer.sending != 0 && !transport_.WaitSome({&peer.sending, 1}, 0).empty()) peer.sending = 0;
    if (peer.request == 0 || transport_.WaitSome({&peer.request, 1}, 0).empty()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      peer.heard = Clock::now();
      peer.missed = 0;
      if (peer.incoming.step != peer.last.step || peer.incoming.work != peer.last.work) {
        peer.changed = peer.heard;
      }
      peer.last = peer.incoming;
      peer.left = peer.incoming.last != 0;
    }
    peer.request = peer.left ? 0 : Receive(p);
  }

  void Run() {
    try {
      RunUntilEnd();
    } catch (const std::exception&) {
      // Aborted: the thread that runs the program hears of it, too.
    }
  }

  void RunUntilEnd() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ending_) {
      lock.unlock();
      SendProgress(false);
      for (int p = 0; p < transport_.size(); ++p) {
        if (p != transport_.rank()) Poll(p);
      }
      if (EndIfOneIsSilent()) return;
      lock.lock();
      wake_.wait_for(lock, std::chrono::duration<double>(interval_), [this] { return ending_; });
    }
    const bool quietly = quietly_;
    lock.unlock();
    if (quietly) return;
    SendProgress(true);
    for (int p = 0; p < transport_.size(); ++p) {
      Peer& peer = PeerOf(p);
      while (p != transport_.rank() && (!peer.left || peer.sending != 0)) {
        Poll(p);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    }
  }

  // A rank that waits for others says itself what it misses (Wait); one that computes, or that
  // exchanges nothing, would go on for long beside a rank that has stopped.
  bool EndIfOneIsSilent() {
    if (waiting_.load(std::memory_order_relaxed)) return false;
    for (int p = 0; p < transport_.size(); ++p) {
      Peer& peer = PeerOf(p);
      if (p == transport_.rank() || peer.left) continue;
      if (++peer.missed * interval_ <= options_.timeout_seconds) continue;
      if (options_.report) {
        options_.report(fmt::format(
            "rank {} has not got on for {:.0f} s (silent: stopped or gone); rank {} computes in "
            "step {}, with 0 bytes outstanding; rank {} was last seen in step {}",
            p, peer.missed * interval_, transport_.rank(), step_.load(std::memory_order_relaxed), p,
            peer.last.step));
      }
      transport_.Abort(4);
      return true;
    }
    return false;
  }

  Transport& transport_;
  const RanksOptions& options_;
  const std::atomic<uint64_t>& own_work_;
  const double interval_;
  std::vector<Peer> peers_;
  std::atomic<uint64_t> step_{0};
  std::atomic<bool> waiting_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false, quietly_ = false;
  std::thread thread_;
};

Ranks::Ranks(Transport& transport, RanksOptions options)
    : transport_(transport),
      options_(std::move(options)),
      room_(size() > 1 ? transport.Shared(rank()) : std::span<std::byte>()) {
  if (size() > 1) watch_ = std::make_unique<Watch>(transport_, options_, own_work_);
}

Ranks::~Ranks() {
  const bool failed = std::uncaught_exceptions() > 0;
  try {
    while (!failed && !notes_.empty()) ForgetNotes(kPollSeconds);
  } catch (const std::exception&) {
    // Aborted by another, which says why.
  }
  if (watch_ != nullptr) watch_->Finish(failed);
}

void Ranks::Abort(int code) {
  transport_.Abort(code);
  std::terminate();
}

void Ranks::Wait(std::vector<Transfer>& transfers, bool incoming_only, std::string_view where) {
  const auto is_done = [&] {
    if (!incoming_only) return transfers.empty();
    return std::ranges::none_of(transfers, &Transfer::incoming);
  };
  if (is_done()) return;
  const Clock::time_point start = Clock::now();
  Clock::time_point moved = start;
  watch_->set_waiting(true);
  std::vector<Transport::Request> requests;
  while (!is_done()) {
    requests.clear();
    for (const Transfer& transfer : transfers) requests.push_back(transfer.request);
    const std::vector<size_t> done = transport_.WaitSome(requests, kPollSeconds);
    if (!done.empty()) moved = Clock::now();
    for (size_t i = done.size(); i-- > 0;) {
      const auto transfer = transfers.begin() + static_cast<ptrdiff_t>(done[i]);
      if (!Advance(*transfer)) transfers.erase(transfer);
    }
    if (is_done() || Since(moved) < options_.timeout_seconds) continue;
    for (const Transfer& transfer : transfers) {
      const Watch::News news = watch_->NewsOf(transfer.peer);
      // Who waits in turn is not to blame, unless everybody waits for everybody.
      const bool excused = news.waiting && !news.silent;
      if (news.age < options_.timeout_seconds * (excused ? 2 : 1)) continue;
      size_t bytes = 0;
      for (const Transfer& other : transfers) {
        if (other.peer == transfer.peer) bytes += other.bytes;
      }
      if (options_.report) {
        options_.report(fmt::format(
            "rank {} has not got on for {:.0f} s ({}); rank {} waits for it in {}, step {}, with "
            "{} "
            "bytes outstanding; rank {} was last seen in step {}",
            transfer.peer, news.age, news.silent ? "silent: stopped or gone" : "alive but stuck",
            rank(), where, step_, bytes, transfer.peer, news.step));
      }
      Abort(4);
    }
  }
  watch_->set_waiting(false);
  traffic_.wait_seconds += Since(start);
}

int Ranks::NextStep() {
  ++step_;
  if (watch_ != nullptr) watch_->set_step(step_);
  ForgetNotes(0);
  return static_cast<int>(step_ % kPayloadTags);
}

void Ranks::Send(int peer, int tag, std::span<const std::byte> data, Begun& begun) {
  for (size_t begin = 0; begin < data.size(); begin += kMaxMessageBytes) {
    const auto piece = data.subspan(begin, std::min(kMaxMessageBytes, data.size() - begin));
    begun.transfers.push_back({Transfer::Kind::kSent, peer, piece.size(),
                               transport_.ISend(peer, tag, piece), tag, nullptr});
    ++traffic_.messages;
    traffic_.bytes += static_cast<int64_t>(piece.size());
  }
}

void Ranks::Receive(int peer, int tag, std::span<std::byte> data, Begun& begun) {
  for (size_t begin = 0; begin < data.size(); begin += kMaxMessageBytes) {
    const auto piece = data.subspan(begin, std::min(kMaxMessageBytes, data.size() - begin));
    begun.transfers.push_back({Transfer::Kind::kReceived, peer, piece.size(),
                               transport_.IReceive(peer, tag, piece), tag, nullptr});
  }
}

Ranks::Begun Ranks::Begin(std::span<const Outgoing> out, std::span<const Incoming> in) {
  Begun begun;
  const int tag = NextStep();
  if (size() == 1) return begun;
  for (const Incoming& message : in) Receive(message.peer, tag, message.data, begun);
  for (const Outgoing& message : out) Send(message.peer, tag, message.data, begun);
  return begun;
}

bool Ranks::IsShared(int peer, size_t bytes) {
  return bytes >= options_.least_shared_bytes && bytes <= kMaxMessageBytes &&
         !transport_.Shared(peer).empty();
}

void Ranks::Prepare(int peer, size_t bytes, Message& message) {
  message.Resize(bytes, IsShared(peer, bytes) ? &room_ : nullptr);
}

Ranks::Begun Ranks::Begin(std::span<const Packet> out, std::span<const Awaited> in) {
  Begun begun;
  const int tag = NextStep();
  if (size() == 1) return begun;
  for (const Awaited& awaited : in) {
    Message& message = *awaited.message;
    if (!IsShared(awaited.peer, awaited.bytes)) {
      message.Resize(awaited.bytes, nullptr);
      Receive(awaited.peer, tag, message.data_, begun);
      continue;
    }
    message.data_ = {};
    begun.transfers.push_back(
        {Transfer::Kind::kTold, awaited.peer, awaited.bytes,
         transport_.IReceive(awaited.peer, tag + kPayloadTags,
                             std::as_writable_bytes(std::span(&message.place_, 1))),
         tag, &message});
  }
  for (const Packet& packet : out) {
    Message& message = *packet.message;
    if (IsShared(packet.peer, message.size())) {
      const bool in_room = message.data_.data() == message.in_room_;
      message.place_ = in_room ? message.in_room_ - transport_.Shared(rank()).data() : kNowhere;
      if (in_room) {
        begun.transfers.push_back(
            {Transfer::Kind::kRead, packet.peer, message.size(),
             transport_.IReceive(packet.peer, tag + 2 * kPayloadTags, std::span(&message.read_, 1)),
             tag, nullptr});
      }
      begun.transfers.push_back({Transfer::Kind::kSent, packet.peer, 0,
                                 transport_.ISend(packet.peer, tag + kPayloadTags,
                                                  std::as_bytes(std::span(&message.place_, 1))),
                                 tag, nullptr});
      if (in_room) {
        ++traffic_.messages;
        traffic_.bytes += static_cast<int64_t>(message.size());
        traffic_.shared_bytes += static_cast<int64_t>(message.size());
        continue;
      }
    }
    Send(packet.peer, tag, message.data_, begun);
  }
  return begun;
}

bool Ranks::Advance(Transfer& transfer) {
  if (transfer.kind != Transfer::Kind::kTold) return false;
  Message& message = *transfer.message;
  if (message.place_ != kNowhere) {
    message.data_ = transport_.Shared(transfer.peer)
                        .subspan(static_cast<size_t>(message.place_), transfer.bytes);
    message.lender_ = transfer.peer;
    message.tag_ = transfer.tag;
    return false;
  }
  message.Resize(transfer.bytes, nullptr);
  transfer.kind = Transfer::Kind::kReceived;
  transfer.request = transport_.IReceive(transfer.peer, transfer.tag, message.data_);
  return true;
}

void Ranks::Release(Message& message) {
  if (message.lender_ < 0) return;
  notes_.push_back(
      transport_.ISend(message.lender_, message.tag_ + 2 * kPayloadTags, std::span(&kRead, 1)));
  message.lender_ = -1;
  message.data_ = {};
}

void Ranks::ForgetNotes(double seconds) {
  if (notes_.empty()) return;
  const std::vector<size_t> done = transport_.WaitSome(notes_, seconds);
  for (size_t i = done.size(); i-- > 0;) {
    notes_.erase(notes_.begin() + static_cast<ptrdiff_t>(done[i]));
  }
}

void Ranks::FinishIncoming(Begun& begun, std::string_view where) {
  Wait(begun.transfers, true, where);
}

void Ranks::Finish(Begun& begun, std::string_view where) { Wait(begun.transfers, false, where); }

void Ranks::Exchange(std::span<const Outgoing> out, std::span<const Incoming> in,
                     std::string_view where) {
  Begun begun = Begin(out, in);
  Finish(begun, where);
}

std::vector<std::vector<std::byte>> Ranks::AllGather(std::span<const std::byte> mine,
                                                     std::string_view where) {
  const auto ranks = static_cast<size_t>(size());
  std::vector<uint64_t> sizes(ranks, mine.size());
  std::vector<std::vector<std::byte>> all(ranks);
  all[static_cast<size_t>(rank())].assign(mine.begin(), mine.end());
  const uint64_t size_here = mine.size();
  // First the sizes, then what is not empty.
  for (const bool of_sizes : {true, false}) {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (int p = 0; p < size(); ++p) {
      if (p == rank()) continue;
      const auto i = static_cast<size_t>(p);
      if (of_sizes) {
        out.push_back({p, std::as_bytes(std::span(&size_here, 1))});
        in.push_back({p, std::as_writable_bytes(std::span(&sizes[i], 1))});
      } else {
        all[i].resize(sizes[i]);
        out.push_back({p, mine});
        in.push_back({p, all[i]});
      }
    }
    Exchange(out, in, where);
  }
  return all;
}

std::vector<std::string> Ranks::AllGatherText(const std::string& mine, std::string_view where) {
  std::vector<std::string> texts;
  for (const std::vector<std::byte>& bytes : AllGather(std::as_bytes(std::span(mine)), where)) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

std::string Ranks::Broadcast(const std::string& text, std::string_view where) {
  return AllGatherText(rank() == 0 ? text : std::string(), where)[0];
}

}  // namespace gshard::mpi
