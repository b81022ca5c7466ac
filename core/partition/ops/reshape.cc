// Reshapes keep the digits of dims whose tiles are whole runs of elements on both sides.
#include <algorithm>
#include <numeric>

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

}  // namespace

RuleResult Reshape(PartitionContext& rule) {
  PartitionedValue* operand = rule.operand(0);
  const Shape* from = operand->shape;
  const Shape* to = rule.source().shape();
  MeshLayoutTable& layouts = rule.layouts();

  // Candidates: what the result wants, mapped back, and what the operand has, mapped forward.
  std::vector<std::pair<const MeshLayout*, const MeshLayout*>> candidates;
  const MeshLayout* wanted = rule.wanted();
  if (wanted->IsMaximal()) wanted = rule.Whole(to->rank());
  auto [result_side, operand_side] = MapLayout(layouts, to->dims(), from->dims(), wanted);
  candidates.emplace_back(operand_side, result_side);
  if (result_side == wanted && rule.scope().IsAtHand(*operand, operand_side)) {
    Instruction* locals[] = {rule.Operand(0, operand_side)};
    return rule.Emit(locals, {&wanted, 1});
  }
  auto consider = [&](const MeshLayout* layout) {
    if (layout->kind != MeshLayout::Kind::kTiled || layout->manual != wanted->manual) return;
    candidates.push_back(MapLayout(layouts, from->dims(), to->dims(), layouts.Reduced(layout)));
  };
  std::vector<const MeshLayout*> seen;
  rule.scope().CollectLayouts(*operand, seen);
  for (const MeshLayout* layout : seen) consider(layout);
  double least = 0;
  const std::pair<const MeshLayout*, const MeshLayout*>* best = nullptr;
  for (const auto& candidate : candidates) {
    double cost = rule.scope().ReshardCost(*operand, candidate.first);
    if (candidate.second != wanted) {
      cost += rule.scope().run().planner.Plan(to, candidate.second, wanted).cost;
    }
    // Of equals the smallest tiles: perhaps nobody needs the value where its sharding has it.
    cost += static_cast<double>(to->element_count()) /
            static_cast<double>(candidate.second->TileCount()) *
            rule.scope().run().options.bytes_per_flop;
    if (best == nullptr || cost < least) {
      least = cost;
      best = &candidate;
    }
  }
  Instruction* locals[] = {rule.Operand(0, best->first)};
  const MeshLayout* results[] = {best->second};
  return rule.Emit(locals, results);
}

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
