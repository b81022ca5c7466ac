// What users ask of the values of a computation, found before it is partitioned.
//
// A sharding says where a value was annotated or inferred to be; what counts is where it is used.
// A value that only elementwise operations and the root use, all in another sharding, is produced
// for that one; outputs of a computation will be needed in their final layouts whatever else
// happens.
#ifndef GSHARD_CORE_PARTITION_PLAN_DEMAND_H_
#define GSHARD_CORE_PARTITION_PLAN_DEMAND_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ir/computation.h"

namespace gshard {

// Of all computations of a run, by instruction id.
class Demand {
 public:
  explicit Demand(uint32_t instruction_limit) : asked_(instruction_limit) {}

  // Reads the users of all values of `computation`. Linear. Forgets what was read for another
  // partitioning of it. `outputs`: where the elements of a root tuple will be needed, one per
  // operand of the root, or the array that the root is; null: nothing is known.
  void Collect(const Computation& computation, std::span<const Sharding* const> outputs);
  // The sharding that a value should be produced in: its own, or the one that all users ask for if
  // that has more tiles: what is done once need not be done by several devices.
  const Sharding* ShardingOf(const Instruction& instruction) const {
    const Asked& asked = asked_[instruction.id()];
    const Sharding* own = instruction.sharding();
    return asked.conflict || asked.sharding == own ? own : Better(instruction, asked.sharding);
  }
  // Which leaf of a root tuple an array is; negative: none.
  int64_t OutputLeaf(const Instruction& instruction) const {
    return asked_[instruction.id()].output_leaf;
  }
  // Is it an output, and nothing else?
  bool IsOnlyOutput(const Instruction& instruction) const {
    const Asked& asked = asked_[instruction.id()];
    return asked.output_leaf >= 0 && !asked.has_other_users;
  }

 private:
  struct Asked {
    const Sharding* sharding = nullptr;
    int32_t output_leaf = -1;
    bool conflict = false;
    bool has_other_users = false;  // than the root, once
  };

  // The instruction's own sharding, or `asked`.
  static const Sharding* Better(const Instruction& instruction, const Sharding* asked);
  // Null: in some way that is not known.
  static void Ask(Asked& asked, const Sharding* sharding);
  void AskForOutputs(const Instruction& root, std::span<const Sharding* const> outputs);

  std::vector<Asked> asked_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PLAN_DEMAND_H_
