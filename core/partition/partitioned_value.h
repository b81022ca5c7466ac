// The partitioned counterpart of one source value: its local forms, by layout.
//
// Array values hold a variant per layout they were needed in (the reshard cache); any variant may
// be the start of the next reshard, so A -> B -> A costs nothing. Values that cost nothing to make
// (iota, splat constants, broadcast scalars) are made anew instead of being moved. Tuples hold their
// elements. Owned by the partitioner; pointers stay valid during partitioning.
#ifndef GSHARD_CORE_PARTITION_PARTITIONED_VALUE_H_
#define GSHARD_CORE_PARTITION_PARTITIONED_VALUE_H_

#include <vector>

#include "core/partition/layout.h"
#include "ir/instruction.h"

namespace gshard {

class PartitionScope;

struct PartitionedValue {
  struct Variant {
    const Layout* layout = nullptr;
    Instruction* local = nullptr;
  };
  // Makes the value in a layout without communication.
  using Rebuild = Instruction* (*)(PartitionScope& scope, const PartitionedValue& value,
                                   const Layout* layout);

  const Instruction* source = nullptr;  // null for values that rules make on the way
  const Shape* shape = nullptr;         // of the whole value

  // Arrays (and tokens: rank 0, replicated).
  const Layout* layout = nullptr;  // the one the source's sharding asks for, once known
  std::vector<Variant> variants;
  Rebuild rebuild = nullptr;
  Instruction* payload = nullptr;  // of rebuild: the scalar that is broadcast

  // Tuples.
  std::vector<PartitionedValue*> elements;
  Instruction* tuple = nullptr;  // the local tuple, where there is one

  bool IsTuple() const { return shape->IsTuple(); }
  Instruction* Find(const Layout* wanted) const {
    for (const Variant& variant : variants) {
      if (variant.layout == wanted) return variant.local;
    }
    return nullptr;
  }
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PARTITIONED_VALUE_H_
