#include "backends/cpu/plan/ranks/rank_holders.h"

namespace gshard::cpu {

std::span<const uint8_t> RankHolders::HoldersOf(const DeviceClasses* classes) {
  std::vector<uint8_t>& holds = holds_[classes];
  const auto size = static_cast<size_t>(cut_.size);
  if (holds.empty()) {
    holds.assign(classes->count() * size, 0);
    for (int r = 0; r < cut_.size; ++r) {
      for (uint32_t d = cut_.Begin(r); d < cut_.Begin(r + 1); ++d) {
        if (IsActive(d)) holds[classes->class_of(d) * size + static_cast<size_t>(r)] = 1;
      }
    }
  }
  return holds;
}

}  // namespace gshard::cpu
