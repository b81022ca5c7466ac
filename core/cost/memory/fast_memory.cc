// Placement in fast memory. See fast_memory.h.

#include "core/cost/memory/fast_memory.h"

#include <algorithm>
#include <numeric>

namespace gshard {

FastMemory::FastMemory(size_t steps, int64_t capacity) : capacity_(capacity) {
  while (size_ < steps) size_ *= 2;
  most_.assign(2 * size_, 0);
  added_.assign(2 * size_, 0);
  covered_.assign(2 * size_, kNone);
  taken_.assign(2 * size_, kNone);
}

void FastMemory::Add(const Piece& piece) {
  AddTo(1, AllSteps(), piece);
  end_address_ = std::max(end_address_, piece.address + piece.bytes);
}

void FastMemory::AddTo(size_t node, StepSpan of_node, const Piece& piece) {
  const StepSpan steps = piece.steps;
  if (steps.first > of_node.last || steps.last < of_node.first) return;
  AddAddresses(taken_[node], piece.address, piece.address + piece.bytes);
  if (steps.first <= of_node.first && of_node.last <= steps.last) {
    most_[node] += piece.bytes;
    added_[node] += piece.bytes;
    AddAddresses(covered_[node], piece.address, piece.address + piece.bytes);
    return;
  }
  const uint32_t middle = of_node.first + (of_node.last - of_node.first) / 2;
  AddTo(2 * node, {of_node.first, middle}, piece);
  AddTo(2 * node + 1, {middle + 1, of_node.last}, piece);
  most_[node] = std::max(most_[2 * node], most_[2 * node + 1]) + added_[node];
}

void FastMemory::AddAddresses(uint32_t& list, int64_t begin, int64_t end) {
  uint32_t before = kNone, at = list;
  while (at != kNone && addresses_[at].end < begin) {
    before = at;
    at = addresses_[at].next;
  }
  if (at != kNone && addresses_[at].begin <= end) {  // they touch
    Addresses& all = addresses_[at];
    all.begin = std::min(all.begin, begin);
    all.end = std::max(all.end, end);
    while (all.next != kNone && addresses_[all.next].begin <= all.end) {
      all.end = std::max(all.end, addresses_[all.next].end);
      all.next = addresses_[all.next].next;
    }
    return;
  }
  const auto added = static_cast<uint32_t>(addresses_.size());
  addresses_.push_back({begin, end, at});
  (before == kNone ? list : addresses_[before].next) = added;
}

uint32_t FastMemory::FirstAbove(int64_t most, size_t node, StepSpan of_node, StepSpan steps) const {
  if (most_[node] <= most || steps.first > of_node.last || steps.last < of_node.first) {
    return kNone;
  }
  if (of_node.first == of_node.last) return of_node.first;
  const uint32_t middle = of_node.first + (of_node.last - of_node.first) / 2;
  most -= added_[node];
  const uint32_t first = FirstAbove(most, 2 * node, {of_node.first, middle}, steps);
  return first != kNone ? first : FirstAbove(most, 2 * node + 1, {middle + 1, of_node.last}, steps);
}

uint32_t FastMemory::FirstFull(StepSpan steps, int64_t bytes) const {
  return FirstAbove(capacity_ - bytes, 1, AllSteps(), steps);
}

void FastMemory::Collect(size_t node, StepSpan of_node, StepSpan steps) const {
  if (most_[node] == 0 || steps.first > of_node.last || steps.last < of_node.first) return;
  const bool is_whole = steps.first <= of_node.first && of_node.last <= steps.last;
  for (uint32_t at = (is_whole ? taken_ : covered_)[node]; at != kNone; at = addresses_[at].next) {
    beside_.emplace_back(addresses_[at].begin, addresses_[at].end);
  }
  if (is_whole) return;
  const uint32_t middle = of_node.first + (of_node.last - of_node.first) / 2;
  Collect(2 * node, {of_node.first, middle}, steps);
  Collect(2 * node + 1, {middle + 1, of_node.last}, steps);
}

int64_t FastMemory::FreeAddress(std::span<const StepSpan> steps, int64_t bytes) const {
  beside_.clear();
  for (const StepSpan& span : steps) Collect(1, AllSteps(), span);
  std::sort(beside_.begin(), beside_.end());
  int64_t address = 0;
  for (const auto& [begin, end] : beside_) {
    if (begin - address >= bytes) break;
    address = std::max(address, end);
  }
  return address + bytes <= capacity_ ? address : -1;
}

std::vector<FastUse> FastMemory::PlaceWhole(const FastMemoryValue& value) {
  const bool has_room = std::ranges::all_of(
      value.uses, [&](const StepSpan& steps) { return FirstFull(steps, value.bytes) == kNone; });
  const int64_t address = has_room ? FreeAddress(value.uses, value.bytes) : -1;
  if (address >= 0) {
    for (const StepSpan& steps : value.uses) Add({steps, address, value.bytes});
  }
  return std::vector<FastUse>(value.uses.size(),
                              address >= 0 ? FastUse::kStays : FastUse::kElsewhere);
}

std::vector<FastUse> FastMemory::Place(const FastMemoryValue& value) {
  if (value.is_whole) return PlaceWhole(value);
  const std::vector<StepSpan>& uses = value.uses;
  std::vector<FastUse> places;
  places.reserve(uses.size());
  while (places.size() < uses.size()) {
    const size_t i = places.size();
    const bool is_fetched = i > 0 || value.is_copy;
    const bool is_late = is_fetched && uses[i].first == 0;
    const uint32_t start = uses[i].first - (is_fetched && !is_late ? 1 : 0);
    // As many uses as there is room for, and one address; often all.
    const uint32_t full = is_late ? 0 : FirstFull({start, uses.back().last}, value.bytes);
    size_t fits = i, most = i;
    while (most < uses.size() && uses[most].last < full) ++most;
    int64_t address = -1;
    for (size_t middle = most; fits < most; middle = (fits + most + 1) / 2) {
      const StepSpan steps = {start, uses[middle - 1].last};
      const int64_t free = FreeAddress({&steps, 1}, value.bytes);
      if (free < 0) {
        most = middle - 1;
      } else {
        fits = middle;
        address = free;
      }
    }
    if (address >= 0) Add({{start, uses[fits - 1].last}, address, value.bytes});
    places.push_back(address < 0  ? FastUse::kElsewhere
                     : is_fetched ? FastUse::kFetched
                                  : FastUse::kStays);
    places.resize(std::max(fits, i + 1), FastUse::kStays);
  }
  return places;
}

void FastMemory::Reserve(StepSpan steps, int64_t bytes) {
  if (bytes > 0) Add({steps, 0, bytes});
}

std::vector<std::vector<FastUse>> PlaceBestFirst(FastMemory& memory,
                                                 std::span<const FastMemoryValue> values) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return values[a].moved_bytes > values[b].moved_bytes;
  });
  std::vector<std::vector<FastUse>> places(values.size());
  for (uint32_t i : order) places[i] = memory.Place(values[i]);
  return places;
}

}  // namespace gshard
