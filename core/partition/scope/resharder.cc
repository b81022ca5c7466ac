// Carries out reshard plans: the collectives and the local reshapes and transposes between them.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/partition/layout/device_permutation.h"
#include "core/partition/scope/halo.h"
#include "core/partition/scope/masking.h"
#include "core/partition/scope/partition_scope.h"
#include "core/partition/scope/range_cut.h"
#include "core/partition/scope/recompute.h"
#include "ir/dims.h"

namespace gshard {

namespace {

// What follows the first `count` combinations of sub-axes: {4,2} after 2 is {2,2}.
AxisList AfterPrefix(const AxisList& list, int64_t count) {
  AxisList rest;
  for (const DeviceAxis& axis : list) {
    if (count == 1) {
      rest.push_back(axis);
    } else if (count >= axis.size) {
      count /= axis.size;
    } else {
      rest.push_back({axis.size / count, axis.stride});
      count = 1;
    }
  }
  return rest;
}

// Carries one value from layout to layout.
class PlanRunner {
 public:
  PlanRunner(PartitionScope& scope, const Shape* shape, const MeshLayout* from,
             const MeshLayout* to, Instruction* local, const ReshardCause& cause)
      : scope_(scope),
        builder_(scope.builder()),
        shape_(shape),
        to_(to),
        local_(local),
        cause_(cause),
        state_(StateOf(shape, from)) {
    // Axes of an unordered value are those of any order.
    layout_ = from->TileCount() > 1 || !from->unreduced.empty() ? from : to;
    combiner_ = from->unreduced.empty() ? to->combiner : from->combiner;
  }

  Instruction* Run(const ReshardPlan& plan) {
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      const ReshardStep* step = &plan.steps[i];
      // Slices in a row are one.
      if (step->kind == ReshardKind::kSlice) {
        while (i + 1 < plan.steps.size() && plan.steps[i + 1].kind == ReshardKind::kSlice) ++i;
        step = &plan.steps[i];
      }
      bool is_last = i + 1 == plan.steps.size();
      Take(*step);
      state_ = step->after;
      for (int64_t d = 0; d < shape_->rank(); ++d) {
        // A whole dim loses its padding, unless it is cut again at once.
        bool is_cut_next = !is_last && !plan.steps[i + 1].after.dims[At(d)].empty();
        if (Tiles(d) == 1 && !is_cut_next) {
          local_ = scope_.Resize(local_, d, state_.tiles[At(d)]);
        }
      }
    }
    return local_;
  }

 private:
  int64_t Tiles(int64_t dim) const { return AxesSize(state_.dims[At(dim)]); }

  void Take(const ReshardStep& step) {
    switch (step.kind) {
      case ReshardKind::kRetile:
        for (int64_t d = 0; d < shape_->rank(); ++d) Retile(d, step.after.tiles[At(d)]);
        break;
      case ReshardKind::kSlice:
        Slice(step.after);
        break;
      case ReshardKind::kAllGather: {
        const ReshardMove& move = step.moves[0];
        local_ = scope_.AllGather(local_, move.from, layout_, move.axes, cause_);
        break;
      }
      case ReshardKind::kGatherBySum:
        GatherBySum(step.moves[0]);
        break;
      case ReshardKind::kAllToAll:
        AllToAll(step.after);
        break;
      case ReshardKind::kPermute:
        Permute(step);
        break;
      case ReshardKind::kAllReduce:
        local_ = scope_.AllReduce(local_, layout_, step.moves[0].axes, combiner_, cause_);
        break;
      case ReshardKind::kReduceScatter: {
        const ReshardMove& move = step.moves[0];
        Retile(move.to, step.after.tiles[At(move.to)] * AxesSize(move.axes));
        local_ = scope_.ReduceScatter(local_, move.to, layout_, move.axes, combiner_, cause_);
        break;
      }
      case ReshardKind::kPartial: {
        Instruction* ordinal = scope_.geometry().Ordinal(step.moves[0].axes, layout_->order);
        Instruction* is_first =
            builder_.Compare(ComparisonDirection::kEq, ordinal, scope_.geometry().Int(0));
        std::span<const int64_t> dims = local_->shape()->dims();
        DType dtype = local_->shape()->dtype();
        Instruction* identity = to_->combiner == Opcode::kAdd
                                    ? ReductionIdentity(scope_, dtype)
                                    : Identity(scope_, to_->combiner, dtype);
        local_ = builder_.Add(Opcode::kSelect, {builder_.BroadcastScalar(is_first, dims), local_,
                                                builder_.BroadcastScalar(identity, dims)});
        break;
      }
    }
  }

  // Everybody puts its tile where it belongs among zeros; the sum has them all. Floats are summed
  // as integers, so that no bit changes.
  void GatherBySum(const ReshardMove& move) {
    int64_t dim = move.from;
    const AxisList& axes = move.axes;
    DType dtype = local_->shape()->dtype();
    DType summed = dtype;
    if (IsFloat(dtype)) {
      int bits = DTypeBits(dtype);
      summed = bits == 8    ? DType::kU8
               : bits == 16 ? DType::kU16
               : bits == 32 ? DType::kU32
                            : DType::kU64;
    }
    std::span<const int64_t> sizes = local_->shape()->dims();
    if (summed != dtype) {
      local_ =
          builder_.Add(Opcode::kBitcastConvert, {local_}, scope_.context().Array(summed, sizes));
    }
    int64_t tile = local_->shape()->dim(dim);
    // Of the minor sub-axes that stay, all elements lie with the first of those that leave.
    bool all_leave = AxesSize(axes) == Tiles(dim);
    int64_t filled = all_leave ? CeilOfRatio(shape_->dim(dim), tile) : 1;
    Instruction* ordinal = scope_.geometry().Ordinal(axes, layout_->order);
    Instruction* has_data =
        builder_.Compare(ComparisonDirection::kLt, ordinal, scope_.geometry().Int(filled));
    Instruction* zero = scope_.geometry().Number(summed, 0);
    local_ = builder_.Add(Opcode::kSelect, {builder_.BroadcastScalar(has_data, sizes), local_,
                                            builder_.BroadcastScalar(zero, sizes)});
    if (filled > 1) {
      std::vector<int64_t> whole(sizes.begin(), sizes.end());
      whole[At(dim)] = filled * tile;
      std::vector<Instruction*> starts(whole.size(), scope_.geometry().Int(0));
      // Starts beyond the end are clamped: zeros over zeros.
      starts[At(dim)] = scope_.geometry().Affine(axes, layout_->order, tile, 0);
      local_ = builder_.DynamicUpdateSlice(builder_.BroadcastScalar(zero, whole), local_, starts);
    }
    Opcode sum = dtype == DType::kPred ? Opcode::kOr : Opcode::kAdd;
    local_ = scope_.AllReduce(local_, layout_, axes, sum, cause_);
    if (summed != dtype) {
      local_ = builder_.Add(Opcode::kBitcastConvert, {local_},
                            scope_.context().Array(dtype, local_->shape()->dims()));
    }
  }

  // Makes the tiles of a dim `tile` long without changing its sub-axes.
  void Retile(int64_t dim, int64_t tile) {
    int64_t now = local_->shape()->dim(dim);
    if (now == tile) return;
    const AxisList& axes = state_.dims[At(dim)];
    if (axes.empty()) {
      local_ = scope_.Resize(local_, dim, tile);
    } else {
      local_ = ExchangeHalo(scope_, local_, {dim, layout_, axes},
                            {.shards = AxesSize(axes),
                             .tile = now,
                             .size = shape_->dim(dim),
                             .scale = tile,
                             .width = tile},
                            cause_);
    }
    state_.tiles[At(dim)] = tile;
  }

  void Slice(const ReshardState& after) {
    std::vector<Instruction*> starts;
    for (int64_t d = 0; d < shape_->rank(); ++d) {
      AxisList gained = AfterPrefix(after.dims[At(d)], Tiles(d));
      int64_t tile = after.tiles[At(d)];
      if (!gained.empty()) Retile(d, AxesSize(gained) * tile);
      starts.push_back(scope_.geometry().Affine(gained, layout_->order, tile, 0));
    }
    local_ = builder_.DynamicSlice(local_, starts, after.tiles);
  }

  // The sub-axes that each dim gains and loses in an all-to-all; the members of a group are
  // numbered by the gained ones, dim by dim.
  struct SubAxisMoves {
    std::vector<AxisList> gained, lost;
    AxisList group;
    AxisList sub_axes;  // that all of them are made of
  };

  // Splits the tiles of dims that gain, too.
  SubAxisMoves FindMoves(const ReshardState& after) {
    const int64_t rank = shape_->rank();
    SubAxisMoves moves{std::vector<AxisList>(At(rank)), std::vector<AxisList>(At(rank)), {}, {}};
    AxisList all;
    for (int64_t d = 0; d < rank; ++d) {
      const AxisList& before = state_.dims[At(d)];
      const AxisList& behind = after.dims[At(d)];
      if (AxesSize(behind) > AxesSize(before)) {
        AxisList& gained = moves.gained[At(d)];
        gained = AfterPrefix(behind, AxesSize(before));
        Retile(d, after.tiles[At(d)] * AxesSize(gained));
        moves.group.insert(moves.group.end(), gained.begin(), gained.end());
      } else if (AxesSize(behind) < AxesSize(before)) {
        AxisList& lost = moves.lost[At(d)];
        lost = AfterPrefix(before, AxesSize(behind));
        all.insert(all.end(), lost.begin(), lost.end());
      }
    }
    all.insert(all.end(), moves.group.begin(), moves.group.end());
    moves.sub_axes = *CommonSubAxes(all, scope_.device_count());
    return moves;
  }

  // Block k goes to member k: gained sub-axes in front, one dim if several dims gain. `sizes` are
  // those of the local dims, before and after; returns where the group's dim stands.
  int64_t Exchange(const SubAxisMoves& moves, const ReshardState& after,
                   std::vector<int64_t>& sizes) {
    const int64_t rank = shape_->rank();
    std::vector<int64_t> gainers;
    for (int64_t d = 0; d < rank; ++d) {
      if (!moves.gained[At(d)].empty()) gainers.push_back(d);
    }
    if (gainers.size() == 1) {
      const int64_t front = gainers[0];
      local_ = scope_.AllToAll(local_, front, layout_, moves.group, cause_);
      sizes[At(front)] = after.tiles[At(front)];
      return front;
    }
    std::vector<int64_t> split, order, tail;
    for (int64_t d = 0; d < rank; ++d) {
      if (!moves.gained[At(d)].empty()) {
        order.push_back(static_cast<int64_t>(split.size()));
        split.push_back(AxesSize(moves.gained[At(d)]));
        sizes[At(d)] = after.tiles[At(d)];
      }
      tail.push_back(static_cast<int64_t>(split.size()));
      split.push_back(sizes[At(d)]);
    }
    order.insert(order.end(), tail.begin(), tail.end());
    local_ = builder_.Transpose(builder_.Reshape(local_, split), order);
    std::vector<int64_t> merged = {AxesSize(moves.group)};
    merged.insert(merged.end(), sizes.begin(), sizes.end());
    local_ = scope_.AllToAll(builder_.Reshape(local_, merged), 0, layout_, moves.group, cause_);
    return 0;
  }

  void AllToAll(const ReshardState& after) {
    const int64_t rank = shape_->rank();
    const SubAxisMoves moves = FindMoves(after);
    std::vector<int64_t> sizes(local_->shape()->dims().begin(), local_->shape()->dims().end());
    const int64_t front = Exchange(moves, after, sizes);

    // Sub-axes of the sender, in front of the dims that lost them.
    std::vector<int64_t> split;
    std::map<int, int64_t> place;  // of a sub-axis in `split`
    std::vector<int64_t> dim_place;
    for (int64_t d = 0; d < rank; ++d) {
      if (d == front) {
        for (const DeviceAxis& axis : moves.group) {
          for (int sub_axis : SubAxesOf(moves.sub_axes, axis)) {
            place[sub_axis] = static_cast<int64_t>(split.size());
            split.push_back(moves.sub_axes[static_cast<size_t>(sub_axis)].size);
          }
        }
      }
      dim_place.push_back(static_cast<int64_t>(split.size()));
      split.push_back(sizes[At(d)]);
    }
    std::vector<int64_t> order, merged;
    for (int64_t d = 0; d < rank; ++d) {
      int64_t size = sizes[At(d)];
      for (const DeviceAxis& axis : moves.lost[At(d)]) {
        for (int sub_axis : SubAxesOf(moves.sub_axes, axis)) order.push_back(place[sub_axis]);
        size *= axis.size;
      }
      order.push_back(dim_place[At(d)]);
      merged.push_back(size);
    }
    Coarsen(split, order);
    local_ = builder_.Transpose(builder_.Reshape(local_, split), order);
    local_ = builder_.Reshape(local_, merged);
  }

  // Joins dims that stay next to each other.
  static void Coarsen(std::vector<int64_t>& split, std::vector<int64_t>& order) {
    std::vector<int64_t> head(split.size(), 1);
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i] == order[i - 1] + 1) head[At(order[i])] = 0;
    }
    std::vector<int64_t> renamed(split.size(), -1), sizes;
    for (size_t p = 0; p < split.size(); ++p) {
      if (head[p] != 0) {
        renamed[p] = static_cast<int64_t>(sizes.size());
        sizes.push_back(split[p]);
      } else {
        sizes.back() *= split[p];
      }
    }
    std::vector<int64_t> shorter;
    for (int64_t p : order) {
      if (renamed[At(p)] >= 0) shorter.push_back(renamed[At(p)]);
    }
    split = std::move(sizes);
    order = std::move(shorter);
  }

  // Each tile from a device that has it; devices that have their tile already keep it.
  void Permute(const ReshardStep& step) {
    MeshLayout from = *layout_, to = *(step.changes_order ? to_ : layout_);
    if (step.changes_order) layout_ = to_;
    from.dims = state_.dims;
    to.dims = step.after.dims;
    std::vector<DevicePair> pairs = PermutationBetween(from, to, scope_.device_count());
    if (pairs.empty()) return;
    local_ = scope_.CollectivePermute(local_, pairs, cause_);
  }

  PartitionScope& scope_;
  Builder& builder_;
  const Shape* shape_;
  const MeshLayout* to_;
  const MeshLayout* layout_;  // gives order and manual sub-axes to the axes in use
  Instruction* local_;
  const ReshardCause& cause_;
  ReshardState state_;
  Opcode combiner_ = Opcode::kAdd;
};

std::string CauseText(MeshLayoutTable& layouts, const ReshardCause& cause, const MeshLayout* from,
                      const MeshLayout* to) {
  std::string_view value = cause.value != nullptr ? cause.value->name() : std::string_view("value");
  const std::string& has = layouts.ToText(from);
  const std::string& wants = layouts.ToText(to);
  if (cause.user == nullptr || cause.user == cause.value) {
    return fmt::format("{} is to be {}, computed as {}", value, wants, has);
  }
  return fmt::format("{} needs {} as {}, has {}", cause.user->name(), value, wants, has);
}

// Is there a plan that does not combine partial values one way and leaves them for another?
bool CanBecome(const MeshLayout* from, const MeshLayout* to) {
  return from->kind == MeshLayout::Kind::kTiled &&
         (from->unreduced.empty() || to->unreduced.empty() || from->combiner == to->combiner);
}

bool IsLocalPlan(const ReshardPlan& plan) { return plan.bytes == 0; }

}  // namespace

bool PartitionScope::IsAvailableWithoutCommunication(const PartitionedValue& value,
                                                     const MeshLayout* layout) {
  if (value.Find(layout) != nullptr) return true;
  if (value.maker == nullptr || !layout->unreduced.empty()) return false;
  if (value.payload == nullptr || value.payload->shape->rank() == 0) return true;
  return IsAvailableWithoutCommunication(*value.payload,
                                         value.maker->payload_layout(*this, value, layout));
}

void PartitionScope::CollectLayouts(const PartitionedValue& value,
                                    std::vector<const MeshLayout*>& layouts) {
  auto add = [&](const MeshLayout* layout) {
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end()) {
      layouts.push_back(layout);
    }
  };
  if (value.maker == nullptr) {
    for (const PartitionedValue::Variant& variant : value.variants) add(variant.layout);
    if (value.required_layout != nullptr) add(value.required_layout);
    return;
  }
  if (value.payload == nullptr || value.payload->shape->rank() == 0) return;
  std::vector<const MeshLayout*> of_payload;
  CollectLayouts(*value.payload, of_payload);
  for (const MeshLayout* layout : of_payload) {
    if (layout->kind == MeshLayout::Kind::kTiled && layout->unreduced.empty()) {
      add(value.maker->value_layout(*this, value, layout));
    }
  }
  if (value.layout != nullptr) add(value.layout);
}

double PartitionScope::ReshardCost(const PartitionedValue& value, const MeshLayout* layout) {
  if (HasNoElements(value.shape)) return 0;
  if (value.maker != nullptr && value.Find(layout) == nullptr) {
    if (value.payload == nullptr || layout->kind != MeshLayout::Kind::kTiled) return 0;
    layout = layouts().Reduced(layout);
    return ReshardCost(*value.payload, value.maker->payload_layout(*this, value, layout));
  }
  double least = std::numeric_limits<double>::infinity();
  for (const PartitionedValue::Variant& variant : value.variants) {
    if (variant.layout == layout) return 0;
    if (variant.layout->kind != MeshLayout::Kind::kTiled ||
        layout->kind != MeshLayout::Kind::kTiled) {
      return variant.layout->IsMaximal() ? 2 * static_cast<double>(value.shape->byte_size()) : 0;
    }
    if (!CanBecome(variant.layout, layout)) continue;
    least = std::min(least, run_.planner.Plan(value.shape, variant.layout, layout).cost);
  }
  if (value.required_layout != nullptr) {
    least = std::min(least, run_.planner.Plan(value.shape, value.required_layout, layout).cost);
  }
  bool is_stuck = least == std::numeric_limits<double>::infinity() && !layout->unreduced.empty();
  return is_stuck ? ReshardCost(value, layouts().Reduced(layout)) : least;
}

// Makes whole everywhere what is on one device: everybody else adds nothing.
void PartitionScope::ShareOwners(PartitionedValue* value, const ReshardCause& cause) {
  const PartitionedValue::Variant first = value->variants[0];
  const MeshLayout* whole = layouts().Replicated(first.layout->rank());
  std::span<const int64_t> dims = first.local->shape()->dims();
  Instruction* is_owner = builder_.Compare(ComparisonDirection::kEq, geometry_.PartitionId(),
                                           geometry_.Int(first.layout->device, DType::kU32));
  Instruction* nothing = ReductionIdentity(*this, value->shape->dtype());
  Instruction* mine =
      builder_.Add(Opcode::kSelect, {builder_.BroadcastScalar(is_owner, dims), first.local,
                                     builder_.BroadcastScalar(nothing, dims)});
  const DeviceAxis everybody[] = {{device_count(), 1}};
  std::string text = CauseText(layouts(), cause, first.layout, whole);
  ReshardCause with_text{
      .user = cause.user, .value = cause.value, .note = text, .has = first.layout, .wants = whole};
  const Opcode merge = DisjointCombiner(value->shape->dtype());
  value->variants.push_back({whole, AllReduce(mine, whole, everybody, merge, with_text)});
}

Instruction* PartitionScope::Recompute(PartitionedValue* value, const MeshLayout* layout) {
  const Instruction* source = value->source;
  std::vector<Instruction*> locals;
  for (const Instruction* x : source->operands()) {
    PartitionedValue* operand = run_.value_of[x->id()];
    const ReshardCause cause{.user = source, .value = x};
    locals.push_back(Reshard(operand, LayoutOfOperand(*this, *operand, layout), cause));
  }
  Instruction* local = CloneLocal(source, locals, LocalShape(context(), value->shape, layout));
  value->variants.push_back({layout, local});
  return local;
}

Instruction* PartitionScope::RematerializeAsXla(PartitionedValue* value,
                                                PartitionedValue::Variant from,
                                                const MeshLayout* layout,
                                                const ReshardCause& cause) {
  if (ExplainRecorder* recorder = run_.options.recorder) {
    recorder->RecordRematerialization({cause.user, cause.value, layouts().ToSharding(from.layout),
                                       layouts().ToSharding(layout), true});
  }
  const MeshLayout* whole = layouts().ReplicatedLike(from.layout, from.layout->rank());
  if (value->Find(whole) == nullptr) {
    PlanRunner gather(*this, value->shape, from.layout, whole, from.local, cause);
    Instruction* gathered = gather.Run(run_.planner.Plan(value->shape, from.layout, whole));
    value->variants.push_back({whole, gathered});
  }
  PlanRunner cut(*this, value->shape, whole, layout, value->Find(whole), cause);
  return cut.Run(run_.planner.Plan(value->shape, whole, layout));
}

Instruction* PartitionScope::Reshard(PartitionedValue* value, const MeshLayout* layout,
                                     const ReshardCause& cause) {
  if (Instruction* local = value->Find(layout)) return local;
  if (layout->IsMaximal()) {  // whole everywhere includes whole on one device
    return Reshard(value, layouts().Replicated(layout->rank()), cause);
  }
  const bool is_local =
      layout->IsManual() || (!value->variants.empty() && value->variants[0].layout->IsManual());
  if (HasNoElements(value->shape) && !is_local) {
    Instruction* local = WithoutElements(*value, layout);
    value->variants.push_back({layout, local});
    return local;
  }
  if (value->maker != nullptr && layout->unreduced.empty()) {
    Instruction* local = value->maker->make(*this, *value, layout);
    value->variants.push_back({layout, local});
    return local;
  }
  auto can_become = [&](const PartitionedValue::Variant& variant) {
    return CanBecome(variant.layout, layout);
  };
  // Made whole, or combined, before it is taken apart.
  if (!layout->unreduced.empty() && std::ranges::none_of(value->variants, can_become)) {
    Reshard(value, layouts().Reduced(layout), cause);
  }
  CheckInternal(!value->variants.empty(), "a value without a local form");
  const PartitionedValue::Variant first = value->variants[0];
  if (!value->shape->IsArray() || is_local) {
    return first.local;
  }
  if (first.layout->IsMaximal() && value->variants.size() == 1) {
    ShareOwners(value, cause);
    return Reshard(value, layout, cause);
  }

  const PartitionedValue::Variant* best = nullptr;
  const ReshardPlan* best_plan = nullptr;
  for (const PartitionedValue::Variant& variant : value->variants) {
    if (!can_become(variant)) continue;
    if (best != nullptr && !run_.options.policies.follow_users) break;  // from its own place
    const ReshardPlan& plan = run_.planner.Plan(value->shape, variant.layout, layout);
    if (best_plan == nullptr || plan.cost < best_plan->cost) {
      best = &variant;
      best_plan = &plan;
    }
  }
  if (value->required_layout != nullptr && value->required_layout != layout &&
      best_plan->bytes > 0 && value->Find(value->required_layout) == nullptr &&
      run_.planner.Plan(value->shape, value->required_layout, layout).cost < best_plan->cost) {
    Reshard(value, value->required_layout, {.user = nullptr, .value = cause.value});
    return Reshard(value, layout, cause);
  }
  if (run_.options.policies.follow_users && !IsLocalPlan(*best_plan) &&
      IsCheaperToRecompute(*this, *value, layout, best_plan->cost)) {
    return Recompute(value, layout);
  }
  std::string text;
  if (run_.options.tells_causes && !IsLocalPlan(*best_plan)) {
    text = CauseText(layouts(), cause, best->layout, layout);
  }
  ReshardCause with_text{.user = cause.user,
                         .value = cause.value,
                         .note = text,
                         .has = best->layout,
                         .wants = layout,
                         .full_rematerialization = best_plan->full_rematerialization};
  run_.stats.full_rematerializations += best_plan->full_rematerialization ? 1 : 0;
  Instruction* local = nullptr;
  if (best_plan->full_rematerialization && !run_.options.policies.search_reshards) {
    local = RematerializeAsXla(value, *best, layout, with_text);
  } else {
    PlanRunner runner(*this, value->shape, best->layout, layout, best->local, with_text);
    local = runner.Run(*best_plan);
  }
  value->variants.push_back({layout, local});
  return local;
}

}  // namespace gshard
