// Which dims of a program count examples, found from those of its parameters that do.
//
// Examples are followed through every operation by the relation of its dims (core/op_dims), forward
// and backward, through loops, branches, calls and tuples: so labels are found from tokens, and the
// sizes of broadcasts, iotas and random numbers from what they are combined with.
#ifndef GSHARD_CORE_RESIZE_EXAMPLE_DIMS_H_
#define GSHARD_CORE_RESIZE_EXAMPLE_DIMS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard {

// What part of a dim counts examples: it has major x count x minor elements, the middle one of
// these is the examples. Of 64 examples with 128 tokens each as 8192 rows: {64, 128}.
struct Examples {
  int64_t count = 0;  // 0: the dim counts none
  int64_t minor = 1;
  bool operator==(const Examples&) const = default;
};

// A snapshot: invalid after the module changes.
class ExampleDims {
 public:
  // `dimension`: entry parameter -> its dim that counts examples. Errors, at the instruction:
  // E-BATCH-001 (one example, with which nothing can be told apart), E-BATCH-002 (it takes a part
  // of the examples, cuts them into groups, or its dims are not known to follow its operands').
  static Expected<ExampleDims> Find(const Module& module,
                                    const std::map<int64_t, int64_t>& dimension);

  // Of a leaf of x's shape, tuples flattened.
  Examples Of(const Instruction& x, int64_t leaf, int64_t dim) const {
    const std::vector<uint32_t>& first = first_[x.id()];
    return examples_[first[static_cast<size_t>(leaf)] + static_cast<uint32_t>(dim)];
  }

 private:
  friend class ExampleSearch;
  std::vector<std::vector<uint32_t>> first_;  // by instruction id and leaf: its first dim
  std::vector<Examples> examples_;            // by dim
};

}  // namespace gshard

#endif  // GSHARD_CORE_RESIZE_EXAMPLE_DIMS_H_
