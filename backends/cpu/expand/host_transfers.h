// What the host feeds the program and is fed by it (infeed, outfeed, host send and recv), as
// parameters and results of the entry.
//
// A transfer of the entry computation happens once: its parameter or result has the shape of the
// item. One inside loops and branches has a feed: an array of items along a new first dim. Arrays
// and a count of the items taken travel through the loops around it, so that every device takes
// item after item in the order of its own run, and everything else (partitioning, verification,
// memory limits) sees ordinary arrays.
#ifndef GSHARD_BACKENDS_CPU_EXPAND_HOST_TRANSFERS_H_
#define GSHARD_BACKENDS_CPU_EXPAND_HOST_TRANSFERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cpu/io/inputs.h"
#include "ir/module.h"

namespace gshard::cpu {

// One transfer inside loops or branches.
struct HostFeed {
  std::string name, kind;  // of the instruction, and its opcode's text
  SourceRange source;
  bool to_device = false;
  bool starts_over = false;  // random items: after the last comes the first
  int64_t capacity = 0;      // items that the arrays hold
  size_t first_result = 0;   // to the host: leaves of the entry's root with the items
  size_t leaf_count = 0;
  size_t count_result = 0;  // leaf with the number of items a run takes
};

struct HostFeeds {
  std::vector<HostFeed> feeds;      // in the order of the text
  size_t shown_results = SIZE_MAX;  // leaves of the root beyond these are counts
};

bool HasHostTransfers(const Module& module);

// Before partitioning. Parameters come after the others and have the instruction's name, results
// come after the others. Feeds to the device have as many items as `inputs` has for them, else at
// most kRandomItems, which start over. Those to the host have room for `capacities` items by the
// instruction's name, else for as many as the trip counts around allow, if those are known and few.
// Errors: E-RUN-HOST for a transfer where none can be, or a feed without items.
inline constexpr int64_t kRandomItems = 64;
struct FeedCapacity {
  std::string name;
  int64_t items = 0;
};
Expected<HostFeeds> ReplaceHostTransfers(Module& module, const Inputs& inputs,
                                         const std::vector<FeedCapacity>& capacities = {});

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EXPAND_HOST_TRANSFERS_H_
