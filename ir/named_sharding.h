// Between the named (mesh-axis) spelling of a sharding and its tile assignment (docs/sharding.md,
// "Named shardings"). SpelledByMesh, the way back, is declared in ir/sharding_text.h.
#ifndef GSHARD_IR_NAMED_SHARDING_H_
#define GSHARD_IR_NAMED_SHARDING_H_

#include <span>
#include <string>
#include <vector>

#include "ir/sharding.h"

namespace gshard {

// Why `ref` cannot be used beside `used` (parts of the same axis overlap or do not nest); empty if
// it can.
std::string WhyAxisConflicts(const Mesh& mesh, std::span<const AxisRef> used, const AxisRef& ref);

// As XLA wants it: neighbouring parts of an axis merged, parts of size 1 dropped; of a sharding
// also the axis sets in mesh order.
void Canonicalise(const Mesh& mesh, std::vector<AxisRef>& refs);
void Canonicalise(NamedSharding& named);

// Kind, tiles, subgroups, reduction and device; `named` itself is not set. Axes must not conflict.
Sharding ShardingOf(const NamedSharding& named, int64_t device = 0);

// Devices as an array [groups, members]: members vary the axes `refs` (first is major), groups the
// rest in mesh order.
TileAssignment GroupsAlong(const Mesh& mesh, std::span<const AxisRef> refs);

}  // namespace gshard

#endif  // GSHARD_IR_NAMED_SHARDING_H_
