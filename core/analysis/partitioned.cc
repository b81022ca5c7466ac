// Recognises per-device programs. See partitioned.h.

#include "core/analysis/partitioned.h"

#include "ir/attribute_names.h"
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
    default:  // collectives, by their ids
      return IsCollective(instruction->opcode()) &&
             instruction->attributes<CollectiveAttributes>().channel_id > 0 &&
             !InManualRegion(instruction);
  }
}

struct Traits {
  bool has_border = false, crosses_partitions = false, asks_for_device = false;
};
Traits TraitsOf(const Module& module) {
  Traits traits;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (IsBorder(*x)) return {.has_border = true};
      traits.crosses_partitions |= CrossesPartitions(x);
      traits.asks_for_device |= x->opcode() == Opcode::kPartitionId && x->sharding() == nullptr;
    }
  }
  return traits;
}

bool ReadsAsCompiled(const Module& module, const Traits& traits) {
  const bool named = module.header().num_partitions > 1;
  if (traits.has_border || (!named && module.DeviceCount() <= 1)) return false;
  return module.header().is_scheduled || module.entry()->name().ends_with("_spmd");
}

}  // namespace

bool IsPipelined(const Module& module) {
  return !FrontendAttribute(module.header().frontend_attributes, kPipelineAttribute).empty();
}

bool HasPartitionRecord(const Module& module) {
  return !FrontendAttribute(module.header().frontend_attributes, kNumPartitionsAttribute).empty();
}

bool IsCompiledByXla(const Module& module) { return ReadsAsCompiled(module, TraitsOf(module)); }

bool IsPartitioned(const Module& module) {
  if (HasPartitionRecord(module)) return true;
  const Traits traits = TraitsOf(module);
  const bool asks = traits.asks_for_device && !traits.has_border;
  return traits.crosses_partitions || (asks && module.header().num_partitions > 1) ||
         ReadsAsCompiled(module, traits);
}

}  // namespace gshard
