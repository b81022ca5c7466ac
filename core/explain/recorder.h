// Where shardings and collectives come from: one record a change of a sharding, in order, so that
// the causes of any sharding can be followed back to the user's annotations; one record a
// collective. Passes take a recorder that may be null; then nothing is kept and nothing is paid.
#ifndef GSHARD_CORE_EXPLAIN_RECORDER_H_
#define GSHARD_CORE_EXPLAIN_RECORDER_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/instruction.h"
#include "ir/sharding.h"

namespace gshard {

// How a sharding reached an instruction.
enum class ShardingEdge : uint8_t {
  kAnnotation,   // written by the user on the instruction
  kSharding,     // by a Sharding custom-call on its result
  kOperand,      // forward, from an operand
  kUser,         // backward, from a user
  kControlFlow,  // shared with a loop, branch or callee
  kShardGroup,   // shared with a member of its shard group
  kBarrier,      // relayed through a shard barrier
  kBoundary,     // program boundary: restored, or replicated because a dim does not divide
  kNotInferred,  // placeholder {unknown}, counts as replicated
};

struct ShardingChange {
  const Instruction* instruction = nullptr;
  const Instruction* from = nullptr;  // null: the user's annotation or the program boundary
  ShardingEdge edge = ShardingEdge::kAnnotation;
  int8_t level = -1;  // aggressiveness 0..3, or Shardy's tier of operations; -1: outside the driver
  const Sharding* offered = nullptr;  // what the rule derived; merged may differ from it
  const Sharding* before = nullptr;
  const Sharding* after = nullptr;
  // Of Shardy's propagation: "factor j of ([i, k], [k, j])->([i, j])"; else empty.
  std::string rule = {};
};

// Why the partitioner inserted a collective. Instructions are those of the sharded program, which
// stay readable in the module's arena.
struct CollectiveCause {
  const Instruction* user = nullptr;   // who needs the value; null: the value's own sharding
  const Instruction* value = nullptr;  // null: not one value's move
  const Sharding* has = nullptr;       // null: not a change of layout
  const Sharding* wants = nullptr;
  // Tiled before and after, whole on every device on the way.
  bool full_rematerialization = false;
};

class ExplainRecorder {
 public:
  void Record(const ShardingChange& change) {
    by_instruction_[change.instruction].push_back(static_cast<uint32_t>(changes_.size()));
    changes_.push_back(change);
  }
  const std::vector<ShardingChange>& changes() const { return changes_; }
  // Indices into changes(), oldest first.
  const std::vector<uint32_t>& changes_of(const Instruction* x) const {
    static const std::vector<uint32_t> kNone;
    auto it = by_instruction_.find(x);
    return it == by_instruction_.end() ? kNone : it->second;
  }
  void RecordCollective(const Instruction* collective, const CollectiveCause& cause) {
    collectives_[collective] = cause;
  }
  // Changes of layout where the partitioner, as XLA's does, has the whole of a cut value on every
  // device and cuts it again; oldest first. The first one of a value gathers it.
  void RecordRematerialization(const CollectiveCause& cause) {
    rematerializations_.push_back(cause);
  }
  const std::vector<CollectiveCause>& rematerializations() const { return rematerializations_; }
  // Null if the partitioner did not insert it.
  const CollectiveCause* cause_of(const Instruction* collective) const {
    auto it = collectives_.find(collective);
    return it == collectives_.end() ? nullptr : &it->second;
  }

 private:
  std::unordered_map<const Instruction*, CollectiveCause> collectives_;
  std::vector<CollectiveCause> rematerializations_;
  std::vector<ShardingChange> changes_;
  std::unordered_map<const Instruction*, std::vector<uint32_t>> by_instruction_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_EXPLAIN_RECORDER_H_
