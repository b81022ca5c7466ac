// The planner: brings the two layouts into one device order and one set of sub-axes, and lets the
// search find the rest.
#include "core/partition/plan/reshard_plan.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <optional>

#include "core/partition/plan/known_reshard_plans.h"
#include "core/partition/plan/reshard_search.h"
#include "core/partition/plan/xla_way.h"
#include "ir/diagnostic.h"

namespace gshard {

ReshardState StateOf(const Shape* shape, const MeshLayout* layout) {
  return {layout->dims, LocalDims(shape, layout), layout->unreduced};
}

namespace {

// More sub-axes are not worth a second search.
constexpr size_t kMaxRefinedSubAxes = 6;
// Bytes that a collective more must save.
constexpr double kSharedReductionCost = 256;

std::vector<int64_t> PrimeFactors(int64_t n) {
  std::vector<int64_t> primes;
  for (int64_t p = 2; p * p <= n; ++p) {
    while (n % p == 0) {
      primes.push_back(p);
      n /= p;
    }
  }
  if (n > 1) primes.push_back(n);
  return primes;
}

// Sub-axes of prime size that `axes` consist of, major first.
AxisList PrimeSubAxes(AxisSpan axes) {
  AxisList sub_axes;
  for (const DeviceAxis& axis : axes) {
    int64_t stride = axis.stride * axis.size;
    for (int64_t prime : PrimeFactors(axis.size)) {
      stride /= prime;
      sub_axes.push_back({prime, stride});
    }
  }
  return sub_axes;
}

// A layout with the tile counts of `to` in the sub-axes and device order of `from`, keeping what
// `from` has in each dim where possible.
const MeshLayout* SameCountsInSubAxesOf(MeshLayoutTable& layouts, const MeshLayout* from,
                                        const MeshLayout* to) {
  AxisList used;
  for (const AxisList& list : from->dims) used.insert(used.end(), list.begin(), list.end());
  used.insert(used.end(), from->manual.begin(), from->manual.end());
  used.insert(used.end(), from->unreduced.begin(), from->unreduced.end());
  AxisList free = PrimeSubAxes(ComplementAxes(used, layouts.device_count()));
  // Sub-axes of partial values can be had once those are reduced.
  for (const DeviceAxis& sub_axis : PrimeSubAxes(from->unreduced)) free.push_back(sub_axis);
  std::vector<AxisList> own;
  for (const AxisList& list : from->dims) own.push_back(PrimeSubAxes(list));

  std::vector<AxisList> dims(to->dims.size());
  std::vector<std::vector<int64_t>> missing(to->dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    missing[d] = PrimeFactors(AxesSize(to->dims[d]));
    AxisList kept;
    for (const DeviceAxis& sub_axis : own[d]) {
      auto found = std::find(missing[d].begin(), missing[d].end(), sub_axis.size);
      if (found == missing[d].end()) {
        free.push_back(sub_axis);
      } else {
        missing[d].erase(found);
        kept.push_back(sub_axis);
      }
    }
    dims[d] = std::move(kept);
  }
  for (size_t d = 0; d < dims.size(); ++d) {
    for (int64_t prime : missing[d]) {
      auto found = std::find_if(free.begin(), free.end(),
                                [&](const DeviceAxis& sub_axis) { return sub_axis.size == prime; });
      CheckInternal(found != free.end(), "tile counts that do not divide the device count");
      dims[d].push_back(*found);
      free.erase(found);
    }
  }
  return layouts.WithDims(from, std::move(dims));
}

struct PlanKey {
  const Shape* shape;
  const MeshLayout* from;
  const MeshLayout* to;
  bool operator==(const PlanKey&) const = default;
};
struct PlanKeyHash {
  size_t operator()(const PlanKey& key) const {
    size_t hash = reinterpret_cast<size_t>(key.shape) * 0x9E3779B97F4A7C15ull;
    hash = (hash ^ reinterpret_cast<size_t>(key.from)) * 0xC2B2AE3D27D4EB4Full;
    return (hash ^ reinterpret_cast<size_t>(key.to)) * 0x165667B19E3779F9ull;
  }
};

}  // namespace

struct ReshardPlanner::Impl {
  MeshLayoutTable& layouts;
  ReshardWeights weights;
  ReshardPolicies policies;
  KnownReshardPlans* known;
  tsl::robin_map<PlanKey, std::shared_ptr<const ReshardPlan>, PlanKeyHash> plans;

  std::shared_ptr<const ReshardPlan> KnownOrMade(const Shape* shape, const MeshLayout* from,
                                                 const MeshLayout* to);
  ReshardPlan Make(const Shape* shape, const MeshLayout* from, const MeshLayout* to);
  ReshardPlan MakeInOneOrder(const Shape* shape, const MeshLayout* from, const MeshLayout* to);
  ReshardPlan Searched(const Shape* shape, const MeshLayout* from, const MeshLayout* to,
                       const AxisList& sub_axes);
  std::optional<ReshardPlan> Stepwise(const Shape* shape, const MeshLayout* from,
                                      const MeshLayout* to, const AxisList& sub_axes);
  std::vector<const MeshLayout*> Waypoints(const Shape* shape, const MeshLayout* from,
                                           const MeshLayout* to, const AxisList& sub_axes);
  ReshardPlan ShareReduction(const Shape* shape, const MeshLayout* from, const MeshLayout* to,
                             const AxisList& axes, ReshardPlan plan);
  ReshardPlan PermuteLast(const Shape* shape, const MeshLayout* from, const MeshLayout* to);
  void AppendPermute(ReshardPlan& plan, const Shape* shape, const MeshLayout* layout);
};

// Sub-axes in common: search. Otherwise the devices are permuted, before or after the rest.
ReshardPlan ReshardPlanner::Impl::Make(const Shape* shape, const MeshLayout* from,
                                       const MeshLayout* to) {
  if (from->order == to->order) return MakeInOneOrder(shape, from, to);
  auto has_own_order = [&](const MeshLayout* layout) {
    return layout->TileCount() > 1 || !layout->unreduced.empty() || !layout->manual.empty();
  };
  auto in_order_of = [&](const MeshLayout* layout, const MeshLayout* other) {
    MeshLayout copy = *layout;
    copy.order = other->order;
    return copy;
  };
  MeshLayout from_in_target = in_order_of(from, to);
  if (!has_own_order(from)) return MakeInOneOrder(shape, &from_in_target, to);
  if (!has_own_order(to)) {
    MeshLayout to_in_source = in_order_of(to, from);
    return MakeInOneOrder(shape, from, &to_in_source);
  }
  ReshardPlan permute_last = PermuteLast(shape, from, to);
  if (!from->unreduced.empty()) return permute_last;
  const MeshLayout* halfway = SameCountsInSubAxesOf(layouts, layouts.Reduced(to), from);
  ReshardPlan permute_first;
  AppendPermute(permute_first, shape, halfway);
  ReshardPlan rest = MakeInOneOrder(shape, halfway, to);
  permute_first.bytes += rest.bytes;
  permute_first.cost += rest.cost;
  permute_first.full_rematerialization = rest.full_rematerialization;
  for (ReshardStep& step : rest.steps) permute_first.steps.push_back(std::move(step));
  return permute_first.cost < permute_last.cost ? permute_first : permute_last;
}

// A permute of all devices that ends in the tiles of `layout`, in the target's order.
void ReshardPlanner::Impl::AppendPermute(ReshardPlan& plan, const Shape* shape,
                                         const MeshLayout* layout) {
  ReshardStep permute;
  permute.kind = ReshardKind::kPermute;
  permute.after = StateOf(shape, layout);
  permute.changes_order = true;
  permute.bytes = LocalShape(layouts.context(), shape, layout)->byte_size();
  plan.bytes += permute.bytes;
  plan.cost += static_cast<double>(permute.bytes) + weights.bytes_per_message + kReshardStepCost;
  plan.steps.push_back(std::move(permute));
}

ReshardPlan ReshardPlanner::Impl::PermuteLast(const Shape* shape, const MeshLayout* from,
                                              const MeshLayout* to) {
  const MeshLayout* tiles = layouts.Reduced(to);
  ReshardPlan plan = MakeInOneOrder(shape, from, SameCountsInSubAxesOf(layouts, from, tiles));
  AppendPermute(plan, shape, tiles);
  if (!to->unreduced.empty()) {
    ReshardStep partial;
    partial.kind = ReshardKind::kPartial;
    partial.moves.push_back({.axes = to->unreduced});
    partial.after = StateOf(shape, to);
    plan.steps.push_back(std::move(partial));
  }
  return plan;
}

namespace {

// The target's tile without what of it may lie there already.
template <typename FromCount, typename ToCount>
double LeastBytes(const Shape* shape, FromCount from, ToCount to) {
  double target = static_cast<double>(DTypeBits(shape->dtype())) / 8;
  double overlap = target;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    auto to_tile = static_cast<double>(CeilOfRatio(shape->dim(d), to(d)));
    auto from_tile = static_cast<double>(CeilOfRatio(shape->dim(d), from(d)));
    target *= to_tile;
    overlap *= std::min(to_tile, from_tile);
  }
  return target - overlap;
}

auto CountsOf(const MeshLayout* layout) {
  return [layout](int64_t d) { return layout->Count(d); };
}
auto CountsOf(std::span<const int64_t> counts) {
  return [counts](int64_t d) { return counts[static_cast<size_t>(d)]; };
}

bool IsKnown(const MeshLayout* from) {
  return from->unreduced.empty() && from->kind == MeshLayout::Kind::kTiled;
}

}  // namespace

double LeastReshardBytes(const Shape* shape, const MeshLayout* from, const MeshLayout* to) {
  return IsKnown(from) ? LeastBytes(shape, CountsOf(from), CountsOf(to)) : 0;
}

double LeastReshardBytes(const Shape* shape, const MeshLayout* from,
                         std::span<const int64_t> to_counts) {
  return IsKnown(from) ? LeastBytes(shape, CountsOf(from), CountsOf(to_counts)) : 0;
}

double LeastReshardBytes(const Shape* shape, std::span<const int64_t> from_counts,
                         const MeshLayout* to) {
  return LeastBytes(shape, CountsOf(from_counts), CountsOf(to));
}

namespace {

// Splits sub-axes so that parts of the smaller ones' sizes can be moved by themselves.
AxisList Refined(const AxisList& sub_axes) {
  AxisList refined;
  for (const DeviceAxis& sub_axis : sub_axes) {
    int64_t size = sub_axis.size;
    int64_t stride = sub_axis.stride * sub_axis.size;
    for (bool found = true; found && size > 1;) {
      found = false;
      for (const DeviceAxis& other : sub_axes) {
        if (other.size < size && size % other.size == 0) {
          size /= other.size;
          stride /= other.size;
          refined.push_back({other.size, stride});
          found = true;
          break;
        }
      }
    }
    if (size > 1) refined.push_back({size, stride / size});
  }
  return refined;
}

// The sub-axes of the device number that are in no axis.
AxisList UnusedAxes(const AxisList& axes, int64_t device_count) {
  const AxisList sub_axes = *CommonSubAxes(axes, device_count);
  std::vector<uint8_t> is_used(sub_axes.size(), 0);
  for (const DeviceAxis& axis : axes) {
    for (int sub_axis : SubAxesOf(sub_axes, axis)) is_used[static_cast<size_t>(sub_axis)] = 1;
  }
  AxisList unused;
  for (size_t k = 0; k < sub_axes.size(); ++k) {
    if (is_used[k] == 0) unused.push_back(sub_axes[k]);
  }
  return unused;
}

// Do the tiles of `fine` lie within those of `coarse` on every device?
bool Extends(const MeshLayout* fine, const MeshLayout* coarse) {
  return std::ranges::equal(fine->dims, coarse->dims, [](const AxisList& f, const AxisList& c) {
    const AxisList whole = PrimeSubAxes(f), part = PrimeSubAxes(c);
    return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
  });
}

}  // namespace

ReshardPlan ReshardPlanner::Impl::MakeInOneOrder(const Shape* shape, const MeshLayout* from,
                                                 const MeshLayout* to) {
  AxisList axes;
  auto collect = [&](const MeshLayout* layout) {
    for (const AxisList& list : layout->dims) axes.insert(axes.end(), list.begin(), list.end());
    axes.insert(axes.end(), layout->unreduced.begin(), layout->unreduced.end());
    axes.insert(axes.end(), layout->manual.begin(), layout->manual.end());
  };
  collect(from);
  collect(to);
  std::optional<AxisList> sub_axes = CommonSubAxes(axes, layouts.device_count());
  if (!sub_axes.has_value() || sub_axes->size() > kMaxSearchedSubAxes) {
    return PermuteLast(shape, from, to);
  }
  if (!policies.search) {
    // Sub-axes of prime size: those that dims of other sizes have in common.
    axes = PrimeSubAxes(*sub_axes);
    const AxisList others = PrimeSubAxes(UnusedAxes(axes, layouts.device_count()));
    axes.insert(axes.end(), others.begin(), others.end());
    std::optional<AxisList> primes = CommonSubAxes(axes, layouts.device_count());
    if (std::optional<ReshardPlan> plan; primes && primes->size() <= kMaxSearchedSubAxes &&
                                         (plan = Stepwise(shape, from, to, *primes))) {
      return *std::move(plan);
    }
  }
  ReshardPlan plan = Searched(shape, from, to, *sub_axes);
  const bool is_shared =
      policies.share_sums && !from->unreduced.empty() && plan.cost > kSharedReductionCost;
  return is_shared ? ShareReduction(shape, from, to, axes, std::move(plan)) : plan;
}

// By way of XlaWay's layouts, a collective of one kind to each. Nothing: there is no such plan.
std::optional<ReshardPlan> ReshardPlanner::Impl::Stepwise(const Shape* shape,
                                                          const MeshLayout* from,
                                                          const MeshLayout* to,
                                                          const AxisList& sub_axes) {
  if (!to->unreduced.empty()) return std::nullopt;
  ReshardPlan plan;
  auto go = [&](const MeshLayout* a, const MeshLayout* b, ReshardKind kind) {
    std::optional<ReshardPlan> leg = SearchPlanOf({&kind, 1}, shape, a, b, sub_axes, weights);
    if (!leg) return false;
    plan.cost += leg->cost;
    plan.bytes += leg->bytes;
    for (ReshardStep& step : leg->steps) plan.steps.push_back(std::move(step));
    return true;
  };
  const MeshLayout* at = from;
  if (!from->unreduced.empty()) {
    const MeshLayout* sum = layouts.Reduced(from);
    if (!go(from, sum, ReshardKind::kAllReduce)) return std::nullopt;
    at = sum;
  }
  bool is_whole = false;
  for (const MeshLayout* next : Waypoints(shape, at, to, sub_axes)) {
    bool done = at->dims == next->dims;
    for (ReshardKind kind : {ReshardKind::kSlice, ReshardKind::kPermute, ReshardKind::kAllToAll}) {
      if (!done && !Extends(at, next)) done = go(at, next, kind);
    }
    // Last dims first.
    for (size_t d = at->dims.size(); !done && d-- > 0;) {
      if (at->dims[d] == next->dims[d]) continue;
      std::vector<AxisList> dims = at->dims;
      dims[d] = next->dims[d];
      const MeshLayout* gathered = layouts.WithDims(at, std::move(dims));
      if (!go(at, gathered, ReshardKind::kAllGather)) return std::nullopt;
      at = gathered;
    }
    is_whole |= next->TileCount() == 1;
    at = next;
  }
  plan.full_rematerialization = is_whole && from->TileCount() > 1 && to->TileCount() > 1;
  return plan;
}

// The layouts that XLA's way leads through, the last one being `to`. `sub_axes` are primes.
std::vector<const MeshLayout*> ReshardPlanner::Impl::Waypoints(const Shape* shape,
                                                               const MeshLayout* from,
                                                               const MeshLayout* to,
                                                               const AxisList& sub_axes) {
  std::vector<uint8_t> taken(sub_axes.size(), 0);
  auto indices = [&](const AxisList& axes) {
    std::vector<int> list;
    for (const DeviceAxis& axis : axes) {
      for (int k : SubAxesOf(sub_axes, axis)) list.push_back(k);
    }
    return list;
  };
  CutLists before, after;
  for (const AxisList& axes : from->dims) before.push_back(indices(axes));
  for (const AxisList& axes : to->dims) after.push_back(indices(axes));
  for (const std::vector<int>& list : before) {
    for (int k : list) taken[static_cast<size_t>(k)] = 1;
  }
  for (int k : indices(from->manual)) taken[static_cast<size_t>(k)] = 1;
  std::vector<int> free;
  std::vector<int64_t> sizes;
  for (size_t k = 0; k < sub_axes.size(); ++k) {
    sizes.push_back(sub_axes[k].size);
    if (taken[k] == 0) free.push_back(static_cast<int>(k));
  }
  std::optional<std::vector<CutLists>> way = XlaWay(before, after, sizes, free, shape->dims());
  if (!way) way = std::vector<CutLists>{CutLists(before.size())};
  std::vector<const MeshLayout*> layouts_on_it;
  for (const CutLists& lists : *way) {
    std::vector<AxisList> dims;
    for (const std::vector<int>& list : lists) {
      AxisList axes;
      for (int k : list) axes.push_back(sub_axes[static_cast<size_t>(k)]);
      dims.push_back(MergedAxes(axes));
    }
    layouts_on_it.push_back(layouts.WithDims(from, std::move(dims)));
  }
  layouts_on_it.push_back(to);
  return layouts_on_it;
}

ReshardPlan ReshardPlanner::Impl::Searched(const Shape* shape, const MeshLayout* from,
                                           const MeshLayout* to, const AxisList& sub_axes) {
  ReshardPlan plan = SearchPlan(shape, from, to, sub_axes, weights);
  bool is_best = plan.steps.size() <= 1 || plan.bytes == 0 || !from->unreduced.empty() ||
                 static_cast<double>(plan.bytes) <= LeastReshardBytes(shape, from, to);
  if (is_best) return plan;
  AxisList refined = Refined(sub_axes);
  if (refined.size() == sub_axes.size() || refined.size() > kMaxRefinedSubAxes) return plan;
  ReshardPlan other = SearchPlan(shape, from, to, std::move(refined), weights);
  return other.cost < plan.cost ? other : plan;
}

// Devices that have the same summands share the work: each adds up a piece and gathers the others'.
// Of n summands in r copies 2(n-1)/(nr) + (r-1)/r of the bytes are received, not 2(n-1)/n.
ReshardPlan ReshardPlanner::Impl::ShareReduction(const Shape* shape, const MeshLayout* from,
                                                 const MeshLayout* to, const AxisList& axes,
                                                 ReshardPlan plan) {
  // No device does with less than the bytes it ends with: none of them is the sum yet. Two summands
  // need no more.
  if (plan.bytes <= LocalShape(layouts.context(), shape, to)->byte_size()) return plan;
  const AxisList copies = PrimeSubAxes(UnusedAxes(axes, layouts.device_count()));
  if (copies.empty()) return plan;
  const bool keeps_tiles = from->dims == to->dims;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    AxisList pieces = copies;
    const int64_t size = shape->dim(d);
    while (!pieces.empty() && size % (from->Count(d) * AxesSize(pieces)) != 0) pieces.pop_back();
    pieces = MergedAxes(pieces);
    AxisList all = axes;
    all.insert(all.end(), pieces.begin(), pieces.end());
    const std::optional<AxisList> sub_axes = CommonSubAxes(all, layouts.device_count());
    if (pieces.empty() || !sub_axes.has_value() || sub_axes->size() > kMaxSearchedSubAxes) continue;
    MeshLayout cut = *from;
    cut.dims[static_cast<size_t>(d)] = JoinedAxes(from->axes(d), pieces);
    const MeshLayout* own_piece = layouts.Intern(std::move(cut));
    ReshardPlan rest = SearchPlan(shape, own_piece, to, *sub_axes, weights);
    rest.cost += kReshardStepCost;
    if (rest.cost + kSharedReductionCost < plan.cost) {
      ReshardStep slice{.kind = ReshardKind::kSlice,
                        .moves = {{.axes = pieces, .to = d}},
                        .after = StateOf(shape, own_piece)};
      rest.steps.insert(rest.steps.begin(), std::move(slice));
      plan = std::move(rest);
    }
    // Where tiles stay as they are, dims differ by the number of pieces only.
    if (keeps_tiles && AxesSize(pieces) == AxesSize(copies)) break;
  }
  return plan;
}

std::shared_ptr<const ReshardPlan> ReshardPlanner::Impl::KnownOrMade(const Shape* shape,
                                                                     const MeshLayout* from,
                                                                     const MeshLayout* to) {
  std::string key;
  if (known != nullptr) {
    key = KnownReshardPlans::KeyOf(shape, from, to, layouts.device_count(), weights, policies);
    if (auto found = known->Find(key)) return found;
  }
  auto made = std::make_shared<const ReshardPlan>(Make(shape, from, to));
  if (!key.empty()) known->Add(std::move(key), made);
  return made;
}

ReshardPlanner::ReshardPlanner(MeshLayoutTable& layouts, ReshardWeights weights,
                               ReshardPolicies policies, KnownReshardPlans* known)
    : impl_(new Impl{layouts, weights, policies, known, {}}) {}
ReshardPlanner::~ReshardPlanner() = default;

const ReshardPlan& ReshardPlanner::Plan(const Shape* shape, const MeshLayout* from,
                                        const MeshLayout* to) {
  PlanKey key{shape->bare(), from, to};
  auto found = impl_->plans.find(key);
  if (found != impl_->plans.end()) return *found->second;
  auto plan =
      from == to ? std::make_shared<const ReshardPlan>() : impl_->KnownOrMade(key.shape, from, to);
  return *impl_->plans.emplace(key, std::move(plan)).first->second;
}

int64_t ReshardPlanner::plans_made() const { return static_cast<int64_t>(impl_->plans.size()); }

}  // namespace gshard
