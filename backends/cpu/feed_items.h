// Stage "items": how many items the program's feeds (infeed, outfeed, host send and recv) took.
#ifndef GSHARD_BACKENDS_CPU_FEED_ITEMS_H_
#define GSHARD_BACKENDS_CPU_FEED_ITEMS_H_

#include <cstdint>
#include <vector>

#include "backends/cpu/run/mesh_run.h"
#include "core/transforms/expand/host_transfer_expander.h"
#include "ir/module.h"

namespace gshard::cpu {

struct FeedItems {
  std::vector<int64_t> counts;  // by feed
  // Feeds to the host that had no room for all: the results are lost, with such room the next run
  // has them.
  std::vector<FeedCapacity> overflown;
};

// After the run of `program`. Errors: E-RUN-HOST if one waits for more items than there are.
Expected<FeedItems> CountItems(MeshRun& run, const Module& program, const HostFeeds& feeds);

// Of a result that a feed brings to the host only the items that there were.
void TrimToItems(const HostFeeds& feeds, const FeedItems& items, size_t result, bool stacked,
                 OutputArray& array);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_FEED_ITEMS_H_
