#include "core/propagation/shardy/engine.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "core/propagation/shardy/projection.h"
#include "ir/dims.h"

namespace gshard::shardy {
namespace {

constexpr int kForward = 1, kBackward = 2, kBoth = 3;
constexpr int kTiers = 5;
// Up to here only factors that need no communication give axes.
constexpr int kLastPassingTier = 2;
constexpr size_t kNobody = SIZE_MAX;

bool SameDims(const Tensor& a, const Tensor& b) {
  if (a.dims.size() != b.dims.size()) return false;
  for (size_t d = 0; d < a.dims.size(); ++d) {
    if (a.dims[d].axes != b.dims[d].axes) return false;
  }
  return a.replicated == b.replicated && a.unreduced == b.unreduced;
}

// A constraint with closed dims says what its operand is to be, if nothing else does.
void ApplyConstraints(Graph& graph) {
  const auto dictates = [](const Operation& op) {
    return op.is_constraint && !op.is_result && !op.results()[0].inside;
  };
  std::vector<int> agreed(graph.tensors.size(), -1);  // the constraint's tensor; -2: they differ
  for (const Operation& op : graph.operations) {
    if (!dictates(op)) continue;
    int& of = agreed[At(op.operands()[0].tensor)];
    const int tensor = op.results()[0].tensor;
    if (of == -1) {
      of = tensor;
    } else if (of >= 0 && !SameDims(graph.tensors[At(of)], graph.tensors[At(tensor)])) {
      of = -2;
    }
  }
  for (const Operation& op : graph.operations) {
    if (!dictates(op)) continue;
    Tensor& operand = graph.tensors[At(op.operands()[0].tensor)];
    const Tensor& constraint = graph.tensors[At(op.results()[0].tensor)];
    if (!constraint.IsClosed() || operand.HasSharding() || operand.is_edge_target ||
        agreed[At(op.operands()[0].tensor)] < 0) {
      continue;
    }
    operand.mesh = constraint.mesh;
    operand.replicated = constraint.replicated;
    operand.unreduced = constraint.unreduced;
    for (size_t d = 0; d < operand.dims.size(); ++d) {
      operand.dims[d].axes = constraint.dims[d].axes;
      operand.dims[d].open = false;
    }
  }
}

// Some of the operations, by index.
class OperationSet {
 public:
  explicit OperationSet(size_t operations) : words_((operations + 63) / 64), end_(operations) {}
  void Add(size_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  void Remove(size_t i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  bool Has(size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  // Adds what is in both of these.
  void AddCommon(const OperationSet& a, const OperationSet& b) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= a.words_[w] & b.words_[w];
  }
  // The first member that is not below i; the number of operations if there is none.
  size_t FirstFrom(size_t i) const {
    if (i >= end_) return end_;
    uint64_t word = words_[i / 64] & (~uint64_t{0} << (i % 64));
    for (size_t w = i / 64; word == 0;) {
      if (++w == words_.size()) return end_;
      word = words_[w];
      i = 64 * w;
    }
    return i / 64 * 64 + static_cast<size_t>(std::countr_zero(word));
  }

 private:
  std::vector<uint64_t> words_;
  size_t end_;
};

class Propagation {
 public:
  Propagation(Graph& graph, std::vector<Growth>* growths)
      : graph_(graph),
        growths_(growths),
        first_user_(graph.tensors.size() + 2),
        stale_(graph.operations.size()),
        idle_(stale_),
        has_axes_(stale_),
        early_directions_(graph.operations.size()) {
    FindRenewed();
    // Users of tensor t are counted at t + 2, so that their places are found at t + 1.
    for (const Operation& op : graph.operations) {
      for (const View& view : op.views) ++first_user_[At(view.tensor) + 2];
    }
    std::partial_sum(first_user_.begin(), first_user_.end(), first_user_.begin());
    users_.resize(first_user_.back());
    for (size_t i = 0; i < graph.operations.size(); ++i) {
      for (const View& view : graph.operations[i].views) {
        users_[first_user_[At(view.tensor) + 1]++] = static_cast<uint32_t>(i);
      }
    }
    for (size_t t = 0; t < graph.tensors.size(); ++t) {
      for (const Dim& dim : graph.tensors[t].dims) {
        if (!dim.axes.empty()) Queue(static_cast<int>(t));
      }
    }
    if (graph.groups.empty()) return;
    group_of_.assign(graph.tensors.size(), -1);
    for (size_t g = 0; g < graph.groups.size(); ++g) {
      for (const int tensor : graph.groups[g]) group_of_[At(tensor)] = static_cast<int>(g);
    }
  }

  void Run() {
    for (const std::vector<int>& group : graph_.groups) AlignGroup(group);
    std::set<int64_t> priorities = {0};
    for (const Tensor& tensor : graph_.tensors) {
      for (const Dim& dim : tensor.dims) {
        // An empty open dim waits for its priority to receive axes.
        if (!dim.axes.empty() || dim.open) priorities.insert(dim.priority);
      }
    }
    for (const int64_t priority : priorities) {
      priority_ = priority;
      for (tier_ = 0; tier_ < kTiers; ++tier_) RunTier(priority != *priorities.begin());
    }
  }

 private:
  int DirectionOf(size_t i, int tier) const {
    const Operation& op = graph_.operations[i];
    int direction = 0;
    switch (op.op_class) {
      case OpClass::kPassThrough:
        direction = tier == 0 ? early_directions_[i] : kBoth;
        break;
      case OpClass::kDynamicSlice:
        direction = tier < 2 ? kForward : kBoth;
        break;
      case OpClass::kOther:
        direction = tier < 2 ? 0 : kBoth;
        break;
      case OpClass::kBroadcast:
        direction = tier < 2 ? 0 : tier < 4 ? kBackward : kBoth;
        break;
    }
    return direction & op.allowed;
  }

  // Directions depend on uses and on which dims are closed: neither changes any more.
  void FindRenewed() {
    renewed_.assign(kTiers, OperationSet(graph_.operations.size()));
    for (size_t i = 0; i < graph_.operations.size(); ++i) {
      const Operation& op = graph_.operations[i];
      const bool passes = op.op_class == OpClass::kPassThrough;
      if (passes) early_directions_[i] = static_cast<uint8_t>(EarlyDirection(op));
      const int tier = passes ? 1 : 2;
      if (DirectionOf(i, tier) != DirectionOf(i, tier - 1)) renewed_[At(tier)].Add(i);
      if (!op.relation->passes_only) renewed_[kLastPassingTier + 1].Add(i);
      if (op.op_class == OpClass::kBroadcast) renewed_[kTiers - 1].Add(i);
    }
  }

  // Before all others only what nobody else uses is settled.
  int EarlyDirection(const Operation& op) const {
    if (op.is_edge) return kBoth;
    bool single = true, closed = true;
    for (const View& view : op.operands()) {
      const Tensor& tensor = graph_.tensors[At(view.tensor)];
      if (tensor.uses <= 1) continue;
      single = false;
      closed = closed && tensor.IsClosed();
    }
    return single ? kBoth : closed ? kBackward : 0;
  }

  void RunTier(bool all) {
    if (tier_ > 0) {
      stale_.AddCommon(has_axes_, renewed_[At(tier_)]);
    } else if (all) {
      stale_.AddCommon(has_axes_, has_axes_);
    }
    // A work list, as Shardy has it: first all operations in the order of the text. One that
    // becomes stale when it has had its turn comes next, before those that have not.
    for (position_ = stale_.FirstFrom(0);;) {
      size_t i = position_;
      if (!again_.empty()) {
        i = again_.back();
        again_.pop_back();
      } else if (i == graph_.operations.size()) {
        return;
      }
      stale_.Remove(i);
      // One that has no direction yet is stale again when it gets one.
      const int direction = idle_.Has(i) ? 0 : DirectionOf(i, tier_);
      idle_.Remove(i);
      if (direction != 0) Visit(i, direction);
      if (again_.empty()) position_ = stale_.FirstFrom(position_);
    }
  }

  // --- one operation

  // What a factor could be cut by.
  struct Candidate {
    int factor = 0;
    Axes axes;
    bool passes = false;
    int64_t elements = 0;  // of the largest tensor that has all of the axes
    size_t source = 0;     // index of that tensor among the operation's
  };

  void Visit(size_t index, int direction) {
    const Operation& op = graph_.operations[index];
    const IndexedRelation& relation = *op.relation;
    ProjectToFactors(relation, op.views, graph_.tensors, priority_, *graph_.axes, projection_);
    candidates_.clear();
    is_limited_ = false;
    for (size_t f = 0; f < relation.factors.size(); ++f) {
      const Factor& factor = relation.factors[f];
      if (tier_ <= kLastPassingTier && factor.kind != FactorKind::kPassThrough) continue;
      if (factor.blocked || AreAlike(relation.SlotsOf(f))) continue;
      AddCandidate(op, f, direction);
    }
    if (candidates_.empty()) return;
    if (candidates_.size() > 1 || growths_ != nullptr) {
      for (Candidate& candidate : candidates_) FindSource(op, candidate);
    }
    SortCandidates(op);
    projection_.changed.assign(relation.slots.size(), 0);
    grown_.assign(op.views.size(), 0);
    bool any = false;
    for (const Candidate& candidate : candidates_) any |= Take(op, candidate, direction);
    if (!any) return;
    Write(op, IsSettled(op) ? index : kNobody);
  }

  void SortCandidates(const Operation& op) {
    if (candidates_.size() < 2) return;
    // Of equally large tensors the one that is cut finer leads, but in operations that are not
    // element by element the first one.
    const bool finer_first = op.op_class == OpClass::kPassThrough;
    const auto key = [finer_first](const Candidate& c) {
      const int64_t finer = -c.axes.shards();
      return std::tuple(!c.passes, -c.elements, finer_first ? finer : 0, c.source, finer, c.factor);
    };
    std::ranges::sort(candidates_, {}, key);
  }

  // Would another visit with what this one has found change nothing? For each factor all lists are
  // then beginnings of one list, and what a tensor could not take of it is in use there: the more
  // it takes, the less is free. Dims of several factors could give axes to the next factor now.
  bool IsSettled(const Operation& op) const {
    if (is_limited_ || !op.relation->is_plain) return false;
    constexpr size_t kFewTensors = 8;  // of which all pairs are looked at
    if (op.views.size() > kFewTensors) return false;
    for (size_t i = 0; i < op.views.size(); ++i) {
      if (op.views[i].inside) return false;
      for (size_t k = 0; k < i; ++k) {
        if (op.views[k].tensor == op.views[i].tensor || AreGrouped(op.views[k], op.views[i])) {
          return false;
        }
      }
    }
    return true;
  }

  bool AreGrouped(const View& a, const View& b) const {
    if (group_of_.empty()) return false;
    const int group = group_of_[At(a.tensor)];
    return group >= 0 && group == group_of_[At(b.tensor)];
  }

  // Has an operand before it, which is the same value, taken something? What this one would take
  // did not know of it: the operation has another turn.
  bool IsWrittenBefore(const Operation& op, size_t index) const {
    for (size_t i = 0; i < index; ++i) {
      if (grown_[i] != 0 && op.views[i].tensor == op.views[index].tensor) return true;
    }
    return false;
  }

  // Has a tensor behind it, which is to have the same sharding, been written? The last one's
  // sharding becomes the group's, and what this one would take did not know of it.
  bool IsAlignedBehind(const Operation& op, size_t index) const {
    for (size_t i = index + 1; i < op.views.size(); ++i) {
      if (grown_[i] != 0 && AreGrouped(op.views[i], op.views[index])) return true;
    }
    return false;
  }

  // Nobody has axes of the factor that another has not.
  bool AreAlike(std::span<const uint32_t> slots) const {
    for (size_t i = 1; i < slots.size(); ++i) {
      if (projection_.axes[slots[i]] != projection_.axes[slots[0]]) return false;
    }
    return true;
  }

  void AddCandidate(const Operation& op, size_t factor, int direction) {
    const std::span<const uint32_t> slots = op.relation->SlotsOf(factor);
    Candidate candidate;
    candidate.factor = static_cast<int>(factor);
    for (const uint32_t slot : slots) {
      const Axes axes = projection_.axes[slot];
      if (axes.empty()) continue;
      if (candidate.axes.empty()) {
        candidate.axes = axes;
      } else {
        const Axes before = candidate.axes;
        candidate.axes = Joined(*graph_.axes, before, axes);
        is_limited_ |= candidate.axes != before && candidate.axes != axes;  // a conflict
        if (candidate.axes.empty()) return;
      }
    }
    if (direction != kBoth) LimitToGivers(op, candidate, direction == kForward);
    if (candidate.axes.empty()) return;
    candidate.passes = op.relation->factors[factor].kind == FactorKind::kPassThrough;
    candidates_.push_back(candidate);
  }

  // The size of a tensor as Shardy has it: the product of its factors. Dims of a convolution's
  // window that the image has no factor for, as with a stride of 1, count as 1.
  static int64_t SizeByFactors(const Operation& op, size_t tensor) {
    const bool is_kernel = tensor == 1 && op.instruction != nullptr &&
                           op.instruction->opcode() == Opcode::kConvolution;
    int64_t size = 1;
    for (const IndexedRelation::Slot& slot : op.relation->SlotsOfTensor(tensor)) {
      if (is_kernel && op.relation->SlotsOf(At(slot.factor)).size() == 1) continue;
      size *= op.relation->factors[At(slot.factor)].size;
    }
    return size;
  }

  // The largest tensor that has all of its axes, the first of those.
  void FindSource(const Operation& op, Candidate& candidate) {
    bool found = false;
    for (const uint32_t slot : op.relation->SlotsOf(At(candidate.factor))) {
      if (!IsPrefix(candidate.axes, projection_.axes[slot])) continue;
      const size_t source = At(op.relation->slots[slot].tensor);
      const int64_t elements = SizeByFactors(op, source);
      if (found && elements <= candidate.elements) continue;
      found = true;
      candidate.elements = elements;
      candidate.source = source;
    }
  }

  Tensor& TensorOf(const Operation& op, size_t index) {
    return graph_.tensors[At(op.views[index].tensor)];
  }
  static bool IsResult(const Operation& op, uint32_t slot) {
    return At(op.relation->slots[slot].tensor) >= op.operand_count;
  }

  // In one direction only what the giving side has goes on.
  void LimitToGivers(const Operation& op, Candidate& candidate, bool forward) {
    Axes given;
    for (const uint32_t slot : op.relation->SlotsOf(At(candidate.factor))) {
      if (IsResult(op, slot) == forward) continue;
      const Axes common = CommonPrefix(*graph_.axes, candidate.axes, projection_.axes[slot]);
      if (common.shards() > given.shards()) given = common;
    }
    candidate.axes = given;
  }

  // Results first; in element by element operations operands take only what the results have. True
  // if anything has been taken.
  bool Take(const Operation& op, const Candidate& candidate, int direction) {
    const std::span<const uint32_t> slots = op.relation->SlotsOf(At(candidate.factor));
    bool any = false;
    if ((direction & kForward) != 0) {
      for (const uint32_t slot : slots) {
        if (IsResult(op, slot)) any |= Extend(op, slot, candidate.axes);
      }
    }
    if ((direction & kBackward) == 0) return any;
    Axes limited = candidate.axes;
    if (op.op_class == OpClass::kPassThrough) {
      for (const uint32_t slot : slots) {
        if (!IsResult(op, slot)) continue;
        limited = CommonPrefix(*graph_.axes, limited, projection_.axes[slot]);
      }
    }
    for (const uint32_t slot : slots) {
      if (!IsResult(op, slot)) any |= Extend(op, slot, limited);
    }
    return any;
  }

  // As many of the axes as are free in this tensor, behind those that it has. True if any are.
  bool Extend(const Operation& op, uint32_t slot, Axes axes) {
    const Axes before = projection_.axes[slot];
    if (before == axes || !IsPrefix(before, axes)) return false;
    const IndexedRelation::Slot& place = op.relation->slots[slot];
    const Dim& dim = TensorOf(op, At(place.tensor)).dims[At(place.dim)];
    if (!dim.open || dim.priority > priority_) return false;
    bool all_free = before.empty();
    ForEachUsedBeside(op, slot, [&](const AxisRef& used) {
      for (const AxisRef& axis : axes.list()) all_free = all_free && !Overlap(axis, used);
    });
    const Axes after = all_free ? axes : FreePart(op, slot, before, axes);
    if (after == before) return false;
    is_limited_ |= !all_free;
    projection_.axes[slot] = after;
    projection_.changed[slot] = 1;
    grown_[At(place.tensor)] = 1;
    return true;
  }

  // `before`, and behind it what of `axes` follows and is free.
  Axes FreePart(const Operation& op, uint32_t slot, Axes before, Axes axes) {
    used_.clear();
    ForEachUsedBeside(op, slot, [&](const AxisRef& axis) { used_.push_back(axis); });
    // The last axis of `before` may be a part of the one there.
    const size_t kept = before.empty() ? 0 : before.list().size() - 1;
    const std::span<const AxisRef> rest = axes.list().subspan(kept);
    if (!FreeMajorPart(rest[0], used_)) return before;
    AxisList taken(before.list().begin(), before.list().begin() + static_cast<int64_t>(kept));
    for (const AxisRef& axis : rest) {
      const std::optional<AxisRef> free = FreeMajorPart(axis, used_);
      if (!free) break;
      Append(taken, *free);
      if (free->size != axis.size) break;
    }
    return IsPrefix(before, taken) ? graph_.axes->Make(taken) : before;
  }

  // Axes that the slot's tensor has in another slot or in none, and those that may not cut it.
  template <typename Visit>
  void ForEachUsedBeside(const Operation& op, uint32_t slot, const Visit& visit) {
    const size_t index = At(op.relation->slots[slot].tensor);
    const Tensor& tensor = TensorOf(op, index);
    std::ranges::for_each(tensor.replicated.list(), visit);
    std::ranges::for_each(tensor.unreduced.list(), visit);
    for (const Dim& dim : tensor.dims) {
      const size_t hidden = op.views[index].inside ? At(dim.manual) : 0;
      const auto axes = dim.axes.list();
      std::ranges::for_each(dim.priority > priority_ ? axes : axes.first(hidden), visit);
    }
    for (const Projection::Leftover& leftover : projection_.leftovers) {
      if (leftover.tensor == index) visit(leftover.axis);
    }
    for (uint32_t s = op.relation->first_slot[index]; s < op.relation->first_slot[index + 1]; ++s) {
      if (s != slot) std::ranges::for_each(projection_.axes[s].list(), visit);
    }
  }

  // `by`: the operation's index, if another visit is of no use.
  void Write(const Operation& op, size_t by) {
    for (size_t i = op.views.size(); i-- > 0;) {
      if (grown_[i] == 0) continue;
      const View& view = op.views[i];
      grown_[i] = !IsWrittenBefore(op, i) && !IsAlignedBehind(op, i) &&
                  WriteBack(*op.relation, i, projection_, view, *graph_.axes, TensorOf(op, i));
    }
    for (size_t i = 0; i < op.views.size(); ++i) {
      if (grown_[i] != 0) Announce(op, i, by);
    }
  }

  void Announce(const Operation& op, size_t index, size_t by) {
    Tensor& tensor = TensorOf(op, index);
    if (tensor.mesh == nullptr) tensor.mesh = graph_.mesh;
    if (growths_ != nullptr) Record(op, index);
    Queue(op.views[index].tensor, by);
    const int group = group_of_.empty() ? -1 : group_of_[At(op.views[index].tensor)];
    if (group >= 0) AlignGroup(graph_.groups[At(group)]);
  }

  void Record(const Operation& op, size_t index) {
    for (uint32_t s = op.relation->first_slot[index]; s < op.relation->first_slot[index + 1]; ++s) {
      if (projection_.changed[s] == 0) continue;
      const IndexedRelation::Slot& slot = op.relation->slots[s];
      int from = -1;
      for (const Candidate& candidate : candidates_) {
        if (candidate.factor == slot.factor) from = op.views[candidate.source].tensor;
      }
      growths_->push_back(
          {&op, op.views[index].tensor, slot.dim, slot.factor, from, tier_, priority_});
    }
  }

  // All operations that have the tensor are visited again, but for `by`, unless others change
  // something as well. It has its place among them all the same, since their order matters.
  void Queue(int tensor, size_t by = kNobody) {
    const size_t first = first_user_[At(tensor)], end = first_user_[At(tensor) + 1];
    for (size_t i = first; i < end; ++i) {
      const uint32_t user = users_[i];
      has_axes_.Add(user);
      if (user != by) idle_.Remove(user);
      if (stale_.Has(user)) continue;
      stale_.Add(user);
      if (user == by) idle_.Add(user);
      if (user <= position_) again_.push_back(user);
    }
  }

  // Do the axes continue those of the dim, and are they free otherwise? Lists only grow: else two
  // members of a group could take turns for ever.
  static bool MayGrow(const Tensor& tensor, size_t dim, Axes axes) {
    if (!IsPrefix(tensor.dims[dim].axes, axes)) return false;
    const auto is_free = [&](const AxisRef& used) {
      return std::ranges::none_of(axes.list(),
                                  [&](const AxisRef& axis) { return Overlap(axis, used); });
    };
    bool free = std::ranges::all_of(tensor.replicated.list(), is_free) &&
                std::ranges::all_of(tensor.unreduced.list(), is_free);
    for (size_t d = 0; d < tensor.dims.size(); ++d) {
      free = free && (d == dim || std::ranges::all_of(tensor.dims[d].axes.list(), is_free));
    }
    return free;
  }

  // The members of a sharding group have one sharding: the first that has any.
  void AlignGroup(const std::vector<int>& group) {
    const Tensor* best = nullptr;
    int64_t most = 0;
    for (const int member : group) {
      const Tensor& tensor = graph_.tensors[At(member)];
      int64_t shards = 1;
      for (const Dim& dim : tensor.dims) shards *= dim.axes.shards();
      if (tensor.HasSharding() && shards > most) {
        best = &tensor;
        most = shards;
      }
    }
    if (best == nullptr) return;
    for (const int member : group) {
      Tensor& tensor = graph_.tensors[At(member)];
      if (&tensor == best || tensor.dims.size() != best->dims.size()) continue;
      bool grown = false;
      for (size_t d = 0; d < tensor.dims.size(); ++d) {
        if (!tensor.dims[d].open || tensor.dims[d].axes == best->dims[d].axes) continue;
        if (!MayGrow(tensor, d, best->dims[d].axes)) continue;
        tensor.dims[d].axes = best->dims[d].axes;
        grown = true;
      }
      if (!grown) continue;
      tensor.mesh = best->mesh;
      Queue(member);
    }
  }

  Graph& graph_;
  std::vector<Growth>* growths_;
  std::vector<uint32_t> first_user_, users_;  // operations by tensor
  OperationSet stale_;                        // a tensor changed since the last visit
  OperationSet idle_;                         // of these: they have changed it themselves only
  OperationSet has_axes_;                     // of any tensor: others have nothing to give
  std::vector<OperationSet> renewed_;      // by tier: those that may do more than in the one before
  std::vector<uint8_t> early_directions_;  // of OpClass::kPassThrough in tier 0, by operation
  std::vector<int> group_of_;              // by tensor; empty without groups
  Projection projection_;                  // of the visit at hand, as are
  std::vector<Candidate> candidates_;
  std::vector<uint8_t> grown_;  // by operand, then result
  AxisList used_;               // where a part of a list is looked for
  bool is_limited_ = false;     // there was a conflict, or part of a list had to do
  int tier_ = 0;
  int64_t priority_ = 0;
  size_t position_ = 0;          // up to here operations have had their turn in this tier
  std::vector<uint32_t> again_;  // stale ones of these, the next to visit at the back
};

}  // namespace

void Propagate(Graph& graph, std::vector<Growth>* growths) {
  ApplyConstraints(graph);
  Propagation(graph, growths).Run();
}

}  // namespace gshard::shardy
