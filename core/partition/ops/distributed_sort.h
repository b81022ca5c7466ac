// Sorting along a cut dim without gathering it.
//
// Two ways, both oblivious: what is exchanged does not depend on the values. With S elements a tile
// and P tiles, received per device:
// - columns, where S >= 2 (P - 1)^2: Leighton, "Tight bounds on the complexity of parallel sorting"
//   (1985). Four local sorts, two all-to-alls of the tile and one exchange of (P - 1)^2 elements
//   with either neighbour: less than 2 S + 2 (P - 1)^2 elements, and as many instructions for any
//   P. After three sorts every element is within (P - 1)^2 places of its own: the edges of
//   neighbours are merged, where Leighton shifts by half a column.
// - network: tiles are compared and exchanged in pairs by Batcher's merge exchange (Knuth, The Art
//   of Computer Programming 3, 5.2.2, algorithm M): t (t + 1) / 2 rounds of S elements, t = ceil(
//   log2 P). A network that sorts elements sorts sorted tiles if every comparison keeps the lower
//   half on one side (5.3.4, exercise 38).
#ifndef GSHARD_CORE_PARTITION_OPS_DISTRIBUTED_SORT_H_
#define GSHARD_CORE_PARTITION_OPS_DISTRIBUTED_SORT_H_

#include <cstdint>

#include "core/partition/scope/op_rule.h"

namespace gshard {

struct DistributedSortPlan {
  enum class Kind : uint8_t { kColumns, kNetwork };
  Kind kind = Kind::kNetwork;
  int64_t size = 0;      // of the dim
  int64_t tiles = 0;     // it is cut into
  int64_t tile = 0;      // elements of a tile while sorting: whole columns divide by `tiles`
  int64_t elements = 0;  // received per device and row
  int64_t messages = 0;  // collectives per operand

  bool has_padding() const { return size % tiles != 0 || tile != size / tiles; }
};

// The way that receives least. tiles > 1, size > 0.
DistributedSortPlan PlanDistributedSort(int64_t size, int64_t tiles);

// The source, a sort along a dim that `layout` cuts, with operands and results in that layout.
PartitionedValue* DistributedSort(PartitionContext& rule, const DistributedSortPlan& plan,
                                  const MeshLayout* layout);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_OPS_DISTRIBUTED_SORT_H_
