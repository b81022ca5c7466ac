// The sharding of one tensor while Shardy's propagation runs.
#ifndef GSHARD_CORE_PROPAGATION_SHARDY_TENSOR_H_
#define GSHARD_CORE_PROPAGATION_SHARDY_TENSOR_H_

#include <cstdint>
#include <span>

#include "core/propagation/shardy/axes.h"
#include "ir/mesh.h"
#include "ir/shape.h"

namespace gshard::shardy {

struct Dim {
  Axes axes;  // within a manual region: with the manual axes, which are the major ones
  int64_t priority = 0;
  int manual = 0;  // how many of `axes` are manual: not to be seen from inside the region
  bool open = true;
};

struct Tensor {
  const Shape* shape = nullptr;  // as seen from outside of a region that it enters or leaves
  // Null: has no sharding, all dims open.
  const Mesh* mesh = nullptr;
  std::span<Dim> dims;            // one per dim of the shape; the graph owns them
  Axes replicated, unreduced;     // can cut no dim
  bool is_on_one_device = false;  // as annotated: no mesh axis cuts it
  bool is_annotated = false;      // the text gives it a sharding
  bool is_edge_target = false;    // constraints do not dictate its sharding
  int uses = 0;                   // operand slots that have it
  bool HasSharding() const { return mesh != nullptr; }
  bool IsClosed() const {
    for (const Dim& dim : dims) {
      if (dim.open) return false;
    }
    return HasSharding();
  }
};

// A tensor as an operation sees it: from inside a manual region its manual axes are not there.
struct View {
  int tensor = -1;
  bool inside = false;
};

// What the view shows of a dim's axes.
inline std::span<const AxisRef> VisibleAxes(const Dim& dim, const View& view) {
  return dim.axes.list().subspan(view.inside ? static_cast<size_t>(dim.manual) : 0);
}

}  // namespace gshard::shardy

#endif  // GSHARD_CORE_PROPAGATION_SHARDY_TENSOR_H_
