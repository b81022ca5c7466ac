#include "core/propagation/shardy/axes.h"

#include <algorithm>

#include "ir/hash.h"

namespace gshard::shardy {
namespace {

// Is `a` a major part of `b`, or `b` itself?
bool IsMajorPart(const AxisRef& a, const AxisRef& b) {
  return a.axis == b.axis && a.pre_size == b.pre_size && a.size <= b.size;
}

}  // namespace

int64_t SizeOf(std::span<const AxisRef> axes) {
  int64_t size = 1;
  for (const AxisRef& axis : axes) size *= axis.size;
  return size;
}

Axes AxisTable::Make(std::span<const AxisRef> list) {
  if (list.empty()) return {};
  size_t hash = list.size();
  for (const AxisRef& axis : list) {
    hash = HashCombine(hash, static_cast<uint64_t>(axis.axis));
    hash = HashCombine(hash, static_cast<uint64_t>(axis.pre_size));
    hash = HashCombine(hash, static_cast<uint64_t>(axis.size));
  }
  const auto [first, last] = lists_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    if (std::ranges::equal(it->second->list, list)) return Axes(it->second.get());
  }
  auto made = std::make_unique<Axes::Data>(Axes::Data{{list.begin(), list.end()}, SizeOf(list)});
  return Axes(lists_.emplace(hash, std::move(made))->second.get());
}

bool Overlap(const AxisRef& a, const AxisRef& b) {
  if (a.axis != b.axis) return false;
  const AxisRef& major = a.pre_size <= b.pre_size ? a : b;
  const AxisRef& minor = a.pre_size <= b.pre_size ? b : a;
  const int64_t end = major.pre_size * major.size;
  return minor.pre_size < end || minor.pre_size % end != 0;
}

void Append(AxisList& list, const AxisRef& axis) {
  if (!list.empty()) {
    AxisRef& last = list.back();
    if (last.axis == axis.axis && last.pre_size * last.size == axis.pre_size) {
      last.size *= axis.size;
      return;
    }
  }
  list.push_back(axis);
}

bool IsPrefix(std::span<const AxisRef> prefix, std::span<const AxisRef> list) {
  if (prefix.size() > list.size()) return false;
  for (size_t i = 0; i < prefix.size(); ++i) {
    if (prefix[i] == list[i]) continue;
    return i + 1 == prefix.size() && IsMajorPart(prefix[i], list[i]);
  }
  return true;
}

Axes CommonPrefix(AxisTable& table, Axes a, Axes b) {
  if (IsPrefix(a, b)) return a;
  if (IsPrefix(b, a)) return b;
  return table.Make(CommonPrefix(a.list(), b.list()));
}

AxisList CommonPrefix(std::span<const AxisRef> a, std::span<const AxisRef> b) {
  AxisList common;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i]) {
      common.push_back(a[i]);
      continue;
    }
    if (a[i].axis == b[i].axis && a[i].pre_size == b[i].pre_size) {
      common.push_back({a[i].axis, a[i].pre_size, std::min(a[i].size, b[i].size)});
    }
    break;
  }
  return common;
}

Axes Joined(AxisTable& table, Axes a, Axes b) {
  if (IsPrefix(a, b)) return b;
  if (IsPrefix(b, a)) return a;
  return table.Make(CommonPrefix(a, b));
}

std::optional<AxisRef> FreeMajorPart(const AxisRef& axis, std::span<const AxisRef> used) {
  // The first position of the axis that is taken, as a product of sizes from its major end.
  int64_t end = axis.pre_size * axis.size;
  for (const AxisRef& other : used) {
    if (!Overlap(axis, other)) continue;
    if (other.pre_size <= axis.pre_size) return std::nullopt;
    end = std::min(end, other.pre_size);
  }
  if (end % axis.pre_size != 0) return std::nullopt;
  const AxisRef part{axis.axis, axis.pre_size, end / axis.pre_size};
  const auto overlaps = [&](const AxisRef& other) { return Overlap(part, other); };
  if (axis.size % part.size != 0 || std::ranges::any_of(used, overlaps)) return std::nullopt;
  return part;
}

}  // namespace gshard::shardy
