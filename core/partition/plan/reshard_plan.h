// From one layout of a value to another by the cheapest sequence of collectives (GSPMD paper,
// section 4.5, by shortest-path search; where that is not enough see Plan;
// docs/partitioning.md, "Resharding").
//
// A state is, per dim, the ordered list of mesh sub-axes that cut it plus the tile size, and the
// set of sub-axes that still hold partial values. Moves: slice, all-gather, all-to-all, permute,
// all-reduce, reduce-scatter, and re-tiling where uneven sizes do not nest. Every move is correct,
// so every plan is. Nothing here lists devices.
#ifndef GSHARD_CORE_PARTITION_PLAN_RESHARD_PLAN_H_
#define GSHARD_CORE_PARTITION_PLAN_RESHARD_PLAN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/partition/layout/mesh_layout.h"

namespace gshard {

// A value on its way: sub-axes per dim, tile size per dim (>= ceil(size / tiles); tile i starts at
// i * tile), sub-axes with partial values.
struct ReshardState {
  std::vector<AxisList> dims;
  std::vector<int64_t> tiles;
  AxisList unreduced;
  bool operator==(const ReshardState&) const = default;
};

enum class ReshardKind : uint8_t {
  kRetile,         // tile sizes change, sub-axes do not: pad, trim or exchange edges
  kSlice,          // replicated sub-axes become minor sub-axes of dims; local
  kAllGather,      // minor sub-axes of one dim become replicated
  kGatherBySum,    // all or major sub-axes of one dim become replicated where most tiles are empty:
                   // all-reduce
  kAllToAll,       // minor sub-axes of dims become minor sub-axes of other dims
  kPermute,        // other sub-axes, same tiles: one collective-permute
  kAllReduce,      // partial sub-axes become replicated
  kReduceScatter,  // partial sub-axes become minor sub-axes of one dim
  kPartial,        // replicated sub-axes become partial: zeros on all but the first device; local
};

struct ReshardMove {
  AxisList axes;  // major first, as they stand in the dim they leave or enter
  // Dim that the axes leave, and dim that they enter. -1: not a dim; ReshardStep::kind tells
  // whether the axes were, or become, replicated or partial.
  int64_t from = -1;
  int64_t to = -1;
};

struct ReshardStep {
  ReshardKind kind = ReshardKind::kRetile;
  std::vector<ReshardMove> moves;
  ReshardState after;
  int64_t bytes = 0;  // received by one device
  // kPermute: from here on, positions are in the target's device order.
  bool changes_order = false;
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;  // empty: nothing is to be done
  // Cost in units of one byte received by a device: the sum over steps of weight x bytes +
  // bytes_per_message x messages + kReshardStepCost (reshard_search.h), plus a quarter of the bytes
  // by which a step's result is larger than both ends. The weight is bytes_per_moved_byte, but 1
  // for steps that add up and for the permute between two device orders. It orders plans and is no
  // time: for seconds see core/cost/network.h.
  double cost = 0;
  // Bytes received by one device, all steps together. In ring algorithms each device sends as many
  // bytes as it receives.
  int64_t bytes = 0;
  // True if a value that is tiled at both ends is whole on every device in between.
  bool full_rematerialization = false;
};

// As in PartitionOptions.
struct ReshardWeights {
  double bytes_per_message = 0.0625;
  double bytes_per_moved_byte = 1;  // of steps that add nothing up
};

// As in PartitionPolicies.
struct ReshardPolicies {
  bool share_sums = true;
  bool search = true;
};

class KnownReshardPlans;

// Plans and remembers. Not thread-safe.
class ReshardPlanner {
 public:
  // `known`: plans of other runs, which learns those of this one; may be null.
  ReshardPlanner(MeshLayoutTable& layouts, ReshardWeights weights, ReshardPolicies policies = {},
                 KnownReshardPlans* known = nullptr);
  ~ReshardPlanner();

  // Returns the plan from one layout to the other, complete: its last step ends in `to`. Both
  // layouts are tiled, have the same manual sub-axes and cut a value of `shape`'s dims and element
  // type; maximal layouts are the caller's to make whole first (PartitionScope::Reshard). Where the
  // two have different device orders, or sub-axes without a common refinement, one
  // collective-permute of whole tiles is the first step or the last one (before a kPartial, if
  // there is one), whichever costs less, and the other steps are searched. Never fails for such
  // layouts. The reference is valid as long as the planner.
  const ReshardPlan& Plan(const Shape* shape, const MeshLayout* from, const MeshLayout* to);
  int64_t plans_made() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Lower bound of the bytes that any plan must bring to some device: the tile of `to` less what of
// it may be in the tile of `from`. 0 where `from` has partial values or is not tiled.
double LeastReshardBytes(const Shape* shape, const MeshLayout* from, const MeshLayout* to);
// Same bound where one side is known by its numbers of tiles per dim only.
double LeastReshardBytes(const Shape* shape, const MeshLayout* from,
                         std::span<const int64_t> to_counts);
double LeastReshardBytes(const Shape* shape, std::span<const int64_t> from_counts,
                         const MeshLayout* to);

// The state a layout stands for, with canonical tile sizes.
ReshardState StateOf(const Shape* shape, const MeshLayout* layout);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PLAN_RESHARD_PLAN_H_
