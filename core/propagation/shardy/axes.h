// Lists of mesh axes and parts of axes, as Shardy cuts dims and factors by them: major to minor.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_AXES_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_AXES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/mesh.h"

namespace gshard::shardy {

using AxisList = std::vector<AxisRef>;

// Number of parts that the axes cut into: the product of their sizes.
int64_t SizeOf(std::span<const AxisRef> axes);

// An interned list, handed around by value: lists of one AxisTable are equal if their handles are.
// A program has few different lists and compares and copies them all the time. Valid as long as the
// table.
class Axes {
 public:
  Axes() = default;  // the empty list
  bool empty() const { return data_ == nullptr; }
  std::span<const AxisRef> list() const {
    return empty() ? std::span<const AxisRef>() : std::span<const AxisRef>(data_->list);
  }
  operator std::span<const AxisRef>() const { return list(); }
  // Number of parts that they cut into.
  int64_t shards() const { return empty() ? 1 : data_->shards; }
  bool operator==(const Axes&) const = default;
  const void* id() const { return data_; }  // to hash by

 private:
  friend class AxisTable;
  struct Data {
    AxisList list;
    int64_t shards = 1;
  };
  explicit Axes(const Data* data) : data_(data) {}
  const Data* data_ = nullptr;
};

// Owns interned lists. Not thread-safe.
class AxisTable {
 public:
  Axes Make(std::span<const AxisRef> list);

 private:
  std::unordered_multimap<size_t, std::unique_ptr<const Axes::Data>> lists_;  // by hash
};

// True if two references cannot stand beside each other: they have positions of one axis in common,
// or do not nest, as "a":(1)2 and "a":(3)2 of an axis of 12.
bool Overlap(const AxisRef& a, const AxisRef& b);

// Appends `axis` to `list`; if it continues the last axis of the list, both become one part.
void Append(AxisList& list, const AxisRef& axis);

// True if `list` begins with `prefix`, whose last axis may be a major part of the one there. To
// Shardy "a":(1)2 is one of "a":(1)3, too: what has the shorter part takes the longer one.
bool IsPrefix(std::span<const AxisRef> prefix, std::span<const AxisRef> list);
inline bool IsPrefix(Axes prefix, Axes list) {
  return prefix.empty() || prefix == list || IsPrefix(prefix.list(), list.list());
}

// Returns the longer list if one is a prefix of the other (see IsPrefix), otherwise their longest
// common prefix: [a] and [a, b] give [a, b]; [a, b] and [a, c] give [a]; "d":(1)2 and "d" give "d";
// ["d":(1)2, a] and ["d"] give "d":(1)2.
Axes Joined(AxisTable& table, Axes a, Axes b);

// Returns the longest common prefix; its last axis may be a major part of the one in both lists.
AxisList CommonPrefix(std::span<const AxisRef> a, std::span<const AxisRef> b);
Axes CommonPrefix(AxisTable& table, Axes a, Axes b);

// The major part of `axis` that can stand beside `used`; nothing if there is none.
std::optional<AxisRef> FreeMajorPart(const AxisRef& axis, std::span<const AxisRef> used);

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_AXES_H_
