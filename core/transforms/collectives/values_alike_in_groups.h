// Which values the devices of a group have alike, within the body of a loop.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_VALUES_ALIKE_IN_GROUPS_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_VALUES_ALIKE_IN_GROUPS_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/analysis/device_function.h"
#include "core/partition/layout/device_axes.h"
#include "core/transforms/collectives/body_graph.h"
#include "core/transforms/loop_parts.h"

namespace gshard {

// Values of a loop's body that are the same on all devices of each group of a collective.
class ValuesAlikeInGroups {
 public:
  // `parts`, `graph` and `devices` must outlive it. `devices`: null where groups are not by device
  // numbers alone. `outer`: of the loop in whose body this one is; null: none. Read here only.
  ValuesAlikeInGroups(const LoopParts& parts, const BodyGraph& graph, DeviceFunctions* devices,
                      const Instruction* collective, ValuesAlikeInGroups* outer);

  // Is `x` of the body, or of a branch in it, known to be alike? Remembered.
  bool Is(const Instruction* x);

 private:
  void FindElements(ValuesAlikeInGroups* outer);
  bool Find(const Instruction* x);
  bool IsElement(const Instruction* tuple, int64_t i);

  const LoopParts& parts_;
  const BodyGraph& graph_;
  DeviceFunctions* devices_;
  std::optional<AxisList> axes_;  // of the groups
  int depth_ = 0;
  std::vector<bool> elements_;
  std::unordered_map<const Instruction*, bool> known_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_VALUES_ALIKE_IN_GROUPS_H_
