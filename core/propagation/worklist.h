// A set of positions 0..n-1 with fast search for the next or previous member: three levels of bits,
// so a sweep costs what is in the set, not n.
#ifndef GSHARD_CORE_PROPAGATION_WORKLIST_H_
#define GSHARD_CORE_PROPAGATION_WORKLIST_H_

#include <bit>
#include <cstdint>
#include <vector>

namespace gshard {

class Worklist {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit Worklist(uint32_t size = 0) { Resize(size); }
  void Resize(uint32_t size) {
    for (std::vector<uint64_t>& level : levels_) {
      size = (size + 63) / 64;
      level.assign(size + 1, 0);
    }
  }
  void Add(uint32_t i) {
    for (std::vector<uint64_t>& level : levels_) {
      level[i / 64] |= uint64_t{1} << (i % 64);
      i /= 64;
    }
  }
  void Remove(uint32_t i) {
    for (std::vector<uint64_t>& level : levels_) {
      level[i / 64] &= ~(uint64_t{1} << (i % 64));
      if (level[i / 64] != 0) return;
      i /= 64;
    }
  }
  bool empty() const {
    for (uint64_t word : levels_[2]) {
      if (word != 0) return false;
    }
    return true;
  }
  // Smallest member >= i, or kNone.
  uint32_t Next(uint32_t i) const {
    for (int l = 0; l < 3; ++l) {
      const std::vector<uint64_t>& level = levels_[l];
      uint32_t w = i / 64;
      if (w >= level.size()) return kNone;
      if (uint64_t word = level[w] & (~uint64_t{0} << (i % 64))) {
        return Descend(l, w * 64 + static_cast<uint32_t>(std::countr_zero(word)));
      }
      i = w + 1;
      if (l == 2) {
        for (; i < level.size(); ++i) {
          if (level[i] != 0) {
            return Descend(l, i * 64 + static_cast<uint32_t>(std::countr_zero(level[i])));
          }
        }
      }
    }
    return kNone;
  }
  // Largest member <= i, or kNone.
  uint32_t Previous(uint32_t i) const {
    for (int l = 0; l < 3; ++l) {
      const std::vector<uint64_t>& level = levels_[l];
      uint32_t w = i / 64;
      if (uint64_t word = level[w] & (~uint64_t{0} >> (63 - i % 64))) {
        return DescendLast(l, w * 64 + 63 - static_cast<uint32_t>(std::countl_zero(word)));
      }
      if (w == 0) return kNone;
      i = w - 1;
      if (l == 2) {
        for (;; --i) {
          if (level[i] != 0) {
            return DescendLast(l, i * 64 + 63 - static_cast<uint32_t>(std::countl_zero(level[i])));
          }
          if (i == 0) return kNone;
        }
      }
    }
    return kNone;
  }

 private:
  uint32_t Descend(int level, uint32_t i) const {
    for (int l = level - 1; l >= 0; --l) {
      i = i * 64 + static_cast<uint32_t>(std::countr_zero(levels_[l][i]));
    }
    return i;
  }
  uint32_t DescendLast(int level, uint32_t i) const {
    for (int l = level - 1; l >= 0; --l) {
      i = i * 64 + 63 - static_cast<uint32_t>(std::countl_zero(levels_[l][i]));
    }
    return i;
  }

  std::vector<uint64_t> levels_[3];
};

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_WORKLIST_H_
