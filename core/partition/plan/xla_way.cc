// See xla_way.h.

#include "core/partition/plan/xla_way.h"

#include <algorithm>
#include <utility>

namespace gshard {
namespace {

using Way = std::optional<std::vector<CutLists>>;
constexpr int kMaxDepth = 5;

class Finder {
 public:
  Finder(std::span<const int64_t> sizes, std::span<const int64_t> dims)
      : sizes_(sizes), dims_(dims) {}

  // `free`: sub-axes that no dim of `from` has and that may cut one, `copies` of the target's
  // tiles.
  Way Find(const CutLists& from, const CutLists& to, const std::vector<int>& free, bool may_split,
           int depth) const {
    if (Counts(from) == Counts(to)) return std::vector<CutLists>();
    if (IsWhole(from) || IsWhole(to)) return std::vector<CutLists>{to};
    const int64_t copies = Count(free);
    const int64_t copies_wanted = copies * TileCount(from) / TileCount(to);
    if (copies == copies_wanted && ArePermuted(from, to)) return Exchanges(from, to);
    if (copies > 1 && IsFiner(to, from)) return Known(Grown(from, to, free));
    if (copies_wanted > 1 && IsFiner(from, to)) {
      if (Extends(from, to)) return std::vector<CutLists>{to};
      Way way = Known(Grown(to, from, FreeOf(to, from, free)));
      if (way) way->push_back(to);
      return way;
    }
    if (depth == kMaxDepth) return std::nullopt;
    if (may_split && copies == copies_wanted) {
      if (Way way = FindSplit(from, to, free, depth)) return way;
    }
    if (Way way = FindByOneDim(from, to, free, copies_wanted, depth)) return way;
    return FindWithin(from, to, free, depth);
  }

 private:
  int64_t Count(const std::vector<int>& list) const {
    int64_t count = 1;
    for (int sub_axis : list) count *= sizes_[static_cast<size_t>(sub_axis)];
    return count;
  }
  std::vector<int64_t> Counts(const CutLists& lists) const {
    std::vector<int64_t> counts;
    for (const std::vector<int>& list : lists) counts.push_back(Count(list));
    return counts;
  }
  int64_t TileCount(const CutLists& lists) const {
    int64_t count = 1;
    for (const std::vector<int>& list : lists) count *= Count(list);
    return count;
  }
  static bool IsWhole(const CutLists& lists) {
    return std::ranges::all_of(lists, [](const auto& list) { return list.empty(); });
  }
  bool IsFiner(const CutLists& fine, const CutLists& coarse) const {
    return std::ranges::equal(
        fine, coarse, [&](const auto& f, const auto& c) { return Count(f) % Count(c) == 0; });
  }
  static bool Extends(const CutLists& fine, const CutLists& coarse) {
    return std::ranges::equal(fine, coarse, [](const auto& f, const auto& c) {
      return f.size() >= c.size() && std::equal(c.begin(), c.end(), f.begin());
    });
  }
  // The same numbers of tiles, in another order of dims?
  bool ArePermuted(const CutLists& from, const CutLists& to) const {
    std::vector<int64_t> before = Counts(from), after = Counts(to);
    std::ranges::sort(before);
    std::ranges::sort(after);
    return before == after;
  }
  static Way Known(std::optional<CutLists> lists) {
    if (!lists) return std::nullopt;
    return std::vector<CutLists>{*std::move(lists)};
  }

  // Sub-axes that `other` or `free` has, and `lists` does not.
  static std::vector<int> FreeOf(const CutLists& lists, const CutLists& other,
                                 const std::vector<int>& free) {
    std::vector<int> found = free;
    for (const std::vector<int>& list : other) found.insert(found.end(), list.begin(), list.end());
    std::erase_if(found, [&](int sub_axis) {
      return std::ranges::any_of(
          lists, [&](const auto& list) { return std::ranges::find(list, sub_axis) != list.end(); });
    });
    std::ranges::sort(found);
    return found;
  }

  // `lists` cut further, as often as `counts`: by its sub-axes where they are free, else by others.
  std::optional<CutLists> Grown(CutLists lists, const CutLists& counts,
                                std::vector<int> free) const {
    for (size_t d = 0; d < lists.size(); ++d) {
      const std::vector<int>& wanted = counts[d];
      while (lists[d].size() < wanted.size() && Count(lists[d]) < Count(wanted) &&
             std::equal(lists[d].begin(), lists[d].end(), wanted.begin())) {
        const auto at = std::ranges::find(free, wanted[lists[d].size()]);
        if (at == free.end()) break;
        lists[d].push_back(*at);
        free.erase(at);
      }
    }
    for (size_t d = 0; d < lists.size(); ++d) {
      if (!Fill(lists[d], Count(counts[d]), free)) return std::nullopt;
    }
    return lists;
  }

  // Appends sub-axes of `free`, which lose them, until there are `count` tiles.
  bool Fill(std::vector<int>& list, int64_t count, std::vector<int>& free) const {
    while (Count(list) != count) {
      const int64_t missing = count / Count(list);
      const auto at = std::ranges::find_if(
          free, [&](int sub_axis) { return missing % sizes_[static_cast<size_t>(sub_axis)] == 0; });
      if (count % Count(list) != 0 || at == free.end()) return false;
      list.push_back(*at);
      free.erase(at);
    }
    return true;
  }

  // All-to-alls: all that cuts a dim goes to one that nothing cuts, as long as there is such a
  // pair; then the dims with too many tiles give the rest to those with too few.
  Way Exchanges(CutLists lists, const CutLists& to) const {
    std::vector<CutLists> way;
    while (MoveOne(lists, to)) way.push_back(lists);
    if (Counts(lists) == Counts(to)) return way;
    std::vector<int> free;
    for (size_t d = 0; d < lists.size(); ++d) {
      std::vector<int> kept;
      int64_t missing = Count(to[d]);
      for (int sub_axis : lists[d]) {
        const int64_t size = sizes_[static_cast<size_t>(sub_axis)];
        const bool is_kept = missing % size == 0;
        if (is_kept) missing /= size;
        (is_kept ? kept : free).push_back(sub_axis);
      }
      lists[d] = std::move(kept);
    }
    for (size_t d = 0; d < lists.size(); ++d) {
      if (!Fill(lists[d], Count(to[d]), free)) return std::nullopt;
    }
    way.push_back(std::move(lists));
    return way;
  }

  bool MoveOne(CutLists& lists, const CutLists& to) const {
    for (bool is_exact : {true, false}) {
      for (size_t j = 0; j < to.size(); ++j) {
        if (!lists[j].empty() || to[j].empty()) continue;
        for (size_t i = 0; i < to.size(); ++i) {
          const int64_t count = Count(lists[i]);
          const bool fits = count > 1 && count == Count(to[j]) && count != Count(to[i]);
          if (!fits || (is_exact && lists[i] != to[j])) continue;
          std::swap(lists[i], lists[j]);
          return true;
        }
      }
    }
    return false;
  }

  // The first sub-axes of the list, of so many tiles; nothing: it has no such beginning.
  std::optional<size_t> LengthOf(const std::vector<int>& list, int64_t count) const {
    int64_t so_far = 1;
    for (size_t k = 0; k <= list.size(); ++k) {
      if (so_far == count) return k;
      if (k < list.size()) so_far *= sizes_[static_cast<size_t>(list[k])];
    }
    return std::nullopt;
  }

  static CutLists SplitAt(CutLists lists, size_t dim, size_t length) {
    std::vector<int>& list = lists[dim];
    const auto middle = list.begin() + static_cast<std::ptrdiff_t>(length);
    std::vector<int> minor(middle, list.end());
    list.erase(middle, list.end());
    lists.insert(lists.begin() + static_cast<std::ptrdiff_t>(dim) + 1, std::move(minor));
    return lists;
  }

  // Elements of a dim in so many tiles, with the padding of the last ones.
  int64_t PaddedSize(size_t dim, int64_t tiles) const {
    return (dims_[dim] + tiles - 1) / tiles * tiles;
  }

  // A dim of X*Y tiles at one end has X at the other, which has the Y elsewhere: it is two dims for
  // a while, if it has as many elements, padded, at both ends. Only of lists of all dims.
  Way FindSplit(const CutLists& from, const CutLists& to, const std::vector<int>& free,
                int depth) const {
    for (size_t i = 0; i < from.size(); ++i) {
      const int64_t before = Count(from[i]), after = Count(to[i]);
      if (before == after || PaddedSize(i, before) != PaddedSize(i, after)) continue;
      const int64_t few = std::min(before, after);
      const auto here = LengthOf(from[i], few), there = LengthOf(to[i], few);
      if (!here || !there) continue;
      Way way = Find(SplitAt(from, i, *here), SplitAt(to, i, *there), free, /*may_split=*/false,
                     depth + 1);
      if (!way) continue;
      for (CutLists& lists : *way) {
        lists[i].insert(lists[i].end(), lists[i + 1].begin(), lists[i + 1].end());
        lists.erase(lists.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
      return way;
    }
    return std::nullopt;
  }

  // One dim is gathered, after which there are as many copies as are wanted; or all copies cut one.
  Way FindByOneDim(const CutLists& from, const CutLists& to, const std::vector<int>& free,
                   int64_t copies_wanted, int depth) const {
    const int64_t copies = Count(free);
    for (size_t i = 0; i < from.size(); ++i) {
      CutLists next = from;
      std::vector<int> next_free = free;
      const bool is_gathered =
          copies_wanted > 1 && !from[i].empty() && Count(from[i]) * copies == copies_wanted;
      const bool is_cut =
          copies > 1 && copies_wanted == 1 && from[i].empty() && Count(to[i]) % copies == 0;
      if (is_gathered) {
        next_free.insert(next_free.end(), from[i].begin(), from[i].end());
        std::ranges::sort(next_free);
        next[i].clear();
      } else if (is_cut) {
        next[i] = std::exchange(next_free, {});
      } else {
        continue;
      }
      Way way = Find(next, to, next_free, /*may_split=*/true, depth + 1);
      if (!way) continue;
      way->insert(way->begin(), std::move(next));
      return way;
    }
    return std::nullopt;
  }

  // Dims of as many tiles at both ends stay as they are.
  Way FindWithin(const CutLists& from, const CutLists& to, const std::vector<int>& free,
                 int depth) const {
    CutLists rest = from, rest_to = to;
    for (size_t d = 0; d < from.size(); ++d) {
      if (from[d].empty() || Count(from[d]) != Count(to[d])) continue;
      rest[d].clear();
      rest_to[d].clear();
    }
    if (rest == from || IsWhole(rest) || IsWhole(rest_to)) return std::nullopt;
    Way way = Find(rest, rest_to, free, /*may_split=*/true, depth + 1);
    if (!way) return std::nullopt;
    for (CutLists& lists : *way) {
      for (size_t d = 0; d < from.size(); ++d) {
        if (rest[d] != from[d]) lists[d] = from[d];
      }
    }
    // Where the rest took a sub-axis that a dim keeps, that is no layout.
    const bool is_sound = std::ranges::all_of(*way, [&](const CutLists& lists) {
      std::vector<int> all;
      for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
      std::ranges::sort(all);
      return std::ranges::adjacent_find(all) == all.end();
    });
    return is_sound ? way : std::nullopt;
  }

  std::span<const int64_t> sizes_, dims_;
};

}  // namespace

std::optional<std::vector<CutLists>> XlaWay(const CutLists& from, const CutLists& to,
                                            std::span<const int64_t> sizes,
                                            const std::vector<int>& free,
                                            std::span<const int64_t> dims) {
  return Finder(sizes, dims).Find(from, to, free, /*may_split=*/true, 0);
}

}  // namespace gshard
