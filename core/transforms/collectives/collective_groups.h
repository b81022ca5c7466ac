// What collective passes ask about a collective: is it of the plain kind they know, whom does it
// join, with what does it combine. Groups are lists of mesh sub-axes, so nothing depends on the
// number of devices.
#ifndef GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_GROUPS_H_
#define GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_GROUPS_H_

#include <optional>
#include <vector>

#include "core/analysis/device_function.h"
#include "core/partition/layout/device_axes.h"
#include "ir/builder.h"

namespace gshard {

// One operand, one array result, over partitions, by global device ids where that applies.
bool IsPlainCollective(const Instruction* x, Opcode opcode);

// Do two collectives of one opcode do the same but for their operands (and channels)?
bool SameCommunication(const Instruction* a, const Instruction* b);

// The reduction of an all-reduce or reduce-scatter, if it is a known one.
std::optional<Opcode> ReductionOf(const Instruction* x);

// Axes along which members of a group differ, major first in the order of members; nothing for
// groups without axis form.
std::optional<AxisList> GroupAxes(const Instruction* x, int64_t device_count);
// Groups of the devices that differ along `axes` only, members in the order of the axes.
ReplicaGroups GroupsAlong(AxisSpan axes, int64_t device_count);
// The axes whose mixed-radix number `place` is; nothing if it is no such number.
std::optional<AxisList> AxesOfGroupPosition(const DeviceFunction& place);
// `whole` without `part`, in decreasing order of strides; nothing if part is not within whole.
std::optional<AxisList> WithoutAxes(AxisSpan whole, AxisSpan part, int64_t device_count);

// A dim of which a device keeps tile number (its place along `axes`).
struct OwnTile {
  int64_t dim = 0;
  AxisList axes;
};
// The dims that a dynamic-slice cuts into equal tiles of which every device keeps its own; nothing
// if it does anything else.
std::optional<std::vector<OwnTile>> OwnTiles(const Instruction* slice, DeviceFunctions& devices);
// Does every device keep the tile that it has in the plain all-gather `gather`?
bool IsOwnTileOf(const Instruction* slice, const Instruction* gather, DeviceFunctions& devices);

// The same collective on another operand, which may be of another type: groups, reduction and cause
// kept, fresh channel. Shape inferred.
Instruction* SameCollectiveOn(Builder& builder, const Instruction* original, Instruction* operand);
// A gather or scatter like `original` along another dim, with a result of these dims.
Instruction* SameCollectiveAlong(Builder& builder, const Instruction* original,
                                 Instruction* operand, int64_t dimension,
                                 std::span<const int64_t> dims);
// `made` exists for what `original` existed for.
void KeepCause(Instruction* made, const Instruction* original);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_COLLECTIVES_COLLECTIVE_GROUPS_H_
