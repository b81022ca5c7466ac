#include "core/partition/demand.h"

#include <algorithm>

#include "ir/sharding.h"

namespace gshard {

namespace {

// Tiles or copies of an array, in no region.
bool IsPlain(const Sharding* sharding) {
  if (sharding == nullptr) return false;
  if (sharding->kind == ShardingKind::kReplicated) return true;
  return sharding->kind == ShardingKind::kTiled &&
         std::all_of(sharding->subgroups.begin(), sharding->subgroups.end(),
                     [](SubgroupType type) { return type == SubgroupType::kReplicated; });
}

int64_t TileCount(const Sharding* sharding) {
  int64_t count = 1;
  for (int64_t d = 0; d < sharding->data_rank(); ++d) count *= sharding->tiles.dim(d);
  return count;
}

}  // namespace

void Demand::Collect(const Computation& computation) {
  const Instruction& root = *computation.root();
  asked_[root.id()].conflict = true;
  if (root.opcode() == Opcode::kTuple) {
    int64_t leaf = 0;
    for (const Instruction* operand : root.operands()) {
      if (operand->shape()->IsArray()) {
        asked_[operand->id()].output_leaf = static_cast<int32_t>(leaf);
      }
      leaf += operand->shape()->leaf_count();
    }
  }
  std::span<Instruction* const> instructions = computation.instructions();
  for (auto at = instructions.rbegin(); at != instructions.rend(); ++at) {
    const Instruction& user = **at;
    bool is_elementwise = IsElementwise(user.opcode()) && user.shape()->IsArray();
    const Sharding* sharding = is_elementwise ? ShardingOf(user) : nullptr;
    for (const Instruction* operand : user.operands()) {
      Asked& asked = asked_[operand->id()];
      if (!is_elementwise || sharding == nullptr || !SameDims(operand->shape(), user.shape()) ||
          (asked.sharding != nullptr && asked.sharding != sharding)) {
        asked.conflict = true;
      }
      asked.sharding = sharding;
    }
  }
}

const Sharding* Demand::ShardingOf(const Instruction& instruction) const {
  const Asked& asked = asked_[instruction.id()];
  const Sharding* own = instruction.sharding();
  if (asked.conflict || asked.sharding == own || asked.sharding == nullptr ||
      !IsElementwise(instruction.opcode()) || !IsPlain(asked.sharding) || !IsPlain(own)) {
    return own;
  }
  return TileCount(asked.sharding) >= TileCount(own) ? asked.sharding : own;
}

}  // namespace gshard
