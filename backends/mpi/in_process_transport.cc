// A queue of messages for each pair of ranks and tag, behind one mutex.
#include "backends/mpi/in_process_transport.h"

#include <chrono>
#include <cstring>
#include <stdexcept>

namespace gshard::mpi {

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(InProcessRanks& office, int rank) : office_(office), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return office_.size_; }

  Request ISend(int peer, int tag, std::span<const std::byte> data) override {
    const std::lock_guard<std::mutex> lock(office_.mutex_);
    if (tag < kPayloadTags) {
      ++office_.traffic_.messages;
      office_.traffic_.bytes += static_cast<int64_t>(data.size());
    }
    office_.waiting_[{rank_, peer, tag}].emplace_back(data.begin(), data.end());
    office_.changed_.notify_all();
    return Note({true, {}, {}});
  }

  Request IReceive(int peer, int tag, std::span<std::byte> data) override {
    const std::lock_guard<std::mutex> lock(office_.mutex_);
    // Receives of one address are served in the order in which they were asked for.
    receives_[{peer, rank_, tag}].push_back(next_);
    return Note({false, {peer, rank_, tag}, data});
  }

  std::vector<size_t> WaitSome(std::span<const Request> requests, double seconds) override {
    std::unique_lock<std::mutex> lock(office_.mutex_);
    std::vector<size_t> done;
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      if (office_.aborted_ >= 0) throw RanksAborted(office_.aborted_);
      for (size_t i = 0; i < requests.size(); ++i) {
        if (IsDone(requests[i])) done.push_back(i);
      }
      if (!done.empty() || seconds <= 0) break;
      if (office_.changed_.wait_until(lock, until) == std::cv_status::timeout) break;
    }
    for (size_t i : done) pending_.erase(requests[i]);
    return done;
  }

  std::span<std::byte> Shared(int rank) override {
    const InProcessHosts& hosts = office_.hosts_;
    if (rank / hosts.ranks_per_host != rank_ / hosts.ranks_per_host) return {};
    return {office_.shared_[static_cast<size_t>(rank)].get(), hosts.shared_bytes};
  }

  void Abort(int code) override {
    const std::lock_guard<std::mutex> lock(office_.mutex_);
    if (office_.aborted_ < 0) office_.aborted_ = code;
    office_.changed_.notify_all();
    throw RanksAborted(code);
  }

 private:
  struct Pending {
    bool done = false;
    InProcessRanks::Address from;
    std::span<std::byte> to;
  };

  Request Note(Pending pending) {
    pending_[next_] = pending;
    return next_++;
  }

  bool IsDone(Request request) {
    Pending& pending = pending_.at(request);
    if (pending.done) return true;
    std::deque<std::vector<std::byte>>& messages = office_.waiting_[pending.from];
    std::deque<Request>& receives = receives_[pending.from];
    while (!messages.empty() && !receives.empty()) {
      Pending& first = pending_.at(receives.front());
      const std::vector<std::byte>& message = messages.front();
      if (message.size() != first.to.size()) {
        throw std::logic_error("a message of another size than its receiver expects");
      }
      if (!message.empty()) std::memcpy(first.to.data(), message.data(), message.size());
      first.done = true;
      messages.pop_front();
      receives.pop_front();
    }
    return pending.done;
  }

  InProcessRanks& office_;
  const int rank_;
  std::map<Request, Pending> pending_;
  std::map<InProcessRanks::Address, std::deque<Request>> receives_;
  Request next_ = 1;
};

InProcessRanks::InProcessRanks(int size, const InProcessHosts& hosts) : size_(size), hosts_(hosts) {
  for (int r = 0; r < size; ++r) {
    shared_.push_back(std::make_unique_for_overwrite<std::byte[]>(hosts.shared_bytes));
  }
}

std::unique_ptr<Transport> InProcessRanks::MakeTransport(int rank) {
  return std::make_unique<InProcessTransport>(*this, rank);
}

InProcessRanks::Traffic InProcessRanks::traffic() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return traffic_;
}

}  // namespace gshard::mpi
