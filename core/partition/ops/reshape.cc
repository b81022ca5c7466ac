// Reshapes keep the sub-axes of dims whose tiles are whole runs of elements on both sides; where
// tiles of leading dims are runs of different lengths, a halo exchange moves the boundaries.
#include <algorithm>
#include <numeric>
#include <optional>

#include "core/partition/ops/rules.h"
#include "core/partition/scope/dim_range.h"
#include "ir/dims.h"

namespace gshard::partition_rules {

namespace {

// Tiles of a leading dim of the operand hold other numbers of elements than tiles of the result's
// leading dim, which the same sub-axes cut: boundaries move by runs of `unit` elements.
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
    const auto [result_side, operand_side] = Map(to_, from_, wanted_);
    candidates_.push_back({operand_side, result_side, std::nullopt});
    if (result_side == wanted_ &&
        rule_.scope().IsAvailableWithoutCommunication(*rule_.operand(0), operand_side)) {
      return Emit(candidates_[0]);
    }
    // As XLA does it where the result's tiles cannot be the operand's: in the operand's.
    if (!rule_.scope().run().options.policies.place_by_cost && result_side != wanted_) {
      const MeshLayout* own = PartitionScope::LayoutOf(*rule_.operand(0));
      if (own->kind == MeshLayout::Kind::kTiled && own->manual == wanted_->manual) {
        const auto [operand, result] = Map(from_, to_, own);
        if (operand == own) return Emit({operand, result, std::nullopt});
      }
    }
    ConsiderShift(wanted_, /*is_result=*/true);
    ConsiderMoved(wanted_, /*is_result=*/true);
    std::vector<const MeshLayout*> seen;
    rule_.scope().CollectLayouts(*rule_.operand(0), seen);
    for (const MeshLayout* layout : seen) {
      if (layout->kind != MeshLayout::Kind::kTiled || layout->manual != wanted_->manual) continue;
      layout = rule_.layouts().Reduced(layout);
      const auto [operand, result] = Map(from_, to_, layout);
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
  const ReshapedLayouts& Map(const Shape* from, const Shape* to, const MeshLayout* layout) {
    return rule_.scope().run().tables.reshapes.Map(from, to, layout);
  }

  // The same sub-axes on the leading dims of one run, whatever the tiles' lengths.
  void ConsiderShift(const MeshLayout* layout, bool is_result) {
    for (const ReshapeSegment& segment : Segments(from_->dims(), to_->dims())) {
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
      // The other dims of the run must be whole: sub-axes there stay behind.
      const auto [kept, mapped] = is_result ? Map(to_, from_, layout) : Map(from_, to_, layout);
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

  // Sub-axes that the reshape cannot keep cut a dim meanwhile that it does not touch.
  void ConsiderMoved(const MeshLayout* layout, bool is_result) {
    const Shape* own_shape = is_result ? to_ : from_;
    const Shape* other_shape = is_result ? from_ : to_;
    Dims own = own_shape->dims();
    const auto [kept, mapped] = Map(own_shape, other_shape, layout);
    if (kept == layout) return;
    for (const ReshapeSegment& segment : Segments(own, other_shape->dims())) {
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
      const auto [near, far] = Map(own_shape, other_shape, moved);
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
    return FetchPositions(rule_.scope(), local,
                          {static_cast<int64_t>(shift.from_begin), candidate.operand,
                           candidate.operand->dims[shift.from_dim]},
                          /*is_cut=*/true, shift.range, nullptr, rule_.Cause());
  }

  PartitionContext& rule_;
  const Shape* from_;
  const Shape* to_;
  const MeshLayout* wanted_;
  std::vector<Candidate> candidates_;
};

}  // namespace

RuleResult Reshape(PartitionContext& rule) { return ReshapeRule(rule).Run(); }

// A bitcast reads the same bytes in another shape; it is a reshape where both are row-major.
RuleResult Bitcast(PartitionContext& rule) {
  const Shape* from = rule.operand_shape(0);
  const Shape* to = rule.source().shape();
  bool is_reshape = from->dtype() == to->dtype() && IsRowMajor(from) && IsRowMajor(to);
  if (is_reshape) return Reshape(rule);
  if (IsRowMajor(from)) return rule.Default();
  // What is gathered lies row by row: it is brought into the layout in which its bytes are read.
  Instruction* whole = rule.Operand(0, rule.Whole(from->rank()));
  if (whole->shape() != from) whole = rule.builder().Add(Opcode::kCopy, {whole}, from);
  Instruction* operands[] = {whole};
  return rule.Result(rule.EmitLocal(operands, to), rule.Whole(to->rank()));
}

}  // namespace gshard::partition_rules
