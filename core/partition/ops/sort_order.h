// The order of a sort as it must be for a sort in pieces: total, so that the result does not depend
// on how the pieces met, and with the padding of tiles at the end.
//
// Elements that the comparator cannot tell apart keep their order, as in a stable sort, whatever
// is_stable says: the program of a mesh sorts as that of one device does, to the last bit. For that
// their positions travel with them, unless one operand is their position (an iota along the sorted
// dim) or equal elements are alike in every bit.
#ifndef GSHARD_CORE_PARTITION_OPS_SORT_ORDER_H_
#define GSHARD_CORE_PARTITION_OPS_SORT_ORDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/partition/scope/partition_scope.h"

namespace gshard {

enum class TieOrder : uint8_t {
  kByPlace,  // pieces are compared in order of their place: stable local sorts are enough
  kTotal,    // pieces meet in any order
};

class SortOrder {
 public:
  // `has_padding`: some tiles along the sorted dim end in padding.
  SortOrder(const Instruction& sort, TieOrder ties, bool has_padding);

  // Bytes that travel with each element besides those of the operands.
  int64_t extra_bytes() const;

  // The operands' tiles `locals` (of arrays of the dims of `base` in `layout`), `tile` elements
  // long, followed by what has to travel with them.
  std::vector<Instruction*> Prepare(PartitionScope& scope, std::span<Instruction* const> locals,
                                    const Shape* base, const MeshLayout* layout,
                                    int64_t tile) const;
  // The comparator of such values: pairs of scalars, as the sort's own takes them.
  Computation* Comparator(PartitionScope& scope) const;

 private:
  enum class Padding : uint8_t {
    kNone,
    kLastValue,  // filled with the value that comes last
    kByIndex,    // indices of the size of the dim and more
    kFlag,       // an operand that says which elements are padding
  };
  // The element's position along the dim, as an operand; its number.
  static constexpr int64_t kNoIndex = -1;

  Instruction* Extra(PartitionScope& scope, const Shape* base, const MeshLayout* layout,
                     int64_t tile) const;

  const Instruction& sort_;
  int64_t dim_;
  int64_t size_;
  int64_t index_ = kNoIndex;
  bool adds_index_ = false;
  Padding padding_ = Padding::kNone;
};

// The values sorted together along `dim` by a comparator of theirs.
std::vector<Instruction*> SortTogether(Builder& builder, std::span<Instruction* const> values,
                                       const SortAttributes& attributes, Computation* comparator);

// The value of a type that comes last: the lowest in total order (the largest one if the smallest
// come first).
Instruction* LastInOrder(PartitionScope& scope, DType dtype, bool largest_first);
// Is there such a value, that nothing sorts behind?
bool HasLastInOrder(DType dtype);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_OPS_SORT_ORDER_H_
