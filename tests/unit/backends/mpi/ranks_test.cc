// Ranks in one process: exchanges, agreement, and what happens to peers that hang.
#include "backends/mpi/ranks.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

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
              ranks.GetOn();
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
