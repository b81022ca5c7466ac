// Ranks in one process: exchanges, agreement, and what happens to peers that hang.
#include "backends/mpi/ranks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "backends/mpi/host_memory.h"
#include "tests/ranks_in_process.h"

namespace gshard::mpi {
namespace {

TEST_CASE("messages arrive where and in the order in which they were sent", "[ranks]") {
  RunOnRanks(3, [](Ranks& ranks) {
    for (uint32_t step = 0; step < 50; ++step) {
      std::vector<Ranks::Outgoing> out;
      std::vector<Ranks::Incoming> in;
      std::vector<std::vector<uint32_t>> sent(3), received(3);
      for (int p = 0; p < 3; ++p) {
        if (p == ranks.rank()) continue;
        const auto i = static_cast<size_t>(p);
        sent[i] = {step, static_cast<uint32_t>(ranks.rank()), static_cast<uint32_t>(p)};
        received[i].resize(3);
        out.push_back({p, std::as_bytes(std::span(sent[i]))});
        in.push_back({p, std::as_writable_bytes(std::span(received[i]))});
      }
      ranks.Exchange(out, in, "test");
      for (uint32_t p = 0; p < 3; ++p) {
        if (static_cast<int>(p) == ranks.rank()) continue;
        if (received[p] != std::vector<uint32_t>{step, p, static_cast<uint32_t>(ranks.rank())}) {
          throw std::logic_error("another message");
        }
      }
    }
  });
}

TEST_CASE("all ranks hear what each says", "[ranks]") {
  RunOnRanks(4, [](Ranks& ranks) {
    const std::string mine(static_cast<size_t>(ranks.rank()), 'x');  // rank 0 says nothing
    const std::vector<std::string> all = ranks.AllGatherText(mine, "test");
    for (size_t r = 0; r < 4; ++r) {
      if (all[r] != std::string(r, 'x')) throw std::logic_error("another text");
    }
    const std::string text = ranks.rank() == 0 ? "of rank 0" : "of another";
    if (ranks.Broadcast(text, "test") != "of rank 0") throw std::logic_error("broadcast");
  });
}

TEST_CASE("a rank that hangs is named, and ends all", "[ranks]") {
  std::mutex mutex;
  std::vector<std::string> messages;
  RanksOptions options;
  options.timeout_seconds = 0.4;
  options.report = [&](const std::string& message) {
    const std::lock_guard<std::mutex> lock(mutex);
    messages.push_back(message);
  };
  const auto start = std::chrono::steady_clock::now();
  RunOnRanks(
      3,
      [](Ranks& ranks) {
        if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
        ranks.AllGatherText("here", "all-reduce.7");
      },
      options);
  REQUIRE_FALSE(messages.empty());
  CHECK(messages[0].find("rank 1 has not got on") == 0);
  CHECK(messages[0].find("all-reduce.7") != std::string::npos);
  CHECK(messages[0].find("bytes outstanding") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("a rank that is slow but gets on is waited for", "[ranks]") {
  for (const bool counts_itself : {false, true}) {
    std::atomic<uint64_t> work{0};
    RanksOptions options;
    options.timeout_seconds = 0.4;
    options.work = &work;
    std::atomic<int> done{0};
    RunOnRanks(
        2,
        [&](Ranks& ranks) {
          for (int i = 0; ranks.rank() == 1 && i < 60; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            if (counts_itself) {
              ranks.ReportProgress();
            } else {
              ++work;
            }
          }
          ranks.AllGatherText("here", "test");
          ++done;
        },
        options);
    CHECK(done == 2);
  }
}

// Sends `bytes` to every other rank and keeps what comes for as long as it takes to look at it.
void ExchangeMessages(Ranks& ranks, size_t bytes, uint8_t step) {
  std::vector<Message> out(static_cast<size_t>(ranks.size())), in(out.size());
  std::vector<Ranks::Packet> packets;
  std::vector<Ranks::Awaited> awaited;
  for (int p = 0; p < ranks.size(); ++p) {
    if (p == ranks.rank()) continue;
    const auto i = static_cast<size_t>(p);
    ranks.Prepare(p, bytes, out[i]);
    std::fill_n(out[i].data(), bytes, static_cast<std::byte>(step + 8 * ranks.rank() + p));
    packets.push_back({p, &out[i]});
    awaited.push_back({p, bytes, &in[i]});
  }
  Ranks::Begun begun = ranks.Begin(packets, awaited);
  ranks.FinishIncoming(begun, "all-gather.3");
  for (const Ranks::Awaited& one : awaited) {
    const auto wanted = static_cast<std::byte>(step + 8 * one.peer + ranks.rank());
    Message& message = *one.message;
    if (message.size() != bytes || std::count(message.data(), message.data() + bytes, wanted) !=
                                       static_cast<ptrdiff_t>(bytes)) {
      throw std::logic_error("another message");
    }
    ranks.Release(message);
  }
  ranks.Finish(begun, "all-gather.3");
}

TEST_CASE("large messages stay where they are packed, on one host, while there is room",
          "[ranks]") {
  constexpr size_t kBytes = 40000, kRoom = 100000;  // for two of the three that a rank sends
  for (const auto& [hosts, shared] : std::vector<std::pair<InProcessHosts, int64_t>>{
           {{kRoom, 4}, 4 * 2}, {{kRoom, 2}, 4}, {{kRoom, 1}, 0}, {{0, 4}, 0}}) {
    for (const size_t bytes : {size_t{100}, kBytes}) {
      std::mutex mutex;
      int64_t of_all = 0;
      RunOnRanks(
          4,
          [&](Ranks& ranks) {
            for (uint8_t step = 0; step < 20; ++step) ExchangeMessages(ranks, bytes, step);
            const Ranks::Traffic& traffic = ranks.traffic();
            const std::lock_guard<std::mutex> lock(mutex);
            of_all += traffic.shared_bytes;
            if (traffic.messages != 60 || traffic.bytes != static_cast<int64_t>(60 * bytes)) {
              throw std::logic_error("another number of messages");
            }
          },
          {}, hosts);
      INFO(hosts.ranks_per_host << " ranks a host, " << bytes << " bytes");
      CHECK(of_all == (bytes == kBytes ? 20 * shared * static_cast<int64_t>(kBytes) : 0));
    }
  }
}

TEST_CASE("who keeps another's message is named as one that hangs", "[ranks]") {
  std::mutex mutex;
  std::vector<std::string> messages;
  RanksOptions options;
  options.timeout_seconds = 0.4;
  options.report = [&](const std::string& message) {
    const std::lock_guard<std::mutex> lock(mutex);
    messages.push_back(message);
  };
  RunOnRanks(
      2,
      [](Ranks& ranks) {
        Message message;
        Ranks::Begun begun;
        if (ranks.rank() == 0) {
          ranks.Prepare(1, 1 << 16, message);
          const Ranks::Packet packet{1, &message};
          begun = ranks.Begin({&packet, 1}, {});
        } else {
          const Ranks::Awaited awaited{0, 1 << 16, &message};
          begun = ranks.Begin({}, {&awaited, 1});
          ranks.FinishIncoming(begun, "all-to-all.5");
          std::this_thread::sleep_for(std::chrono::seconds(2));  // and does not say that it is read
        }
        ranks.Finish(begun, "all-to-all.5");
      },
      options, {1 << 20, 2});
  REQUIRE_FALSE(messages.empty());
  CHECK(messages[0].find("rank 1 has not got on") == 0);
  CHECK(messages[0].find("all-to-all.5, step 1, with 65536 bytes outstanding") !=
        std::string::npos);
}

TEST_CASE("room in shared memory is used again", "[ranks]") {
  std::vector<std::byte> memory(1024);
  SharedBuffer room(memory);
  std::byte* const a = room.Take(100);
  std::byte* const b = room.Take(500);
  std::byte* const c = room.Take(300);
  CHECK(a == memory.data());
  CHECK((b != nullptr && c != nullptr));
  CHECK(room.Take(200) == nullptr);
  room.GiveBack(a, 100);
  CHECK(room.Take(500) == nullptr);
  room.GiveBack(c, 300);
  room.GiveBack(b, 500);
  CHECK(room.Take(1024) == a);
  CHECK(SharedBuffer({}).Take(1) == nullptr);
}

TEST_CASE("memory that processes of a host share", "[ranks]") {
  HostMemory own = HostMemory::Create(10000);
  REQUIRE(own.data().size() == 10000);
  const HostMemory::Key key = own.key();
  HostMemory::Key other = key;
  ++other.secret;
  CHECK(HostMemory::Open(other).data().empty());
  other = key;
  other.bytes *= 2;  // would be read beyond its end
  CHECK(HostMemory::Open(other).data().empty());
  other = key;
  other.process = -1;
  CHECK(HostMemory::Open(other).data().empty());
  HostMemory opened = HostMemory::Open(key);
  REQUIRE(opened.data().size() == 10000);
  own.data()[9999] = std::byte{7};
  CHECK(opened.data()[9999] == std::byte{7});
  own.CloseFile();
  CHECK(HostMemory::Open(key).data().empty());
  // It stays as long as anybody has it.
  own = HostMemory();
  CHECK(opened.data()[9999] == std::byte{7});
  CHECK(HostMemory::Create(0).data().empty());
  CHECK(HostMemory::Create(size_t{1} << 62).data().empty());
}

TEST_CASE("an error of one rank ends the others", "[ranks]") {
  CHECK_THROWS_WITH(RunOnRanks(3,
                               [](Ranks& ranks) {
                                 if (ranks.rank() == 2) throw std::runtime_error("broken");
                                 ranks.AllGatherText("here", "test");
                               }),
                    "broken");
}

}  // namespace
}  // namespace gshard::mpi
