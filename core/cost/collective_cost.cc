// Ring formulas. See collective_cost.h.

#include "core/cost/collective_cost.h"

#include <algorithm>
#include <cstdlib>

#include "core/analysis/meshes.h"
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

// Messages of a ring along each axis in turn: the sum of the sizes less one; one ring over all
// members where the group follows no axes.
double RingSteps(const std::vector<std::string>& axes, const Mesh* mesh, int64_t group_size) {
  if (axes.empty() || mesh == nullptr) return static_cast<double>(group_size - 1);
  double steps = 0;
  for (const std::string& axis : axes) {
    size_t close = axis.rfind(')');  // "model:(2)4" is a sub-axis of size 4
    int64_t size = close != std::string::npos
                       ? std::strtoll(axis.c_str() + close + 1, nullptr, 10)
                       : mesh->axes[static_cast<size_t>(mesh->FindAxis(axis))].size;
    steps += static_cast<double>(size - 1);
  }
  return steps;
}

}  // namespace

CollectiveCost CostOfCollective(const Instruction& instruction, int64_t devices, const Mesh* mesh,
                                const Chip& chip) {
  const auto& attributes = instruction.attributes<CollectiveAttributes>();
  CollectiveCost cost;
  cost.kind = KindOf(instruction);
  cost.cause = FrontendAttribute(instruction.frontend_attributes(), kCauseAttribute);

  double local = OperandBytes(instruction);
  double messages = 0;
  if (cost.kind == "collective-permute") {
    std::vector<DevicePair> moving;
    for (const DevicePair& pair : attributes.source_target_pairs) {
      if (pair.source != pair.target) moving.push_back(pair);
    }
    if (mesh != nullptr) cost.axes = AxesOfPairs(*mesh, moving);
    cost.group_size = moving.empty() ? 1 : 2;
    cost.bytes_per_device = moving.empty() ? 0 : local;
    messages = moving.empty() ? 0 : 1;
  } else {
    const ReplicaGroups all;
    const ReplicaGroups& groups =
        attributes.replica_groups != nullptr ? *attributes.replica_groups : all;
    cost.group_size = std::max<int64_t>(1, groups.GroupSize(devices));
    if (mesh != nullptr && cost.group_size > 1) {
      if (groups.tiles() != nullptr) {
        cost.axes = AxesOfGroups(*mesh, *groups.tiles());
      } else if (groups.IsAll()) {
        for (const MeshAxis& axis : mesh->axes) cost.axes.push_back(axis.name);
      }
    }
    double g = static_cast<double>(cost.group_size);
    double share = (g - 1) / g;
    if (cost.kind == "all-gather") {
      cost.bytes_per_device = local * (g - 1);
    } else if (cost.kind == "all-reduce") {
      cost.bytes_per_device = 2 * local * share;
    } else if (cost.kind == "collective-broadcast") {
      cost.bytes_per_device = g > 1 ? local : 0;
    } else if (cost.kind == "ragged-all-to-all") {
      cost.bytes_per_device =
          static_cast<double>(instruction.operand(0)->shape()->byte_size()) * share;
    } else {  // reduce-scatter, all-to-all
      cost.bytes_per_device = local * share;
    }
    messages = (cost.kind == "all-reduce" ? 2 : 1) * RingSteps(cost.axes, mesh, cost.group_size);
  }
  cost.time_s = cost.bytes_per_device / chip.link_bytes_per_s + messages * chip.link_latency_s;
  return cost;
}

}  // namespace gshard
