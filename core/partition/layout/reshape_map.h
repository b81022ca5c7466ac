// Which layouts agree on the two sides of a reshape: sub-axes of dims whose tiles are whole runs of
// elements on both sides (docs/partitioning.md, "Reshapes").
#ifndef GSHARD_CORE_PARTITION_LAYOUT_RESHAPE_MAP_H_
#define GSHARD_CORE_PARTITION_LAYOUT_RESHAPE_MAP_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/partition/layout/mesh_layout.h"

namespace gshard {

// Dims [from_begin, from_end) of one shape hold the same elements as [to_begin, to_end) of the
// other, and no smaller ranges do.
struct ReshapeSegment {
  size_t from_begin = 0, from_end = 0, to_begin = 0, to_end = 0;
};

std::vector<ReshapeSegment> Segments(std::span<const int64_t> from, std::span<const int64_t> to);

// Layouts of one and the other side that put the same elements on the same devices.
struct ReshapedLayouts {
  const MeshLayout* kept = nullptr;    // what remains of the layout that was mapped
  const MeshLayout* mapped = nullptr;  // the same on the other side
};

// Maps layouts across reshapes and remembers what it found. Not thread-safe.
class ReshapeMap {
 public:
  explicit ReshapeMap(MeshLayoutTable& layouts);
  ~ReshapeMap();

  // As close to `layout` of `from` as possible. The reference stays valid.
  const ReshapedLayouts& Map(const Shape* from, const Shape* to, const MeshLayout* layout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_LAYOUT_RESHAPE_MAP_H_
