// Collectives that the user wrote: legal across replicas, and across partitions in manual regions.
// Host transfers: every device sends or receives its own tile.
#include <algorithm>

#include "core/partition/ops/rules.h"
#include "ir/dims.h"
#include "ir/host_transfers.h"
#include "ir/sharding_algebra.h"

namespace gshard::partition_rules {

namespace {

// Do the groups join only devices that differ along manual sub-axes?
bool StaysManual(PartitionContext& rule, const CollectiveAttributes& collective) {
  const MeshLayout* region = rule.wanted();
  int64_t count = rule.layouts().device_count();
  AxisList automatic = ComplementAxes(region->manual, count);
  auto position = [&](int64_t device) {
    device %= count;
    return region->order == nullptr ? device
                                    : region->order->positions[static_cast<size_t>(device)];
  };
  auto same = [&](int64_t a, int64_t b) {
    return CoordinateOnAxes(automatic, position(a)) == CoordinateOnAxes(automatic, position(b));
  };
  for (const DevicePair& pair : collective.source_target_pairs) {
    if (!same(pair.source, pair.target)) return false;
  }
  if (collective.replica_groups == nullptr) return true;
  for (const std::vector<int64_t>& group : collective.replica_groups->ToLists(count)) {
    for (int64_t member : group) {
      if (!same(group[0], member)) return false;
    }
  }
  return true;
}

}  // namespace

RuleResult Collective(PartitionContext& rule) {
  const Instruction& source = rule.source();
  if (!HasFlag(source.opcode(), kCollective)) return rule.Default();  // the -done halves
  const auto& collective = rule.attributes<CollectiveAttributes>();
  bool across_partitions = collective.channel_id != 0;
  const MeshLayout* region = rule.wanted();
  if (across_partitions && region->manual.empty()) {
    return rule.Error("E-PARTITION-005",
                      "a cross-partition collective outside a manual region has no meaning before "
                      "partitioning",
                      kPartitionedAlready);
  }
  if (across_partitions && !StaysManual(rule, collective)) {
    return rule.Error("E-PARTITION-006",
                      "the groups join devices that differ along axes that are not manual here");
  }
  const Shape* shape = source.shape();
  bool arrays = shape->IsArray() && source.operand_count() == 1 &&
                rule.operand_shape(0)->IsArray() && rule.operand_shape(0)->rank() == shape->rank();
  if (!arrays) return rule.Default();
  // Pointwise apart from the dim that is gathered, scattered or exchanged.
  Labels labels = Labels::Pointwise(1, shape->rank());
  if (collective.dimension >= 0) {
    auto d = static_cast<size_t>(collective.dimension);
    labels.operands[0][d] = labels.results[0][d] = Labels::kWhole;
  }
  return rule.ByLabels(labels);
}

namespace {

// The sharding of an outfeed is that of its data, of all leaves or a tuple of theirs. Data on one
// device, or in a manual region, go as they are.
RuleResult Outfeed(PartitionContext& rule) {
  const Instruction& source = rule.source();
  const Sharding* own =
      source.sharding() != nullptr ? source.sharding() : rule.context().Replicated();
  std::vector<const Sharding*> shardings = OutfeedShardings(source);
  std::vector<const MeshLayout*> layouts = PartitionScope::LeafLayouts(*rule.operand(0));
  const std::vector<const Shape*> shapes = LeafShapes(rule.operand_shape(0));
  for (size_t k = 0; k < shapes.size(); ++k) {
    const Sharding* sharding = shardings[k] != nullptr ? shardings[k] : rule.context().Replicated();
    const bool tells =
        (sharding->IsReplicated() || sharding->IsTiled()) && !sharding->HasManualSubgroup();
    if (!tells || !shapes[k]->IsArray()) continue;
    layouts[k] = rule.layouts().FromSharding(sharding, shapes[k]->rank());
  }
  ReshardCause cause{.user = &source, .value = source.operand(0)};
  Instruction* locals[] = {rule.scope().Materialize(rule.operand(0), layouts, cause),
                           rule.operand(1)->variants[0].local};
  auto attributes = rule.attributes<OutfeedAttributes>();
  if (attributes.shape != nullptr) attributes.shape = locals[0]->shape();
  Instruction* local =
      rule.builder().Add(Opcode::kOutfeed, locals, attributes, rule.source().shape());
  local->set_sharding(own);
  local->set_frontend_attributes(source.frontend_attributes());
  rule.TakeName(local);
  return rule.Result(local, rule.wanted());
}

bool HasManualOperand(PartitionContext& rule) {
  for (int64_t i = 0; i < rule.source().operand_count(); ++i) {
    for (const MeshLayout* layout : PartitionScope::LeafLayouts(*rule.operand(i))) {
      if (layout->IsManual() || !layout->manual.empty()) return true;
    }
  }
  return false;
}

// What nobody says anything of is the same on every device.
const Sharding* ReplicatedLeaves(Context& context, const Shape* shape) {
  if (!shape->IsTuple()) return context.Replicated();
  return context.TupleOf(
      std::vector<const Sharding*>(static_cast<size_t>(shape->leaf_count()), context.Replicated()));
}

}  // namespace

RuleResult HostTransfer(PartitionContext& rule) {
  const Instruction& source = rule.source();
  if (source.sharding() == nullptr && source.opcode() != Opcode::kRecvDone &&
      HasManualOperand(rule)) {
    return rule.Error(
        "E-PARTITION-001",
        "a host transfer in a manual region needs a sharding: {manual} if every device "
        "has its own");
  }
  if (source.opcode() == Opcode::kOutfeed) return Outfeed(rule);
  std::vector<Instruction*> locals;
  for (int64_t i = 0; i < source.operand_count(); ++i) {
    PartitionedValue* operand = rule.operand(i);
    ReshardCause cause{.user = &source, .value = source.operand(i)};
    std::vector<const MeshLayout*> layouts = PartitionScope::LeafLayouts(*operand);
    if (source.opcode() == Opcode::kSend && source.sharding() == nullptr && i == 0) {
      layouts.assign(rule.wanted_leaves().begin(),
                     rule.wanted_leaves().begin() + static_cast<std::ptrdiff_t>(layouts.size()));
    }
    locals.push_back(rule.scope().Materialize(operand, layouts, cause));
  }
  std::vector<const MeshLayout*> leaves(rule.wanted_leaves().begin(), rule.wanted_leaves().end());
  const Sharding* sharding = source.sharding();
  if (source.opcode() == Opcode::kRecvDone) {
    // What has arrived is laid out as its recv says, whatever this one says: (data, u32, token) to
    // (data, token).
    const std::vector<const MeshLayout*> arriving = PartitionScope::LeafLayouts(*rule.operand(0));
    leaves = {arriving.front(), arriving.back()};
    sharding = locals[0]->sharding();
    if (sharding != nullptr && sharding->IsTuple()) {
      sharding = rule.context().TupleOf({sharding->elements.front(), sharding->elements.back()});
    }
  }
  const Shape* shape = LocalShapeByLeaf(rule.context(), source.shape(), leaves);
  Instruction* local = rule.EmitLocal(locals, shape);
  local->set_sharding(sharding != nullptr ? sharding : ReplicatedLeaves(rule.context(), shape));
  return rule.scope().NewFromLocal(source.shape(), leaves, local);
}

void ReplicateHostTransfers(Context& context, const Computation& computation) {
  for (Instruction* x : computation.instructions()) {
    if (IsHostTransfer(*x) && x->sharding() == nullptr) {
      x->set_sharding(ReplicatedLeaves(context, x->shape()));
    }
    for (const Computation* called : x->called()) ReplicateHostTransfers(context, *called);
  }
}

}  // namespace gshard::partition_rules
