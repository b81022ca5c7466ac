// What the host feeds the program and is fed by it (infeed, outfeed, host send and recv), as
// parameters and results of the entry.
//
// A transfer of the entry computation happens once: its parameter or result has the shape of the
// item. One inside loops and branches has a feed: an array of items along a new first dim. Arrays
// and a count of the items taken travel through the loops around it, so that every device takes
// item after item in the order of its own run, and everything else (partitioning, verification,
// memory limits) sees ordinary arrays.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_HOST_TRANSFER_EXPANDER_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_HOST_TRANSFER_EXPANDER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"

namespace gshard {

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

inline constexpr int64_t kRandomItems = 64;
struct FeedCapacity {
  std::string name;  // of the feed
  int64_t items = 0;
};

struct HostTransferOptions {
  // Dims of the array that the user has for a leaf of the entry's parameters, numbered in order;
  // nothing if there is none. Null: there are no arrays.
  std::function<Expected<std::optional<std::vector<int64_t>>>(const Module& module, size_t leaf)>
      file_dims;
  std::vector<FeedCapacity> capacities;  // of the feeds whose number of items is known
};

// Parameters come after the others and have the instruction's name, results come after the others.
// Feeds to the device have as many items as the user's array, else `capacities`, else at most
// kRandomItems, which start over. Those to the host have room for `capacities` items, else for as
// many as the trip counts around allow, if those are known and few. Loops and branches may hold
// transfers; calls, asynchronous computations, scans and conditions of loops may not (unwrap-async,
// inline-calls, expand-scans, rotate-loops), and computations that do have one caller each. Errors:
// E-RUN-HOST for a transfer where none can be, or a feed without items.
Expected<HostFeeds> ExpandHostTransfers(Module& module, const HostTransferOptions& options = {});

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_HOST_TRANSFER_EXPANDER_H_
