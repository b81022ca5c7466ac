// Which ranks hold which instances of a value.
#ifndef GSHARD_BACKENDS_CPU_PLAN_RANKS_RANK_HOLDERS_H_
#define GSHARD_BACKENDS_CPU_PLAN_RANKS_RANK_HOLDERS_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "backends/cpu/mesh/rank_cut.h"
#include "backends/cpu/plan/plan.h"

namespace gshard::cpu {

// Which ranks have an instance of a class, by its active devices. Not thread-safe.
class RankHolders {
 public:
  // `active` per device (empty: all) must outlive this.
  RankHolders(const RankCut& cut, std::span<const uint8_t> active) : cut_(cut), active_(active) {}
  const RankCut& cut() const { return cut_; }
  bool IsActive(uint32_t device) const { return active_.empty() || active_[device] != 0; }
  bool Holds(const DeviceClasses* classes, uint32_t c, int rank) {
    return HoldersOf(classes)[c * static_cast<size_t>(cut_.size) + static_cast<size_t>(rank)] != 0;
  }
  // The same of all classes and ranks: [class][rank].
  std::span<const uint8_t> HoldersOf(const DeviceClasses* classes);

 private:
  RankCut cut_;
  std::span<const uint8_t> active_;
  std::map<const DeviceClasses*, std::vector<uint8_t>> holds_;  // [class][rank]
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_RANKS_RANK_HOLDERS_H_
