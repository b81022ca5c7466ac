// Which devices each of several processes ("ranks") runs: contiguous blocks, equal within one.
#ifndef GSHARD_BACKENDS_CPU_MESH_RANK_CUT_H_
#define GSHARD_BACKENDS_CPU_MESH_RANK_CUT_H_

#include <cstdint>

namespace gshard::cpu {

struct RankCut {
  int rank = 0, size = 1;
  uint32_t devices = 1;

  // First device of rank r; Begin(size) is the end. Ranks beyond the devices have none.
  uint32_t Begin(int r) const {
    return static_cast<uint32_t>(uint64_t{devices} * static_cast<uint64_t>(r) /
                                 static_cast<uint64_t>(size));
  }
  int RankOf(uint32_t device) const {
    int low = 0, high = size - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (Begin(middle) <= device) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MESH_RANK_CUT_H_
