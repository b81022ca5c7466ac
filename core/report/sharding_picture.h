// A tensor's sharding as a grid in the terminal: which devices hold which part of it.
//
//               0:512  512:1024      dims that are cut most down and across; a cell lists the
//               devices
//       +-------------+-------------+
//   0:8 | 0–1         | 2–3         |
//       +-------------+-------------+
#ifndef GSHARD_CORE_REPORT_SHARDING_PICTURE_H_
#define GSHARD_CORE_REPORT_SHARDING_PICTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ir/context.h"
#include "ir/mesh.h"
#include "ir/shape.h"
#include "ir/sharding.h"

namespace gshard {

// One tile of an array: the part of each dim that it holds, and who holds it.
struct ShardingTile {
  std::vector<int64_t> begin, end;  // one entry a dim; end is cut at the array's bound
  std::vector<int64_t> devices;     // in the sharding's order
};

// Of an array; empty where the sharding names no tiles (manual, unknown, partial sums). Replicated:
// one tile on all `devices`. O(devices).
std::vector<ShardingTile> TilesOf(const Shape* shape, const Sharding* sharding, int64_t devices);

// "0-3", "0,8..56", "0,3,5": runs, steps, singles; beyond a dozen parts how many there are.
std::string DeviceListText(std::vector<int64_t> devices);

struct ShardingPictureOptions {
  bool full = false;  // every row and column, however many
  size_t width = 100;
};

// The sentence and the grid, with newlines. `mesh` (may be null) gives names to axes.
std::string ShardingPicture(Context& ctx, const Shape* shape, const Sharding* sharding,
                            const Mesh* mesh, int64_t devices,
                            const ShardingPictureOptions& options = {});

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_SHARDING_PICTURE_H_
