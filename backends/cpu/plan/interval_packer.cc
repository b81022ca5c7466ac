// Two classic heuristics for dynamic storage allocation with known lifetimes.
#include "backends/cpu/plan/interval_packer.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

#include "backends/cpu/memory/memory.h"

namespace gshard::cpu {
namespace {

// Largest-first compares every pair of buffers; beyond this it is left out.
constexpr size_t kLargestFirstLimit = 4000;

}  // namespace

uint32_t IntervalPacker::Add(int64_t bytes, uint32_t begin, uint32_t end) {
  buffers_.push_back({static_cast<int64_t>(AlignUp(static_cast<size_t>(bytes))), begin, end, 0});
  return static_cast<uint32_t>(buffers_.size() - 1);
}

int64_t IntervalPacker::LowerBound() const {
  std::map<uint32_t, int64_t> change;
  for (const Buffer& buffer : buffers_) {
    change[buffer.begin] += buffer.bytes;
    change[buffer.end + 1] -= buffer.bytes;
  }
  int64_t alive = 0, peak = 0;
  for (const auto& [time, bytes] : change) {
    alive += bytes;
    peak = std::max(peak, alive);
  }
  return peak;
}

int64_t IntervalPacker::Pack() {
  std::vector<int64_t> offsets;
  int64_t peak = PackInTimeOrder(offsets);
  if (buffers_.size() <= kLargestFirstLimit && peak > LowerBound()) {
    std::vector<int64_t> other;
    const int64_t other_peak = PackLargestFirst(other);
    if (other_peak < peak) {
      peak = other_peak;
      offsets = std::move(other);
    }
  }
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].offset = offsets[i];
  return peak;
}

int64_t IntervalPacker::PackInTimeOrder(std::vector<int64_t>& offsets) const {
  offsets.assign(buffers_.size(), 0);
  std::vector<uint32_t> order(buffers_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return buffers_[a].begin < buffers_[b].begin; });
  using Ending = std::pair<uint32_t, uint32_t>;  // end, buffer
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> alive;
  std::map<int64_t, int64_t> holes;               // offset -> bytes
  std::set<std::pair<int64_t, int64_t>> by_size;  // bytes, offset
  int64_t top = 0;
  auto add_hole = [&](int64_t offset, int64_t bytes) {
    auto next = holes.lower_bound(offset);
    if (next != holes.end() && next->first == offset + bytes) {
      bytes += next->second;
      by_size.erase({next->second, next->first});
      next = holes.erase(next);
    }
    if (next != holes.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        by_size.erase({previous->second, previous->first});
        holes.erase(previous);
      }
    }
    holes[offset] = bytes;
    by_size.insert({bytes, offset});
  };
  for (uint32_t i : order) {
    const Buffer& buffer = buffers_[i];
    while (!alive.empty() && alive.top().first < buffer.begin) {
      const uint32_t ended = alive.top().second;
      alive.pop();
      if (buffers_[ended].bytes > 0) add_hole(offsets[ended], buffers_[ended].bytes);
    }
    if (buffer.bytes == 0) continue;
    auto fit = by_size.lower_bound({buffer.bytes, -1});
    if (fit != by_size.end()) {
      const auto [bytes, offset] = *fit;
      by_size.erase(fit);
      holes.erase(offset);
      offsets[i] = offset;
      if (bytes > buffer.bytes) add_hole(offset + buffer.bytes, bytes - buffer.bytes);
    } else if (!holes.empty() &&
               std::prev(holes.end())->first + std::prev(holes.end())->second == top) {
      auto last = std::prev(holes.end());
      const int64_t offset = last->first;
      by_size.erase({last->second, offset});
      holes.erase(last);
      offsets[i] = offset;
      top = offset + buffer.bytes;
    } else {
      offsets[i] = top;
      top += buffer.bytes;
    }
    alive.push({buffer.end, i});
  }
  return top;
}

int64_t IntervalPacker::PackLargestFirst(std::vector<int64_t>& offsets) const {
  offsets.assign(buffers_.size(), 0);
  std::vector<uint32_t> order(buffers_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return buffers_[a].bytes > buffers_[b].bytes; });
  std::vector<uint32_t> placed;  // sorted by offset
  int64_t top = 0;
  for (uint32_t i : order) {
    const Buffer& buffer = buffers_[i];
    int64_t candidate = 0, best = -1, best_gap = INT64_MAX;
    for (uint32_t j : placed) {
      const Buffer& other = buffers_[j];
      if (other.end < buffer.begin || buffer.end < other.begin) continue;
      const int64_t gap = offsets[j] - candidate;
      if (gap >= buffer.bytes && gap < best_gap) {
        best = candidate;
        best_gap = gap;
      }
      candidate = std::max(candidate, offsets[j] + other.bytes);
    }
    offsets[i] = best >= 0 ? best : candidate;
    top = std::max(top, offsets[i] + buffer.bytes);
    auto at = std::upper_bound(placed.begin(), placed.end(), offsets[i],
                               [&](int64_t offset, uint32_t j) { return offset < offsets[j]; });
    placed.insert(at, i);
  }
  return top;
}

}  // namespace gshard::cpu
