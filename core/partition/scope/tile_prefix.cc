#include "core/partition/scope/tile_prefix.h"

#include <bit>

#include "core/partition/scope/halo.h"

namespace gshard {

namespace {

// Rounds of permutes: one brings the total of the neighbour, each further one doubles the reach.
int64_t RoundsOf(int64_t tiles) {
  if (tiles <= 1) return 0;
  return 1 + static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(tiles - 2)));
}

class Permutes {
 public:
  Permutes(PartitionContext& rule, const TilePrefix& prefix) : rule_(rule), prefix_(prefix) {}

  // Inclusive prefixes of the totals shifted by one tile: after the round of distance s, a tile has
  // the fold of the (at most) 2s tiles before it.
  FoldValues Run(const TileFold& fold, const FoldValues& totals, const FoldValues& inits) {
    Builder& builder = rule_.builder();
    Instruction* is_first = IsTile(rule_, prefix_, prefix_.First());
    FoldValues carry =
        FromEarlier(SelectAll(builder, is_first, fold.combine(inits, totals), totals), 1, 1);
    for (int64_t distance = 1; distance < prefix_.tiles - 1; distance *= 2) {
      FoldValues earlier = FromEarlier(carry, distance, 1 + distance);
      carry = SelectAll(builder, HasEarlier(1 + distance), fold.combine(earlier, carry), carry);
    }
    return SelectAll(builder, is_first, inits, carry);
  }

 private:
  // Place of a tile in the order of the operation, and back.
  int64_t Turned(int64_t tile) const {
    return prefix_.is_reverse ? prefix_.tiles - 1 - tile : tile;
  }

  // The values of the tile `distance` places earlier, for places from `least` on.
  FoldValues FromEarlier(const FoldValues& values, int64_t distance, int64_t least) {
    const AxisList& axes = prefix_.layout->axes(prefix_.dim);
    std::vector<int64_t> source_of(static_cast<size_t>(AxesSize(axes)), -1);
    for (int64_t place = least; place < prefix_.tiles; ++place) {
      source_of[static_cast<size_t>(Turned(place))] = Turned(place - distance);
    }
    FoldValues moved;
    for (Instruction* value : values) {
      moved.push_back(
          PermuteTiles(rule_.scope(), value, prefix_.layout, axes, source_of, rule_.Cause()));
    }
    return moved;
  }

  // Is the own tile at place `least` or later?
  Instruction* HasEarlier(int64_t least) {
    Instruction* ordinal =
        rule_.geometry().Ordinal(prefix_.layout->axes(prefix_.dim), prefix_.layout->order);
    auto direction = prefix_.is_reverse ? ComparisonDirection::kLe : ComparisonDirection::kGe;
    return rule_.builder().Compare(direction, ordinal, rule_.geometry().Int(Turned(least)));
  }

  PartitionContext& rule_;
  const TilePrefix& prefix_;
};

}  // namespace

PrefixPlan PlanPrefix(const PartitionOptions& options, double bytes, int64_t tiles) {
  auto rounds = static_cast<double>(RoundsOf(tiles));
  double gathered = static_cast<double>(tiles - 1) * bytes;
  double permuted = rounds * bytes;
  bool saves = tiles > 1 && permuted + (rounds - 1) * options.bytes_per_round < gathered;
  return {saves, saves ? permuted : gathered};
}

FoldValues CarryIntoTile(PartitionContext& rule, const TilePrefix& prefix, const PrefixPlan& plan,
                         const TileFold& fold, const FoldValues& totals, const FoldValues& inits) {
  if (prefix.tiles == 1) return inits;
  if (plan.by_permutes) return Permutes(rule, prefix).Run(fold, totals, inits);
  FoldValues gathered;
  for (Instruction* total : totals) {
    Instruction* all = rule.scope().AllGather(total, prefix.dim, prefix.layout,
                                              prefix.layout->axes(prefix.dim), rule.Cause());
    gathered.push_back(rule.builder().SliceDim(all, prefix.dim, 0, prefix.tiles));
  }
  return fold.carry(gathered);
}

Instruction* IsTile(PartitionContext& rule, const TilePrefix& prefix, int64_t ordinal) {
  Instruction* own = rule.geometry().Ordinal(prefix.layout->axes(prefix.dim), prefix.layout->order);
  return rule.builder().Compare(ComparisonDirection::kEq, own, rule.geometry().Int(ordinal));
}

FoldValues SelectAll(Builder& builder, Instruction* predicate, const FoldValues& on_true,
                     const FoldValues& on_false) {
  FoldValues chosen;
  for (size_t i = 0; i < on_true.size(); ++i) {
    Instruction* mask = builder.BroadcastScalar(predicate, on_true[i]->shape()->dims());
    chosen.push_back(builder.Select(mask, on_true[i], on_false[i]));
  }
  return chosen;
}

}  // namespace gshard
