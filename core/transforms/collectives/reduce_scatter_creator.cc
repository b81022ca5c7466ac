#include "core/transforms/collectives/reduce_scatter_creator.h"

#include <algorithm>

#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/rewriter.h"

namespace gshard {
namespace {

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
  return IsOwnTileOf(slice, gather, devices) ? gather->operand(0) : slice;
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
