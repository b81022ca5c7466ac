// Recognises per-device programs. See partitioned.h.

#include "core/analysis/partitioned.h"

#include "ir/custom_call.h"
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

// The border of a manual region, of which partitioning leaves none.
bool IsBorder(const Instruction& instruction) {
  return IsRegionMarker(instruction) || IsCustomCallTo(instruction, "xla.sdy.GlobalToLocalShape") ||
         IsCustomCallTo(instruction, "xla.sdy.LocalToGlobalShape");
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
  bool crosses = false;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* instruction : computation->instructions()) {
      if (IsBorder(*instruction)) return false;
      crosses = crosses || CrossesPartitions(instruction);
    }
  }
  return crosses;
}

}  // namespace gshard
