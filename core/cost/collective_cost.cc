// Ring formulas for bytes, the network for times. See collective_cost.h.

#include "core/cost/collective_cost.h"

#include <algorithm>

#include "core/analysis/meshes.h"
#include "core/analysis/partitioned.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

double OperandBytes(const Instruction& instruction) {
  double bytes = 0;
  for (const Instruction* operand : instruction.operands()) {
    bytes += static_cast<double>(operand->shape()->byte_size());
  }
  return bytes;
}

// "all-gather-start" counts as "all-gather".
std::string KindOf(const Instruction& instruction) {
  std::string kind(OpcodeName(instruction.opcode()));
  constexpr std::string_view kStart = "-start";
  if (kind.ends_with(kStart)) kind.resize(kind.size() - kStart.size());
  return kind;
}

}  // namespace

// "model:(1)8+data": no axes for groups that follow none.
std::vector<std::string> CollectiveCosts::AxesOf(const ReplicaGroups& groups) {
  if (const TileAssignment* tiles = groups.tiles()) {
    const auto [axes, is_new] = axes_of_.try_emplace(*tiles);
    if (is_new) axes->second = AxesOfGroups(*mesh_, *tiles);
    return axes->second;
  }
  std::vector<std::string> axes;
  if (groups.IsAll()) {
    for (const MeshAxis& axis : mesh_->axes) axes.push_back(axis.name);
  }
  return axes;
}

CollectiveCost CollectiveCosts::Of(const Instruction& collective, std::string_view kind) {
  const auto& attributes = collective.attributes<CollectiveAttributes>();
  CollectiveCost cost;
  cost.kind = kind.empty() ? KindOf(collective) : std::string(kind);
  cost.cause = FrontendAttribute(collective.frontend_attributes(), kCauseAttribute);

  double local = OperandBytes(collective);
  if (cost.kind == "collective-permute") {
    std::vector<DevicePair> moving;
    for (const DevicePair& pair : attributes.source_target_pairs) {
      if (pair.source != pair.target) moving.push_back(pair);
    }
    if (mesh_ != nullptr) cost.axes = AxesOfPairs(*mesh_, moving);
    cost.group_size = moving.empty() ? 1 : 2;
    cost.bytes_per_device = moving.empty() ? 0 : local;
  } else {
    const ReplicaGroups all;
    const ReplicaGroups& groups =
        attributes.replica_groups != nullptr ? *attributes.replica_groups : all;
    cost.group_size = std::max<int64_t>(1, groups.GroupSize(devices_));
    if (mesh_ != nullptr && cost.group_size > 1) cost.axes = AxesOf(groups);
    double g = static_cast<double>(cost.group_size);
    double share = (g - 1) / g;
    if (cost.kind == "all-gather") {
      cost.bytes_per_device = local * (g - 1);
    } else if (cost.kind == "all-reduce") {
      cost.bytes_per_device = 2 * local * share;
    } else if (cost.kind == "collective-broadcast") {
      cost.bytes_per_device = g > 1 ? local : 0;
    } else if (cost.kind == "ragged-all-to-all") {
      local = static_cast<double>(collective.operand(0)->shape()->byte_size());
      cost.bytes_per_device = local * share;
    } else {  // reduce-scatter, all-to-all
      cost.bytes_per_device = local * share;
    }
  }
  if (network_ != nullptr && cost.group_size > 1) {
    cost.segments = cost.axes.empty() ? network_->AllSegments() : network_->SegmentsOf(cost.axes);
    CollectiveTime time = network_->TimeOf({cost.kind, local, cost.group_size, cost.segments});
    cost.time_s = time.seconds;
    cost.algorithm = time.algorithm;
  }
  return cost;
}

}  // namespace gshard
