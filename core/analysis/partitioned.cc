// Recognises per-device programs. See partitioned.h.

#include "core/analysis/partitioned.h"

#include "ir/metadata.h"
#include "ir/sharding.h"

namespace gshard {
namespace {

bool InManualRegion(const Instruction* instruction) {
  const Sharding* sharding = instruction->sharding();
  if (sharding == nullptr) return false;
  if (sharding->IsTuple() && !sharding->elements.empty()) sharding = sharding->elements[0];
  return sharding->IsManual() || sharding->HasManualSubgroup();
}

// Says by itself which devices talk to each other.
bool CrossesPartitions(const Instruction* instruction) {
  switch (instruction->opcode()) {
    case Opcode::kSend:
    case Opcode::kRecv: {
      const auto& channel = instruction->attributes<ChannelAttributes>();
      return channel.channel_id > 0 && !channel.is_host_transfer &&
             instruction->sharding() == nullptr;
    }
    default:
      return IsCollective(instruction->opcode()) &&
             instruction->attributes<CollectiveAttributes>().channel_id > 0 &&
             !InManualRegion(instruction);
  }
}

}  // namespace

bool HasPartitionRecord(const Module& module) {
  return !FrontendAttribute(module.header().frontend_attributes, kNumPartitionsAttribute).empty();
}

bool IsPartitioned(const Module& module) {
  if (HasPartitionRecord(module)) return true;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* instruction : computation->instructions()) {
      if (CrossesPartitions(instruction)) return true;
    }
  }
  return false;
}

}  // namespace gshard
