// The partitioned counterpart of one source value: its local forms, by layout.
//
// Array values hold a variant per layout they were needed in (the reshard cache); any variant may
// be the start of the next reshard, so A -> B -> A costs nothing. Values that are cheap to make
// (iota, splat constants, broadcasts, widening converts) are made anew instead of being moved.
// Tuples hold their elements. Owned by the partitioner; pointers stay valid during partitioning.
#ifndef GSHARD_CORE_PARTITION_SCOPE_PARTITIONED_VALUE_H_
#define GSHARD_CORE_PARTITION_SCOPE_PARTITIONED_VALUE_H_

#include <memory_resource>
#include <vector>

#include "core/partition/layout/mesh_layout.h"
#include "ir/instruction.h"

namespace gshard {

class PartitionScope;

struct PartitionedValue {
  struct Variant {
    const MeshLayout* layout = nullptr;
    Instruction* local = nullptr;
  };
  // How to make the value in any layout from its payload (or from nothing).
  struct Rematerializer {
    Instruction* (*make)(PartitionScope& scope, const PartitionedValue& value,
                         const MeshLayout* layout);
    // The layout the payload is needed in for the value to be in `layout`, and the layout the value
    // can have if the payload has `layout`. Null functions: no payload.
    const MeshLayout* (*payload_layout)(PartitionScope& scope, const PartitionedValue& value,
                                        const MeshLayout* layout);
    const MeshLayout* (*value_layout)(PartitionScope& scope, const PartitionedValue& value,
                                      const MeshLayout* layout);
  };

  explicit PartitionedValue(std::pmr::memory_resource* memory)
      : variants(memory), row_dims(memory), elements(memory) {}

  const Instruction* source = nullptr;  // null for values that rules make on the way
  const Shape* shape = nullptr;         // of the whole value
  // Layout by the source's sharding; null: the value has the layout it was made in. Arrays only.
  const MeshLayout* layout = nullptr;

  // Layout in which the value will be needed whatever else happens, as an output of its
  // computation. A reshard via this layout is charged only for the part after it, since the first
  // part is needed anyway. May be null.
  const MeshLayout* required_layout = nullptr;

  // Arrays (and tokens: rank 0, replicated).
  std::pmr::vector<Variant> variants;
  const Rematerializer* maker = nullptr;  // null: only the variants are there to start from
  PartitionedValue* payload = nullptr;

  // Of a partial value of which each row (of a gather, or made of one) is one device's, and zero on
  // the others: pred of the rows, true where the device has them. Its dims are `row_dims` of the
  // value, and the sub-axes that rows are spread over are manual ones of it. Values with the same
  // `own_rows` have the same owners. Null: nothing is known.
  PartitionedValue* own_rows = nullptr;
  std::pmr::vector<int64_t> row_dims;
  // The first variant before the rows of other devices were made zero: they hold anything. What
  // treats rows one by one reads this. May be null.
  Instruction* unmasked = nullptr;

  // Tuples.
  std::pmr::vector<PartitionedValue*> elements;
  Instruction* tuple = nullptr;  // the local tuple, where there is one

  bool IsTuple() const { return shape->IsTuple(); }
  Instruction* Find(const MeshLayout* wanted) const {
    for (const Variant& variant : variants) {
      if (variant.layout == wanted) return variant.local;
    }
    return nullptr;
  }
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_PARTITIONED_VALUE_H_
