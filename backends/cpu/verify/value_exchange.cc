// One lock and one condition for everything: turns change a few times per step of a run.
#include "backends/cpu/verify/value_exchange.h"

#include <exception>
#include <thread>
#include <utility>

namespace gshard::cpu {

ValueExchange::ValueExchange(size_t probes, int64_t budget_bytes, bool in_turns)
    : in_turns_(in_turns), pool_(budget_bytes), awaited_(probes, 0), values_(probes) {}

std::span<std::byte> ValueExchange::Room(uint32_t probe, int64_t bytes, bool must) {
  const std::lock_guard lock(mutex_);
  if (drains_) return {};
  must = must || awaited_[probe] != 0 || pool_.IsUnused();
  return must ? pool_.TakeAnyway(bytes) : pool_.Take(bytes);
}

void ValueExchange::Give(uint32_t probe, WholeValue value) {
  const std::lock_guard lock(mutex_);
  if (drains_) {
    if (!value.data.empty()) pool_.Return(value.data);
    return;
  }
  values_[probe].push_back(std::move(value));
  if (awaited_[probe] == 0) return;
  awaited_[probe] = 0;
  if (--outstanding_ == 0) turn_ = Turn::kConsumer;
  changed_.notify_all();
}

bool ValueExchange::WaitUntilNeeded() {
  std::unique_lock lock(mutex_);
  if (in_turns_)
    changed_.wait(lock, [&] { return turn_ == Turn::kProducer || closed_ || drains_; });
  return !closed_;
}

void ValueExchange::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void ValueExchange::Await(std::unique_lock<std::mutex>& lock, std::span<const uint32_t> probes) {
  for (uint32_t probe : probes) {
    if (!values_[probe].empty() || awaited_[probe] != 0) continue;
    awaited_[probe] = 1;
    ++outstanding_;
  }
  if (outstanding_ > 0 && !ended_) {
    turn_ = Turn::kProducer;
    changed_.notify_all();
    changed_.wait(lock, [&] { return turn_ == Turn::kConsumer || ended_; });
  }
  for (uint32_t probe : probes) awaited_[probe] = 0;
  outstanding_ = 0;
}

std::vector<std::optional<WholeValue>> ValueExchange::Take(std::span<const uint32_t> probes) {
  std::unique_lock lock(mutex_);
  Await(lock, probes);
  std::vector<std::optional<WholeValue>> taken(probes.size());
  for (size_t i = 0; i < probes.size(); ++i) {
    std::deque<WholeValue>& values = values_[probes[i]];
    if (values.empty()) continue;
    taken[i] = std::move(values.front());
    values.pop_front();
  }
  return taken;
}

void ValueExchange::Return(std::span<std::byte> data) {
  const std::lock_guard lock(mutex_);
  pool_.Return(data);
}

void ValueExchange::EndConsuming(bool drains) {
  const std::lock_guard lock(mutex_);
  (drains ? drains_ : closed_) = true;
  changed_.notify_all();
}

ValueExchange::Outcome ValueExchange::Run(
    const std::function<Expected<void>()>& produce, const std::function<Expected<void>()>& consume,
    const std::function<bool(const Expected<void>& consumed)>& drains) {
  Outcome outcome;
  if (!in_turns_) {
    outcome.produced = produce();
    End();
    if (outcome.produced) outcome.consumed = consume();
    return outcome;
  }
  std::exception_ptr thrown, thrown_by_producer;
  std::thread thread([&] {
    try {
      if (WaitUntilNeeded()) outcome.produced = produce();
    } catch (...) {
      thrown_by_producer = std::current_exception();
    }
    End();
  });
  bool goes_on = false;
  try {
    outcome.consumed = consume();
    goes_on = drains(outcome.consumed);
  } catch (...) {
    thrown = std::current_exception();
  }
  EndConsuming(goes_on);
  thread.join();
  if (thrown) std::rethrow_exception(thrown);
  if (thrown_by_producer) std::rethrow_exception(thrown_by_producer);
  return outcome;
}

}  // namespace gshard::cpu
