// The sharding of one tensor while Shardy's propagation runs.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_TENSOR_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_TENSOR_H_

#include <cstdint>
#include <vector>

#include "core/propagation/shardy/axes.h"
#include "ir/mesh.h"
#include "ir/shape.h"

namespace gshard::shardy {

struct Dim {
  AxisList axes;  // within a manual region: with the manual axes, which are the major ones
  bool open = true;
  int64_t priority = 0;
  int manual = 0;  // how many of `axes` are manual: not to be seen from inside the region
};

struct Tensor {
  const Shape* shape = nullptr;  // as seen from outside of a region that it enters or leaves
  // Null: has no sharding, all dims open.
  const Mesh* mesh = nullptr;
  std::vector<Dim> dims;               // one per dim of the shape
  AxisList replicated, unreduced;      // can cut no dim
  bool is_edge_target = false;         // constraints do not dictate its sharding
  int uses = 0;                        // operand slots that have it
  bool HasSharding() const { return mesh != nullptr; }
  bool IsClosed() const {
    for (const Dim& dim : dims) {
      if (dim.open) return false;
    }
    return HasSharding();
  }
};

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_TENSOR_H_
