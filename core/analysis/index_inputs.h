// Integers that a program is given and what they index: token ids, positions, labels, lengths,
// branch numbers. Random values for them have to lie in all of what they index, or a wrong program
// computes the same.
#ifndef GSHARD_CORE_ANALYSIS_INDEX_INPUTS_H_
#define GSHARD_CORE_ANALYSIS_INDEX_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"

namespace gshard {

// Values with a meaning: low..high.
struct IndexRange {
  int64_t low = 0, high = 0;
  // Values outside of it have a meaning, too: a start is clamped, an update is dropped, a row stays
  // empty.
  bool has_beyond = false;
  // Elements of what is indexed, which tiles cut; more than the range has where slices are longer
  // than 1. 0: of several things.
  int64_t extent = 0;

  bool operator==(const IndexRange&) const = default;
};

// What the entry's parameter leaf number `leaf` (in pre-order, over all parameters) is used for.
struct IndexInput {
  int64_t leaf = 0;
  // Where different components of index vectors lie along this dim of the leaf, a range each; else
  // -1, and there is one range.
  int64_t component_dim = -1;
  std::vector<IndexRange> ranges;
  bool is_distinct = false;  // of a scatter that promises unique indices
  bool is_sorted = false;    // of a gather or scatter that promises sorted indices
  // A scalar that ends a loop: it stays small, whatever else it is used for.
  bool ends_loop = false;
  std::vector<std::string> readers;  // names of the instructions that it indexes, in program order
};

// By ascending leaf; leaves that nothing is indexed with are left out. Integer leaves are followed
// from the parameter forward through moves, arithmetic with what has known bounds
// (integer_bounds.h), calls, loops and branches to gathers, scatters, dynamic slices and updates,
// conditionals, comparisons with an iota, sizes of dims and of groups; of pred leaves scalars that
// choose a branch. Of several uses the range covers all. `module`: before partitioning, or of one
// device; `device_count`: of partitions.
std::vector<IndexInput> FindIndexInputs(const Module& module, int64_t device_count);

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_INDEX_INPUTS_H_
