// Placement in fast memory. See fast_memory.h.

#include "core/cost/memory/fast_memory.h"

#include <algorithm>
#include <numeric>

namespace gshard {
namespace {

// Of more pieces no list by address is kept: each new one would take too long to put in.
constexpr size_t kMaxOrdered = 4096;
// A piece of the list is passed in this part of the time that one takes to find in the tree and
// to sort.
constexpr size_t kPassesPerSorted = 16;

}  // namespace

FastMemory::FastMemory(size_t steps, int64_t capacity) : capacity_(capacity) {
  while (size_ < steps) size_ *= 2;
  most_.assign(2 * size_, 0);
  added_.assign(2 * size_, 0);
  below_.assign(2 * size_, 0);
  covering_.assign(2 * size_, kNone);
}

void FastMemory::Add(const Piece& piece) {
  const auto number = static_cast<uint32_t>(pieces_.size());
  pieces_.push_back(piece);
  if (number < kMaxOrdered) {
    by_address_.insert(std::ranges::upper_bound(by_address_, piece.address, {}, &Piece::address),
                       piece);
  }
  AddTo(1, {0, static_cast<uint32_t>(size_ - 1)}, piece, number);
  end_address_ = std::max(end_address_, piece.address + piece.bytes);
}

void FastMemory::AddTo(size_t node, StepSpan of_node, const Piece& piece, uint32_t number) {
  const StepSpan steps = piece.steps;
  if (steps.first > of_node.last || steps.last < of_node.first) return;
  if (steps.first <= of_node.first && of_node.last <= steps.last) {
    most_[node] += piece.bytes;
    added_[node] += piece.bytes;
    covers_.push_back({number, covering_[node]});
    covering_[node] = static_cast<uint32_t>(covers_.size() - 1);
    return;
  }
  ++below_[node];
  const uint32_t middle = of_node.first + (of_node.last - of_node.first) / 2;
  AddTo(2 * node, {of_node.first, middle}, piece, number);
  AddTo(2 * node + 1, {middle + 1, of_node.last}, piece, number);
  most_[node] = std::max(most_[2 * node], most_[2 * node + 1]) + added_[node];
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
  return FirstAbove(capacity_ - bytes, 1, {0, static_cast<uint32_t>(size_ - 1)}, steps);
}

bool FastMemory::Collect(size_t node, StepSpan of_node, StepSpan steps, size_t most) const {
  if (most_[node] == 0 || steps.first > of_node.last || steps.last < of_node.first) return true;
  for (uint32_t at = covering_[node]; at != kNone; at = covers_[at].next) {
    if (beside_.size() == most) return false;
    const Piece& piece = pieces_[covers_[at].piece];
    beside_.emplace_back(piece.address, piece.address + piece.bytes);
  }
  if (below_[node] == 0) return true;
  const uint32_t middle = of_node.first + (of_node.last - of_node.first) / 2;
  return Collect(2 * node, {of_node.first, middle}, steps, most) &&
         Collect(2 * node + 1, {middle + 1, of_node.last}, steps, most);
}

int64_t FastMemory::FreeAddress(std::span<const StepSpan> steps, int64_t bytes) const {
  const StepSpan all = {0, static_cast<uint32_t>(size_ - 1)};
  const bool is_ordered = by_address_.size() == pieces_.size();
  const size_t few = is_ordered ? pieces_.size() / kPassesPerSorted : SIZE_MAX;
  beside_.clear();
  const bool are_few =
      std::ranges::all_of(steps, [&](const StepSpan& span) { return Collect(1, all, span, few); });
  int64_t address = 0;
  // Takes pieces in the order of their addresses; true once there is room below one.
  const auto has_room = [&](int64_t begin, int64_t end) {
    if (begin - address >= bytes) return true;
    address = std::max(address, end);
    return false;
  };
  if (are_few) {
    std::sort(beside_.begin(), beside_.end());
    for (const auto& [begin, end] : beside_) {
      if (has_room(begin, end)) break;
    }
  } else {
    for (const Piece& piece : by_address_) {
      const bool is_beside = std::ranges::any_of(steps, [&](const StepSpan& span) {
        return piece.steps.first <= span.last && span.first <= piece.steps.last;
      });
      if (is_beside && has_room(piece.address, piece.address + piece.bytes)) break;
    }
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
