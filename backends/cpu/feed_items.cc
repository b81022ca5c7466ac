#include "backends/cpu/feed_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace gshard::cpu {

Expected<FeedItems> CountItems(MeshRun& run, const Module& program, const HostFeeds& feeds) {
  FeedItems result;
  for (const HostFeed& feed : feeds.feeds) {
    run.GatherResult(feed.count_result, /*to_all=*/true);
    const OutputArray counts = run.Output(feed.count_result);
    int64_t items = 0;
    for (size_t at = 0; at + sizeof(int32_t) <= counts.data.size(); at += sizeof(int32_t)) {
      int32_t count = 0;
      std::memcpy(&count, counts.data.data() + at, sizeof count);
      items = std::max<int64_t>(items, count);
    }
    result.counts.push_back(items);
    if (items <= feed.capacity || feed.starts_over) continue;
    if (!feed.to_device) {
      result.overflown.push_back({feed.name, items});
      continue;
    }
    return Fail(
        program.ErrorAt(feed.source, "E-RUN-HOST",
                        fmt::format("deadlock: {} {} waits for more items than the {} of the file",
                                    feed.kind, feed.name, feed.capacity)));
  }
  return result;
}

void TrimToItems(const HostFeeds& feeds, const FeedItems& items, size_t result, bool stacked,
                 OutputArray& array) {
  for (size_t f = 0; f < feeds.feeds.size(); ++f) {
    const HostFeed& feed = feeds.feeds[f];
    if (feed.to_device || result < feed.first_result ||
        result >= feed.first_result + feed.leaf_count) {
      continue;
    }
    const size_t dim = stacked ? 1 : 0;
    const auto outer = static_cast<size_t>(stacked ? array.dims[0] : 1);
    const auto had = static_cast<size_t>(array.dims[dim]);
    const auto kept = static_cast<size_t>(items.counts[f]);
    const size_t item = array.data.size() / (outer * had);
    for (size_t i = 1; i < outer; ++i) {
      std::memmove(array.data.data() + i * kept * item, array.data.data() + i * had * item,
                   kept * item);
    }
    array.data.resize(outer * kept * item);
    array.dims[dim] = items.counts[f];
  }
}

}  // namespace gshard::cpu
