// Reshapes keep the digits of dims whose tiles are whole runs of elements on both sides; where
// tiles of leading dims are runs of different lengths, a halo exchange moves the boundaries.
#include <algorithm>
#include <numeric>
#include <optional>

#include "core/partition/dim_range.h"
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

namespace {

// Dims [from_begin, from_end) of the operand hold the same elements as [to_begin, to_end) of the
// result, and no smaller ranges do.
struct Segment {
  size_t from_begin = 0, from_end = 0, to_begin = 0, to_end = 0;
};

std::vector<Segment> Segments(Dims from, Dims to) {
  std::vector<Segment> segments;
  size_t f = 0, t = 0;
  while (f < from.size() || t < to.size()) {
    Segment segment{f, f, t, t};
    int64_t from_size = 1, to_size = 1;
    if (f < from.size()) from_size = from[f++];
    if (t < to.size()) to_size = to[t++];
    while (from_size != to_size) {
      if (from_size < to_size && f < from.size()) {
        from_size *= from[f++];
      } else if (to_size < from_size && t < to.size()) {
        to_size *= to[t++];
      } else {
        break;  // an empty array
      }
    }
    segment.from_end = f;
    segment.to_end = t;
    segments.push_back(segment);
  }
  return segments;
}

// Digits of `axes` (major first) such that their product divides `size`, and the rest.
AxisList LargestPrefixDividing(const AxisList& axes, int64_t size) {
  AxisList prefix;
  for (const DeviceAxis& axis : axes) {
    int64_t part = std::gcd(axis.size, size);
    if (part == 1) break;
    prefix.push_back({part, axis.stride * (axis.size / part)});
    size /= part;
    if (part != axis.size) break;
  }
  return prefix;
}

// The digits that cut a run of dims, laid over another run of dims of the same total size: possible
// for the leading digits, while every dim but the last one cut is cut completely.
void MapSegment(Dims from, const std::vector<AxisList>& from_axes, Dims to,
                std::vector<AxisList>& kept, std::vector<AxisList>& mapped) {
  kept.assign(from.size(), {});
  mapped.assign(to.size(), {});
  size_t t = 0;
  int64_t t_left = to.empty() ? 1 : to[0];  // uncut part of to[t]
  for (size_t f = 0; f < from.size(); ++f) {
    int64_t f_left = from[f];
    AxisList rest = from_axes[f];
    if (from.size() == 1 && to.size() == 1) {  // also uneven
      kept[0] = mapped[0] = rest;
      return;
    }
    while (!rest.empty()) {
      while (t < to.size() && t_left == 1) {
        if (++t < to.size()) t_left = to[t];
      }
      if (t == to.size()) return;
      AxisList part = LargestPrefixDividing(rest, std::gcd(f_left, t_left));
      int64_t size = AxesSize(part);
      if (size == 1) return;
      kept[f] = JoinedAxes(kept[f], part);
      mapped[t] = JoinedAxes(mapped[t], part);
      f_left /= size;
      t_left /= size;
      AxisList left;
      int64_t skip = size;
      for (const DeviceAxis& axis : rest) {
        int64_t taken = std::min(skip, axis.size);
        if (axis.size > taken) left.push_back({axis.size / taken, axis.stride});
        skip /= taken;
      }
      rest = std::move(left);
    }
    // What remains of this dim is minor to its digits: it must be matched in full before the next
    // dim may be cut.
    if (f_left > 1) return;
  }
}

// Layouts (operand side, result side) that agree, as close to `layout` of `from` as possible.
std::pair<const MeshLayout*, const MeshLayout*> MapLayout(MeshLayoutTable& layouts, Dims from,
                                                          Dims to, const MeshLayout* layout) {
  std::vector<AxisList> kept(from.size()), mapped(to.size());
  for (const Segment& segment : Segments(from, to)) {
    // Dims of size 1 hold no elements to cut: they are left out of the run.
    std::vector<size_t> from_dims, to_dims;
    std::vector<int64_t> from_sizes, to_sizes;
    std::vector<AxisList> from_axes;
    for (size_t d = segment.from_begin; d < segment.from_end; ++d) {
      if (from[d] == 1) continue;
      from_dims.push_back(d);
      from_sizes.push_back(from[d]);
      from_axes.push_back(layout->dims[d]);
    }
    for (size_t d = segment.to_begin; d < segment.to_end; ++d) {
      if (to[d] == 1) continue;
      to_dims.push_back(d);
      to_sizes.push_back(to[d]);
    }
    std::vector<AxisList> kept_part, mapped_part;
    MapSegment(from_sizes, from_axes, to_sizes, kept_part, mapped_part);
    for (size_t i = 0; i < from_dims.size(); ++i) kept[from_dims[i]] = kept_part[i];
    for (size_t i = 0; i < to_dims.size(); ++i) mapped[to_dims[i]] = mapped_part[i];
  }
  return {layouts.WithDims(layout, std::move(kept)), layouts.WithDims(layout, std::move(mapped))};
}

// Tiles of a leading dim of the operand hold other numbers of elements than tiles of the result's
// leading dim, which the same digits cut: boundaries move by runs of `unit` elements.
struct Shift {
  size_t from_begin = 0, from_end = 0;  // operand dims that are one run
  size_t from_dim = 0, to_dim = 0;
  int64_t unit = 1;
  DimRange range;  // in units
};

struct Candidate {
  const MeshLayout* operand = nullptr;
  const MeshLayout* result = nullptr;
  std::optional<Shift> shift;
};

int64_t ProductOf(Dims dims, size_t begin, size_t end) {
  return std::accumulate(dims.begin() + static_cast<int64_t>(begin),
                         dims.begin() + static_cast<int64_t>(end), int64_t{1}, std::multiplies<>());
}

// The first dim of a run that has more than one element; `end` if none has.
size_t LeadingDim(Dims dims, size_t begin, size_t end) {
  while (begin < end && dims[begin] == 1) ++begin;
  return begin;
}

class ReshapeRule {
 public:
  explicit ReshapeRule(PartitionContext& rule)
      : rule_(rule), from_(rule.operand_shape(0)), to_(rule.source().shape()) {
    wanted_ = rule.wanted();
    if (wanted_->IsMaximal()) wanted_ = rule.Whole(to_->rank());
  }

  RuleResult Run() {
    // What the result wants, mapped back, and what the operand has, mapped forward.
    auto [result_side, operand_side] =
        MapLayout(rule_.layouts(), to_->dims(), from_->dims(), wanted_);
    candidates_.push_back({operand_side, result_side, std::nullopt});
    if (result_side == wanted_ && rule_.scope().IsAtHand(*rule_.operand(0), operand_side)) {
      return Emit(candidates_[0]);
    }
    ConsiderShift(wanted_, /*is_result=*/true);
    ConsiderMoved(wanted_, /*is_result=*/true);
    std::vector<const MeshLayout*> seen;
    rule_.scope().CollectLayouts(*rule_.operand(0), seen);
    for (const MeshLayout* layout : seen) {
      if (layout->kind != MeshLayout::Kind::kTiled || layout->manual != wanted_->manual) continue;
      layout = rule_.layouts().Reduced(layout);
      auto [operand, result] = MapLayout(rule_.layouts(), from_->dims(), to_->dims(), layout);
      candidates_.push_back({operand, result, std::nullopt});
      ConsiderShift(layout, /*is_result=*/false);
      ConsiderMoved(layout, /*is_result=*/false);
    }
    const Candidate* best = nullptr;
    double least = 0;
    for (const Candidate& candidate : candidates_) {
      double cost = CostOf(candidate);
      if (best == nullptr || cost < least) {
        least = cost;
        best = &candidate;
      }
    }
    return Emit(*best);
  }

 private:
  // The same digits on the leading dims of one run, whatever the tiles' lengths.
  void ConsiderShift(const MeshLayout* layout, bool is_result) {
    for (const Segment& segment : Segments(from_->dims(), to_->dims())) {
      size_t from = LeadingDim(from_->dims(), segment.from_begin, segment.from_end);
      size_t to = LeadingDim(to_->dims(), segment.to_begin, segment.to_end);
      if (from == segment.from_end || to == segment.to_end) continue;
      if (segment.from_end - from < 2 && segment.to_end - to < 2) continue;
      const AxisList& axes = layout->dims[is_result ? to : from];
      int64_t shards = AxesSize(axes);
      if (shards == 1) continue;
      int64_t from_row = ProductOf(from_->dims(), from + 1, segment.from_end);
      int64_t to_row = ProductOf(to_->dims(), to + 1, segment.to_end);
      int64_t from_size = from_->dims()[from], to_size = to_->dims()[to];
      if (from_row == 0 || from_size == 0) continue;
      // The other dims of the run must be whole: digits there stay behind.
      auto [kept, mapped] = is_result
                                ? MapLayout(rule_.layouts(), to_->dims(), from_->dims(), layout)
                                : MapLayout(rule_.layouts(), from_->dims(), to_->dims(), layout);
      std::vector<AxisList> operand = (is_result ? mapped : kept)->dims;
      std::vector<AxisList> result = (is_result ? kept : mapped)->dims;
      for (size_t d = segment.from_begin; d < segment.from_end; ++d) operand[d].clear();
      for (size_t d = segment.to_begin; d < segment.to_end; ++d) result[d].clear();
      operand[from] = result[to] = axes;
      Shift shift{segment.from_begin, segment.from_end, from, to, std::gcd(from_row, to_row), {}};
      int64_t length = CeilOfRatio(to_size, shards) * to_row / shift.unit;
      shift.range = {
          .size = from_size * (from_row / shift.unit), .scale = length, .length = length};
      candidates_.push_back({rule_.layouts().WithDims(layout, std::move(operand)),
                             rule_.layouts().WithDims(layout, std::move(result)), shift});
    }
  }

  // Digits that the reshape cannot keep cut a dim meanwhile that it does not touch.
  void ConsiderMoved(const MeshLayout* layout, bool is_result) {
    Dims own = is_result ? to_->dims() : from_->dims();
    Dims other = is_result ? from_->dims() : to_->dims();
    auto [kept, mapped] = MapLayout(rule_.layouts(), own, other, layout);
    if (kept == layout) return;
    for (const Segment& segment : Segments(own, other)) {
      bool untouched =
          segment.from_end - segment.from_begin == 1 && segment.to_end - segment.to_begin == 1;
      if (!untouched || !layout->dims[segment.from_begin].empty()) continue;
      AxisList lost;
      for (size_t d = 0; d < own.size(); ++d) {
        if (layout->dims[d] != kept->dims[d]) lost = JoinedAxes(lost, layout->dims[d]);
      }
      if (own[segment.from_begin] % AxesSize(lost) != 0) continue;
      std::vector<AxisList> dims = layout->dims;
      for (size_t d = 0; d < own.size(); ++d) {
        if (layout->dims[d] != kept->dims[d]) dims[d].clear();
      }
      dims[segment.from_begin] = lost;
      const MeshLayout* moved = rule_.layouts().WithDims(layout, std::move(dims));
      auto [near, far] = MapLayout(rule_.layouts(), own, other, moved);
      candidates_.push_back({is_result ? far : near, is_result ? near : far, std::nullopt});
    }
  }

  // Bytes of one unit along the run of a shifted candidate.
  double UnitBytes(const Candidate& candidate) const {
    const Shift& shift = *candidate.shift;
    double bytes = static_cast<double>(DTypeBits(from_->dtype())) / 8;
    for (int64_t d = 0; d < from_->rank(); ++d) {
      auto at = static_cast<size_t>(d);
      if (at >= shift.from_begin && at < shift.from_end) continue;
      bytes *= static_cast<double>(CeilOfRatio(from_->dim(d), candidate.operand->Count(d)));
    }
    return bytes * static_cast<double>(shift.unit);
  }

  double CostOf(const Candidate& candidate) {
    PartitionRun& run = rule_.scope().run();
    double cost = rule_.scope().ReshardCost(*rule_.operand(0), candidate.operand);
    if (candidate.result != wanted_) {
      cost += run.planner.Plan(to_, candidate.result, wanted_).cost;
    }
    if (candidate.shift) {
      double bytes = UnitBytes(candidate);
      const Shift& shift = *candidate.shift;
      int64_t shards = AxesSize(candidate.result->dims[shift.to_dim]);
      int64_t size = from_->dim(static_cast<int64_t>(shift.from_dim));
      int64_t tile = CeilOfRatio(size, shards) * (shift.range.size / size);
      HaloPlan plan = PlanRange(shift.range, shards, bytes, tile);
      cost += bytes * static_cast<double>(plan.elements_received) +
              run.options.bytes_per_message * static_cast<double>(plan.messages);
    }
    // Of equals the smallest tiles: perhaps nobody needs the value where its sharding has it.
    return cost + static_cast<double>(to_->element_count()) /
                      static_cast<double>(candidate.result->TileCount()) *
                      run.options.bytes_per_flop;
  }

  PartitionedValue* Emit(const Candidate& candidate) {
    Instruction* local = rule_.Operand(0, candidate.operand);
    if (candidate.shift) local = Shifted(local, candidate);
    Instruction* locals[] = {local};
    const MeshLayout* results[] = {candidate.result};
    return rule_.Emit(locals, results);
  }

  Instruction* Shifted(Instruction* local, const Candidate& candidate) {
    const Shift& shift = *candidate.shift;
    std::span<const int64_t> dims = local->shape()->dims();
    std::vector<int64_t> flat(dims.begin(), dims.begin() + static_cast<int64_t>(shift.from_begin));
    flat.push_back(ProductOf(dims, shift.from_begin, shift.from_end) / shift.unit);
    flat.push_back(shift.unit);
    flat.insert(flat.end(), dims.begin() + static_cast<int64_t>(shift.from_end), dims.end());
    local = rule_.builder().Reshape(local, flat);
    return FetchPositions(rule_.scope(), local, static_cast<int64_t>(shift.from_begin),
                          /*is_cut=*/true, candidate.operand,
                          candidate.operand->dims[shift.from_dim], shift.range, nullptr,
                          rule_.Cause());
  }

  PartitionContext& rule_;
  const Shape* from_;
  const Shape* to_;
  const MeshLayout* wanted_;
  std::vector<Candidate> candidates_;
};

}  // namespace

RuleResult Reshape(PartitionContext& rule) { return ReshapeRule(rule).Run(); }

namespace {

// No layout, or the usual one: elements in row-major order.
bool IsRowMajor(const Shape* shape) {
  if (shape->layout() == nullptr) return true;
  std::span<const int64_t> order = shape->layout()->minor_to_major;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != shape->rank() - 1 - static_cast<int64_t>(i)) return false;
  }
  return true;
}

}  // namespace

// A bitcast reads the same bytes in another shape; it is a reshape where both are row-major.
RuleResult Bitcast(PartitionContext& rule) {
  const Shape* from = rule.operand_shape(0);
  const Shape* to = rule.source().shape();
  bool is_reshape = from->dtype() == to->dtype() && IsRowMajor(from) && IsRowMajor(to);
  return is_reshape ? Reshape(rule) : rule.Default();
}

}  // namespace gshard::partition_rules
