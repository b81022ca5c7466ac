// One lock and one condition for everything: turns change a few times per step of a run.
#include "backends/cpu/verify/value_exchange.h"

#include <utility>

namespace gshard::cpu {

ValueExchange::ValueExchange(size_t taps, int64_t budget_bytes, bool in_turns)
    : in_turns_(in_turns), pool_(budget_bytes), awaited_(taps, 0), values_(taps) {}

bool ValueExchange::Begin() { return WaitUntilNeeded(); }

std::span<std::byte> ValueExchange::Room(uint32_t tap, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (drains_) return {};
  const bool must = awaited_[tap] != 0 || pool_.IsUnused();
  return must ? pool_.TakeAnyway(bytes) : pool_.Take(bytes);
}

void ValueExchange::Give(uint32_t tap, WholeValue value) {
  const std::lock_guard lock(mutex_);
  if (drains_) {
    if (!value.data.empty()) pool_.Return(value.data);
    return;
  }
  values_[tap].push_back(std::move(value));
  if (awaited_[tap] == 0) return;
  awaited_[tap] = 0;
  if (--outstanding_ == 0) turn_ = Turn::kMeshComparer;
  changed_.notify_all();
}

bool ValueExchange::WaitUntilNeeded() {
  std::unique_lock lock(mutex_);
  if (in_turns_)
    changed_.wait(lock, [&] { return turn_ == Turn::kReferenceProducer || closed_ || drains_; });
  return !closed_;
}

void ValueExchange::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void ValueExchange::Await(std::span<const uint32_t> taps) {
  std::unique_lock lock(mutex_);
  for (uint32_t tap : taps) {
    if (!values_[tap].empty() || awaited_[tap] != 0) continue;
    awaited_[tap] = 1;
    ++outstanding_;
  }
  if (outstanding_ > 0 && !ended_) {
    turn_ = Turn::kReferenceProducer;
    changed_.notify_all();
    changed_.wait(lock, [&] { return turn_ == Turn::kMeshComparer || ended_; });
  }
  for (uint32_t tap : taps) awaited_[tap] = 0;
  outstanding_ = 0;
}

std::optional<WholeValue> ValueExchange::Take(uint32_t tap) {
  const std::lock_guard lock(mutex_);
  if (values_[tap].empty()) return std::nullopt;
  WholeValue value = std::move(values_[tap].front());
  values_[tap].pop_front();
  return value;
}

void ValueExchange::Return(std::span<std::byte> data) {
  const std::lock_guard lock(mutex_);
  pool_.Return(data);
}

void ValueExchange::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void ValueExchange::Drain() {
  const std::lock_guard lock(mutex_);
  drains_ = true;
  changed_.notify_all();
}

}  // namespace gshard::cpu
