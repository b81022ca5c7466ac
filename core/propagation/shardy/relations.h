// The relations of a graph's operations, each made once.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_RELATIONS_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_RELATIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/op_dims/dim_relation.h"
#include "ir/arena.h"
#include "ir/instruction.h"

namespace gshard::shardy {

// A relation as visits read it. Its *slots*, one for each factor of each dim of each tensor, stand
// in one row: tensors as operands, then results, dims in order, factors major to minor. A
// RelationTable owns what the spans show.
struct IndexedRelation {
  struct Slot {
    int factor = 0;
    int tensor = 0;  // among operands, then results
    int dim = 0;
    bool is_minor_most = true;  // of its dim's factors
  };
  std::span<const Factor> factors;
  std::span<const Slot> slots;
  std::span<const uint32_t> first_slot;  // by tensor, and the end
  size_t operand_count = 0;
  bool relates = true;      // see DimRelation
  bool passes_only = true;  // all factors that propagate are of the kind kPassThrough
  bool is_plain = true;     // a dim has one factor, which no other dim of its tensor has

  // By factor: at most one slot a tensor, the first.
  std::span<const uint32_t> by_factor, first_of_factor;
  std::span<const uint32_t> SlotsOf(size_t factor) const {
    return by_factor.subspan(first_of_factor[factor],
                             first_of_factor[factor + 1] - first_of_factor[factor]);
  }
  std::span<const Slot> SlotsOfTensor(size_t tensor) const {
    return slots.subspan(first_slot[tensor], first_slot[tensor + 1] - first_slot[tensor]);
  }
};

// The relation that was indexed.
DimRelation ToDimRelation(const IndexedRelation& indexed);

// Owns relations: operations with equal opcodes, attributes and dims share one.
class RelationTable {
 public:
  // Of `operands` tensors of this shape and a result like them, dim by dim.
  const IndexedRelation* Identity(const Shape* shape, size_t operands);
  const IndexedRelation* Of(const Instruction& x);

 private:
  const IndexedRelation* Own(const DimRelation& relation);
  // Owns a relation whose factors, slots and tensors are known.
  const IndexedRelation* Finish(IndexedRelation made);

  struct Known {
    const Instruction* instruction;  // null: an identity
    const Shape* shape;
    size_t operands;
    const IndexedRelation* relation;
  };
  Arena arena_;
  std::unordered_multimap<size_t, Known> known_;  // by hash
  // Of the relation that is being indexed, by factor.
  std::vector<int> last_tensor_;
  std::vector<uint32_t> next_;
};

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_RELATIONS_H_
