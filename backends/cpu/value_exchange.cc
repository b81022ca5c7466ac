// One lock and one condition for everything: turns change a few times per step of a run.
#include "backends/cpu/value_exchange.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gshard::cpu {

ValueExchange::ValueExchange(size_t taps, int64_t budget_bytes, bool in_turns)
    : in_turns_(in_turns), budget_bytes_(budget_bytes), awaited_(taps, 0), values_(taps) {}

bool ValueExchange::Begin() { return GoOn(); }

MappedRegion ValueExchange::Room(uint32_t tap, int64_t bytes) {
  // Sizes in steps of a quarter, so that spare memory fits many values.
  const auto wanted = static_cast<size_t>(bytes);
  const size_t size = AlignUp(wanted, std::max(std::bit_floor(wanted) / 4, size_t{4096}));
  const std::lock_guard lock(mutex_);
  if (auto spare = spare_.find(size); spare != spare_.end()) {
    MappedRegion data = std::move(spare->second);
    spare_.erase(spare);
    return data;
  }
  while (held_bytes_ + static_cast<int64_t>(size) > budget_bytes_ && !spare_.empty()) {
    held_bytes_ -= static_cast<int64_t>(spare_.begin()->first);
    spare_.erase(spare_.begin());
  }
  const bool fits = held_bytes_ == 0 || held_bytes_ + static_cast<int64_t>(size) <= budget_bytes_;
  if (awaited_[tap] == 0 && !fits) return {};
  held_bytes_ += static_cast<int64_t>(size);
  return MappedRegion(size);
}

void ValueExchange::Give(uint32_t tap, WholeValue value) {
  const std::lock_guard lock(mutex_);
  values_[tap].push_back(std::move(value));
  if (awaited_[tap] == 0) return;
  awaited_[tap] = 0;
  if (--outstanding_ == 0) turn_ = Turn::kTaker;
  changed_.notify_all();
}

bool ValueExchange::GoOn() {
  std::unique_lock lock(mutex_);
  if (in_turns_) changed_.wait(lock, [&] { return turn_ == Turn::kGiver || closed_; });
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
    turn_ = Turn::kGiver;
    changed_.notify_all();
    changed_.wait(lock, [&] { return turn_ == Turn::kTaker || ended_; });
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

void ValueExchange::Return(MappedRegion data) {
  const std::lock_guard lock(mutex_);
  const size_t size = data.size();
  spare_.emplace(size, std::move(data));
}

void ValueExchange::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace gshard::cpu
