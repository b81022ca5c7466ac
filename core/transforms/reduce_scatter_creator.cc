#include "core/transforms/reduce_scatter_creator.h"

#include <algorithm>

#include "core/transforms/collective_groups.h"
#include "core/transforms/rewriter.h"

namespace gshard {
namespace {

// A dim of which a device keeps tile number (its place along `axes`).
struct OwnTile {
  int64_t dim = 0;
  AxisList axes;
};

// The dims that a dynamic-slice cuts into equal tiles of which every device keeps its own; nothing
// if it does anything else.
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

Instruction* OfAllReduce(Instruction* slice, Rewriter& rewriter, DeviceFunctions& devices) {
  Instruction* reduce = slice->operand(0);
  if (!rewriter.IsOnlyUse(reduce) || !ReductionOf(reduce)) return slice;
  std::optional<AxisList> rest = GroupAxes(reduce, devices.device_count());
  std::optional<std::vector<OwnTile>> tiles = OwnTiles(slice, devices);
  if (!rest || !tiles || tiles->empty()) return slice;
  for (const OwnTile& tile : *tiles) {
    rest = WithoutAxes(*rest, tile.axes, devices.device_count());
    if (!rest) return slice;
  }
  Builder& builder = rewriter.builder();
  Instruction* value = reduce->operand(0);
  for (const OwnTile& tile : *tiles) {
    value = builder.ReduceScatter(value, tile.dim, GroupsAlong(tile.axes, devices.device_count()),
                                  AxesSize(tile.axes), reduce->called(0));
    KeepCause(value, reduce);
  }
  if (!rest->empty()) {
    value = builder.AllReduce(value, GroupsAlong(*rest, devices.device_count()), reduce->called(0));
    KeepCause(value, reduce);
  }
  return value;
}

Instruction* OfAllGather(Instruction* slice, DeviceFunctions& devices) {
  Instruction* gather = slice->operand(0);
  std::optional<std::vector<OwnTile>> tiles = OwnTiles(slice, devices);
  std::optional<AxisList> axes = GroupAxes(gather, devices.device_count());
  if (!tiles || !axes || tiles->size() != 1) return slice;
  const OwnTile& tile = tiles->front();
  bool is_own = tile.dim == gather->attributes<CollectiveAttributes>().dimension &&
                MergedAxes(tile.axes) == MergedAxes(*axes);
  return is_own ? gather->operand(0) : slice;
}

}  // namespace

bool CreateReduceScatters(Module& module) {
  if (module.header().replica_count > 1) return false;
  DeviceFunctions devices(module.DeviceCount());
  return RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) {
    if (x->opcode() != Opcode::kDynamicSlice) return x;
    if (IsPlainCollective(x->operand(0), Opcode::kAllReduce)) {
      return OfAllReduce(x, rewriter, devices);
    }
    if (IsPlainCollective(x->operand(0), Opcode::kAllGather)) return OfAllGather(x, devices);
    return x;
  });
}

}  // namespace gshard
