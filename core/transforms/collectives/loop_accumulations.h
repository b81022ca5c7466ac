// Elements of a loop's state to which each turn adds what devices have summed.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_LOOP_ACCUMULATIONS_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_LOOP_ACCUMULATIONS_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/analysis/device_function.h"
#include "core/transforms/loop_parts.h"
#include "ir/traversal.h"

namespace gshard {

// A collective that leaves the loop: in its place each device takes `part`.
struct LoopSum {
  Instruction* collective = nullptr;
  Instruction* repeated = nullptr;  // whose communication is done behind the loop instead
  Instruction* part() const {
    // Of a shared all-reduce the whole of what is summed.
    Instruction* operand = repeated->operand(0);
    return collective == repeated ? operand : operand->operand(0);
  }
};

// What a turn adds to an element of the state, or how it makes the next one of it.
struct Accumulation {
  int64_t element = 0;        // of the state
  std::vector<LoopSum> sums;  // all alike but for what they sum
  // Without the sums the element stays as it is, so that what it is on entry can be added at the
  // end; else it must be 0 on entry.
  bool keeps_places = true;
  // Of a collective whose result has another shape than its operand: the values of the loop's body
  // that become parts, with the dims that they get; and where the parts lie in what is carried.
  std::unordered_map<const Instruction*, std::vector<int64_t>> reshaped;
  int64_t dimension = -1;
  std::vector<int64_t> part_dims;  // of what is carried
  // Values of the body, and of loops in it, that were sums over devices and become parts of them.
  std::vector<Instruction*> parts;
  bool changes_shape() const { return dimension >= 0; }
};

// All of a loop, each in time linear in the size of the body. `devices`: null where groups are not
// by device numbers alone. `may_branch`: all devices come to the loop, so that groups which part in
// its branches meet again.
std::vector<Accumulation> FindAccumulations(const LoopParts& parts, const CallSites& sites,
                                            DeviceFunctions* devices, bool may_branch);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_LOOP_ACCUMULATIONS_H_
