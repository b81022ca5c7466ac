#include "core/propagation/shardy/axes.h"

#include <algorithm>
#include <numeric>

#include "ir/hash.h"

namespace gshard::shardy {
namespace {

// Is `a` a major part of `b`, or `b` itself?
bool IsMajorPart(const AxisRef& a, const AxisRef& b) {
  return a.axis == b.axis && a.pre_size == b.pre_size && b.size % a.size == 0;
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
  return a.axis == b.axis && a.pre_size < b.pre_size * b.size && b.pre_size < a.pre_size * a.size;
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
      const int64_t size = std::gcd(a[i].size, b[i].size);
      if (size > 1) common.push_back({a[i].axis, a[i].pre_size, size});
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
  if (end % axis.pre_size != 0 || end == axis.pre_size) return std::nullopt;
  return AxisRef{axis.axis, axis.pre_size, end / axis.pre_size};
}

AxisList Rest(std::span<const AxisRef> list, std::span<const AxisRef> prefix) {
  if (prefix.empty()) return {list.begin(), list.end()};
  AxisList rest;
  const size_t last = prefix.size() - 1;
  const AxisRef& whole = list[last];
  if (prefix[last].size < whole.size) {
    rest.push_back(
        {whole.axis, whole.pre_size * prefix[last].size, whole.size / prefix[last].size});
  }
  rest.insert(rest.end(), list.begin() + static_cast<int64_t>(last) + 1, list.end());
  return rest;
}

}  // namespace gshard::shardy
