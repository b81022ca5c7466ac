// Attribute text of the collectives family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kChannel =
    Attribute("channel_id", kInt, offsetof(CollectiveAttributes, channel_id)).OmittedIf(0);
constexpr AttributeRow kGroups =
    Attribute("replica_groups", kReplicaGroups, offsetof(CollectiveAttributes, replica_groups))
        .AlwaysPrinted();
constexpr AttributeRow kConstrainLayout =
    Attribute("constrain_layout", kBool, offsetof(CollectiveAttributes, constrain_layout))
        .Optional();
constexpr AttributeRow kUseGlobalDeviceIds =
    Attribute("use_global_device_ids", kBool, offsetof(CollectiveAttributes, use_global_device_ids))
        .Optional();
constexpr AttributeRow kDimension =
    Attribute("dimensions", kDim, offsetof(CollectiveAttributes, dimension));

constexpr AttributeRow kAllReduceRows[] = {
    kChannel,
    kGroups,
    kConstrainLayout,
    kUseGlobalDeviceIds,
    Attribute("mode", kIgnored).Optional(),
    Calls("to_apply"),
};
constexpr AttributeRow kAllGatherRows[] = {
    kChannel, kGroups, kConstrainLayout, kDimension, kUseGlobalDeviceIds,
};
constexpr AttributeRow kReduceScatterRows[] = {
    kChannel, kGroups, kConstrainLayout, kUseGlobalDeviceIds, kDimension, Calls("to_apply"),
};
constexpr AttributeRow kAllToAllRows[] = {
    kChannel,
    kGroups,
    kConstrainLayout,
    kDimension.OmittedIf(-1),
};
constexpr AttributeRow kRaggedAllToAllRows[] = {
    kChannel,
    kGroups,
    kConstrainLayout,
    Attribute("dimensions", kIgnored).Optional(),
};
constexpr AttributeRow kCollectivePermuteRows[] = {
    kChannel,
    Attribute("source_target_pairs", kDevicePairs,
              offsetof(CollectiveAttributes, source_target_pairs)),
    Attribute("slice_sizes", kRaw, offsetof(CollectiveAttributes, slice_sizes)).Optional(),
};
constexpr AttributeRow kCollectiveBroadcastRows[] = {
    kChannel,
    kGroups,
    Attribute("has_dynamic_root", kRaw, offsetof(CollectiveAttributes, has_dynamic_root))
        .Optional(),
};
constexpr AttributeRow kChannelRows[] = {
    Attribute("channel_id", kInt, offsetof(ChannelAttributes, channel_id)).OmittedIf(0),
    Attribute("is_host_transfer", kBool, offsetof(ChannelAttributes, is_host_transfer)).Optional(),
};
constexpr AttributeRow kInfeedRows[] = {
    Attribute("infeed_config", kRaw, offsetof(InfeedAttributes, config)).Optional(),
};
constexpr AttributeRow kOutfeedRows[] = {
    Attribute("outfeed_shape", kShape, offsetof(OutfeedAttributes, shape)).Optional(),
    Attribute("outfeed_config", kRaw, offsetof(OutfeedAttributes, config)).Optional(),
};

}  // namespace

std::span<const OpcodeAttributes> CollectivesRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kAllReduce, kAllReduceRows},
      {Opcode::kAllReduceStart, kAllReduceRows},
      {Opcode::kAllGather, kAllGatherRows},
      {Opcode::kAllGatherStart, kAllGatherRows},
      {Opcode::kReduceScatter, kReduceScatterRows},
      {Opcode::kAllToAll, kAllToAllRows},
      {Opcode::kRaggedAllToAll, kRaggedAllToAllRows},
      {Opcode::kCollectivePermute, kCollectivePermuteRows},
      {Opcode::kCollectivePermuteStart, kCollectivePermuteRows},
      {Opcode::kCollectiveBroadcast, kCollectiveBroadcastRows},
      {Opcode::kSend, kChannelRows},
      {Opcode::kSendDone, kChannelRows},
      {Opcode::kRecv, kChannelRows},
      {Opcode::kRecvDone, kChannelRows},
      {Opcode::kInfeed, kInfeedRows},
      {Opcode::kOutfeed, kOutfeedRows},
  };
  return kTable;
}

}  // namespace gshard
