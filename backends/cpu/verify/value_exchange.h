// Hands whole values of one run to another that runs in a second thread and compares them.
//
// The two take turns: the producer goes on only while the consumer waits for something it has not
// given yet, so that few values are held and neither slows the other. Thread-safe for one producer
// and one consumer.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_VALUE_EXCHANGE_H_
#define GSHARD_BACKENDS_CPU_VERIFY_VALUE_EXCHANGE_H_

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
};

// Where the mesh's arrays come from, by probe.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  // The next value of each probe. Nothing: the mesh has none; without data: there was no room.
  virtual std::vector<std::optional<WholeValue>> Take(std::span<const uint32_t> probes) = 0;
  // Gives the memory of a value back.
  virtual void Return(std::span<std::byte> data) = 0;
};

class ValueExchange final : public ValueSource {
 public:
  // Values beyond `budget_bytes` are held only if the consumer waits for them or there is no other.
  // Not `in_turns`: the producer runs to its end before the consumer begins.
  ValueExchange(size_t probes, int64_t budget_bytes, bool in_turns);

  // --- the producer
  // Room for the next value of the probe, or none. `must`: also beyond the budget.
  std::span<std::byte> Room(uint32_t probe, int64_t bytes, bool must = false);
  void Give(uint32_t probe, WholeValue value);
  // Waits while the consumer has what it wants. False: closed.
  bool WaitUntilNeeded();
  // The most that was held at a time.
  int64_t peak_bytes() const { return pool_.peak_bytes(); }

  // --- the consumer
  // Waits until one value of each probe is there or the producer has ended.
  std::vector<std::optional<WholeValue>> Take(std::span<const uint32_t> probes) override;
  void Return(std::span<std::byte> data) override;

  // --- both
  struct Outcome {
    Expected<void> produced, consumed;
  };
  // Runs `produce` in a thread of its own and `consume` in this one. `drains`, asked when that has
  // ended, says whether the producer goes on to its end; else it is stopped. Throws what one of
  // them has thrown, when both have ended. Not in turns: one after the other, in this thread.
  Outcome Run(const std::function<Expected<void>()>& produce,
              const std::function<Expected<void>()>& consume,
              const std::function<bool(const Expected<void>& consumed)>& drains);

 private:
  enum class Turn { kProducer, kConsumer };

  void End();
  void Await(std::unique_lock<std::mutex>& lock, std::span<const uint32_t> probes);
  // The consumer wants nothing more.
  void EndConsuming(bool drains);

  std::mutex mutex_;
  std::condition_variable changed_;
  Turn turn_ = Turn::kConsumer;
  bool closed_ = false, ended_ = false, drains_ = false;
  const bool in_turns_;
  ValuePool pool_;
  size_t outstanding_ = 0;        // probes that the consumer waits for
  std::vector<uint8_t> awaited_;  // by probe
  std::vector<std::deque<WholeValue>> values_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_VALUE_EXCHANGE_H_
