// Hands whole values of one run to another that runs in a second thread and compares them.
//
// The two take turns: the producer goes on only while the comparer waits for something it has not
// given yet, so that few values are held and neither slows the other. Thread-safe for one producer
// and one consumer.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_VALUE_EXCHANGE_H_
#define GSHARD_BACKENDS_CPU_VERIFY_VALUE_EXCHANGE_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backends/cpu/memory/value_pool.h"
#include "ir/diagnostic.h"

namespace gshard::cpu {

struct WholeValue {
  std::span<std::byte> data;  // empty: there was no room
  // Another copy that some devices have; empty: all are the same.
  std::vector<std::byte> other;
  uint64_t order = 0;    // among all values of the producer's run
  double magnitude = 0;  // the largest of an element
  double allowed = 0;    // error of an element
};

class ValueExchange {
 public:
  // Values beyond `budget_bytes` are held only if the consumer waits for them or there is no other.
  // Not `in_turns`: the producer runs to its end before the comparer begins.
  ValueExchange(size_t probes, int64_t budget_bytes, bool in_turns);

  // --- the producer
  // Waits for the first turn. False: closed.
  bool Begin();
  // Room for the next value of the probe, or none.
  std::span<std::byte> Room(uint32_t probe, int64_t bytes);
  void Give(uint32_t probe, WholeValue value);
  // Waits while the consumer has what it wants. False: closed.
  bool WaitUntilNeeded();
  void End();
  bool drains() const { return drains_; }
  // The most that was held at a time.
  int64_t peak_bytes() const { return pool_.peak_bytes(); }

  // --- the consumer
  // Until one value of each probe is there or the producer has ended.
  void Await(std::span<const uint32_t> probes);
  // The next value of the probe, if there is one.
  std::optional<WholeValue> Take(uint32_t probe);
  // Gives the memory of a value back.
  void Return(std::span<std::byte> data);
  // Wants nothing more: the producer is stopped, or goes on to its end.
  void Close();
  void Drain();

  // --- both
  struct Outcome {
    Expected<void> produced, consumed;
  };
  // Runs `produce` in a thread of its own and `consume` in this one. `drains`, asked when that has
  // ended, says whether the producer goes on to its end; else it is stopped. Throws what one of
  // them has thrown, when both have ended.
  Outcome Run(const std::function<Expected<void>()>& produce,
              const std::function<Expected<void>()>& consume,
              const std::function<bool(const Expected<void>& consumed)>& drains);

 private:
  enum class Turn { kReferenceProducer, kMeshComparer };

  std::mutex mutex_;
  std::condition_variable changed_;
  Turn turn_ = Turn::kMeshComparer;
  bool closed_ = false, ended_ = false;
  std::atomic<bool> drains_ = false;
  const bool in_turns_;
  ValuePool pool_;
  size_t outstanding_ = 0;        // probes that the consumer waits for
  std::vector<uint8_t> awaited_;  // by probe
  std::vector<std::deque<WholeValue>> values_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_VALUE_EXCHANGE_H_
