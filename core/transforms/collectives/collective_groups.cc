#include "core/transforms/collectives/collective_groups.h"

#include <algorithm>

#include "core/analysis/combiner.h"
#include "ir/attribute_equality.h"

namespace gshard {

bool IsPlainCollective(const Instruction* x, Opcode opcode) {
  if (x->opcode() != opcode || x->operand_count() != 1 || !x->shape()->IsArray()) return false;
  if (!x->control_predecessors().empty()) return false;
  const auto& attributes = x->attributes<CollectiveAttributes>();
  if (attributes.channel_id == 0) return false;
  switch (opcode) {
    case Opcode::kAllReduce:
    case Opcode::kAllGather:
    case Opcode::kReduceScatter:
      return attributes.use_global_device_ids && attributes.replica_groups != nullptr;
    case Opcode::kAllToAll:
      return attributes.dimension >= 0 && attributes.replica_groups != nullptr;
    default:  // the other kinds have no more
      return true;
  }
}

std::optional<Opcode> ReductionOf(const Instruction* x) {
  if (x->called().size() != 1) return std::nullopt;
  return CombinerOf(x->called(0));
}

bool SameCommunication(const Instruction* a, const Instruction* b) {
  if (!SameAttributes(*a, *b)) return false;
  if (a->called().empty()) return true;
  std::optional<Opcode> reduction = ReductionOf(a);
  return reduction && reduction == ReductionOf(b) &&
         a->operand(0)->shape()->dtype() == b->operand(0)->shape()->dtype();
}

std::optional<AxisList> GroupAxes(const Instruction* x, int64_t device_count) {
  const ReplicaGroups& groups = *x->attributes<CollectiveAttributes>().replica_groups;
  std::optional<DeviceFunction> place = PlaceInGroup(groups, device_count);
  if (!place) return std::nullopt;
  return AxesOfGroupPosition(*place);
}

ReplicaGroups GroupsAlong(AxisSpan axes, int64_t device_count) {
  AxisList all = ComplementAxes(axes, device_count);
  int64_t members = AxesSize(axes);
  all.insert(all.end(), axes.begin(), axes.end());
  const int64_t dims[] = {device_count / members, members};
  return ReplicaGroups::FromTiles(TileAssignment::FromAxes(dims, std::move(all)));
}

std::optional<AxisList> AxesOfGroupPosition(const DeviceFunction& place) {
  if (place.bias != 0) return std::nullopt;
  std::vector<DeviceSubAxis> sub_axes = place.sub_axes;
  std::sort(sub_axes.begin(), sub_axes.end(), [](const DeviceSubAxis& a, const DeviceSubAxis& b) {
    return a.coefficient < b.coefficient;
  });
  AxisList axes;
  int64_t weight = 1;
  for (const DeviceSubAxis& sub_axis : sub_axes) {
    if (sub_axis.coefficient != weight) return std::nullopt;
    weight *= sub_axis.size;
    axes.push_back({sub_axis.size, sub_axis.stride});
  }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

std::optional<AxisList> WithoutAxes(AxisSpan whole, AxisSpan part, int64_t device_count) {
  AxisList all(whole.begin(), whole.end());
  all.insert(all.end(), part.begin(), part.end());
  std::optional<AxisList> sub_axes = CommonSubAxes(all, device_count);
  if (!sub_axes) return std::nullopt;
  std::vector<int8_t> in(sub_axes->size(), 0);
  for (const DeviceAxis& axis : whole) {
    for (int sub_axis : SubAxesOf(*sub_axes, axis)) ++in[static_cast<size_t>(sub_axis)];
  }
  for (const DeviceAxis& axis : part) {
    for (int sub_axis : SubAxesOf(*sub_axes, axis)) --in[static_cast<size_t>(sub_axis)];
  }
  AxisList rest;
  for (size_t i = 0; i < sub_axes->size(); ++i) {
    if (in[i] < 0) return std::nullopt;
    if (in[i] > 0) rest.push_back((*sub_axes)[i]);
  }
  return MergedAxes(rest);
}

std::optional<std::vector<OwnTile>> OwnTiles(const Instruction* slice, DeviceFunctions& devices) {
  std::vector<OwnTile> tiles;
  const Shape* from = slice->operand(0)->shape();
  for (int64_t d = 0; d < from->rank(); ++d) {
    const int64_t tile = slice->shape()->dim(d);
    if (tile == from->dim(d)) continue;
    std::optional<DeviceFunction> start = devices.Of(slice->operand(d + 1));
    if (!start || tile == 0 || from->dim(d) % tile != 0) return std::nullopt;
    std::optional<DeviceFunction> place = Quotient(*start, tile);
    if (!place || Scaled(*place, tile) != *start) return std::nullopt;
    std::optional<AxisList> axes = AxesOfGroupPosition(*place);
    if (!axes || AxesSize(*axes) * tile != from->dim(d)) return std::nullopt;
    tiles.push_back({d, std::move(*axes)});
  }
  return tiles;
}

bool IsOwnTileOf(const Instruction* slice, const Instruction* gather, DeviceFunctions& devices) {
  std::optional<std::vector<OwnTile>> tiles = OwnTiles(slice, devices);
  std::optional<AxisList> axes = GroupAxes(gather, devices.device_count());
  if (!tiles || !axes || tiles->size() != 1) return false;
  const OwnTile& tile = tiles->front();
  return tile.dim == gather->attributes<CollectiveAttributes>().dimension &&
         MergedAxes(tile.axes) == MergedAxes(*axes);
}

namespace {

Instruction* Repeated(Builder& builder, const Instruction* original, Instruction* operand,
                      CollectiveAttributes attributes, const Shape* shape) {
  attributes.channel_id = builder.module().NextChannelId();
  std::vector<Computation*> called(original->called().begin(), original->called().end());
  const DType type = operand->shape()->dtype();
  if (!called.empty() && type != original->operand(0)->shape()->dtype()) {
    called = {builder.BinaryComputation(*ReductionOf(original), type)};
  }
  Instruction* const operands[] = {operand};
  Instruction* made = builder.Add(original->opcode(), operands, attributes, shape, called);
  KeepCause(made, original);
  return made;
}

}  // namespace

Instruction* SameCollectiveOn(Builder& builder, const Instruction* original, Instruction* operand) {
  const CollectiveAttributes attributes = original->attributes<CollectiveAttributes>();
  const Shape* shape = operand->shape()->bare();
  const int64_t dim = attributes.dimension;
  if (original->opcode() == Opcode::kAllGather || original->opcode() == Opcode::kReduceScatter) {
    const int64_t before = original->operand(0)->shape()->dim(dim);
    const int64_t after = original->shape()->dim(dim);
    std::vector<int64_t> dims(operand->shape()->dims().begin(), operand->shape()->dims().end());
    int64_t& size = dims[static_cast<size_t>(dim)];
    size = after > before ? size * (after / before) : size / (before / std::max<int64_t>(1, after));
    shape = builder.context().Array(operand->shape()->dtype(), dims);
  }
  return Repeated(builder, original, operand, attributes, shape);
}

Instruction* SameCollectiveAlong(Builder& builder, const Instruction* original,
                                 Instruction* operand, int64_t dimension,
                                 std::span<const int64_t> dims) {
  CollectiveAttributes attributes = original->attributes<CollectiveAttributes>();
  attributes.dimension = dimension;
  return Repeated(builder, original, operand, attributes,
                  builder.context().Array(operand->shape()->dtype(), dims));
}

void KeepCause(Instruction* made, const Instruction* original) {
  made->set_frontend_attributes(original->frontend_attributes());
}

}  // namespace gshard
