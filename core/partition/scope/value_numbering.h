// Instructions that compute what an earlier one has computed, so that nothing is partitioned, moved
// or computed twice (JAX prints one copy per use, inlining one per call).
#ifndef GSHARD_CORE_PARTITION_SCOPE_VALUE_NUMBERING_H_
#define GSHARD_CORE_PARTITION_SCOPE_VALUE_NUMBERING_H_

#include <tsl/robin_map.h>

#include <vector>

#include "core/partition/scope/partitioned_value.h"

namespace gshard {

// Of one computation. Equal are pure operations of the same attributes and sharding whose operands
// are the same partitioned values.
class ValueNumbering {
 public:
  // `value_of`: by instruction id; entries of operands must be there before their users come.
  explicit ValueNumbering(const std::vector<PartitionedValue*>& value_of) : value_of_(value_of) {}

  // The value of an equal instruction that was added before, or null.
  PartitionedValue* Find(const Instruction& instruction);
  // To be called after Find, with the value in place.
  void Add(const Instruction& instruction);

 private:
  bool IsEqual(const Instruction& a, const Instruction& b) const;

  const std::vector<PartitionedValue*>& value_of_;
  // The last instruction of each hash: a clash only misses a duplicate.
  tsl::robin_map<size_t, const Instruction*> seen_;
  size_t hash_ = 0;  // of the instruction that Find was called with
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_VALUE_NUMBERING_H_
