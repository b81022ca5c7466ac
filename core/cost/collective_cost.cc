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

// "model:(1)8+data": no axes for groups that follow none.
std::vector<std::string> AxesOf(const ReplicaGroups& groups, const Mesh& mesh) {
  std::vector<std::string> axes;
  if (groups.tiles() != nullptr) return AxesOfGroups(mesh, *groups.tiles());
  if (groups.IsAll()) {
    for (const MeshAxis& axis : mesh.axes) axes.push_back(axis.name);
  }
  return axes;
}

}  // namespace

CollectiveCost CostOfCollective(const Instruction& instruction, int64_t devices, const Mesh* mesh,
                                const Network* network) {
  const auto& attributes = instruction.attributes<CollectiveAttributes>();
  CollectiveCost cost;
  cost.kind = KindOf(instruction);
  cost.cause = FrontendAttribute(instruction.frontend_attributes(), kCauseAttribute);

  double local = OperandBytes(instruction);
  if (cost.kind == "collective-permute") {
    std::vector<DevicePair> moving;
    for (const DevicePair& pair : attributes.source_target_pairs) {
      if (pair.source != pair.target) moving.push_back(pair);
    }
    if (mesh != nullptr) cost.axes = AxesOfPairs(*mesh, moving);
    cost.group_size = moving.empty() ? 1 : 2;
    cost.bytes_per_device = moving.empty() ? 0 : local;
  } else {
    const ReplicaGroups all;
    const ReplicaGroups& groups =
        attributes.replica_groups != nullptr ? *attributes.replica_groups : all;
    cost.group_size = std::max<int64_t>(1, groups.GroupSize(devices));
    if (mesh != nullptr && cost.group_size > 1) cost.axes = AxesOf(groups, *mesh);
    double g = static_cast<double>(cost.group_size);
    double share = (g - 1) / g;
    if (cost.kind == "all-gather") {
      cost.bytes_per_device = local * (g - 1);
    } else if (cost.kind == "all-reduce") {
      cost.bytes_per_device = 2 * local * share;
    } else if (cost.kind == "collective-broadcast") {
      cost.bytes_per_device = g > 1 ? local : 0;
    } else if (cost.kind == "ragged-all-to-all") {
      local = static_cast<double>(instruction.operand(0)->shape()->byte_size());
      cost.bytes_per_device = local * share;
    } else {  // reduce-scatter, all-to-all
      cost.bytes_per_device = local * share;
    }
  }
  if (network != nullptr && cost.group_size > 1) {
    cost.segments = cost.axes.empty() ? network->AllSegments() : network->SegmentsOf(cost.axes);
    CollectiveTime time = network->TimeOf({cost.kind, local, cost.group_size, cost.segments});
    cost.time_s = time.seconds;
    cost.algorithm = time.algorithm;
  }
  return cost;
}

}  // namespace gshard
