#include "core/propagation/shardy/engine.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "ir/dims.h"

namespace gshard::shardy {
namespace {

constexpr int kForward = 1, kBackward = 2, kBoth = 3;
constexpr int kTiers = 4;

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
    return op.is_constraint && !op.is_result && !op.results[0].inside;
  };
  std::vector<int> agreed(graph.tensors.size(), -1);  // the constraint's tensor; -2: they differ
  for (const Operation& op : graph.operations) {
    if (!dictates(op)) continue;
    int& of = agreed[At(op.operands[0].tensor)];
    const int tensor = op.results[0].tensor;
    if (of == -1) {
      of = tensor;
    } else if (of >= 0 && !SameDims(graph.tensors[At(of)], graph.tensors[At(tensor)])) {
      of = -2;
    }
  }
  for (const Operation& op : graph.operations) {
    if (!dictates(op)) continue;
    Tensor& operand = graph.tensors[At(op.operands[0].tensor)];
    const Tensor& constraint = graph.tensors[At(op.results[0].tensor)];
    if (!constraint.IsClosed() || operand.HasSharding() || operand.is_edge_target ||
        agreed[At(op.operands[0].tensor)] < 0) {
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

class Propagation {
 public:
  Propagation(Graph& graph, std::vector<Growth>* growths)
      : graph_(graph),
        growths_(growths),
        users_(graph.tensors.size()),
        stale_(graph.operations.size(), 1) {
    for (size_t i = 0; i < graph.operations.size(); ++i) {
      const Operation& op = graph.operations[i];
      for (const auto* views : {&op.operands, &op.results}) {
        for (const View& view : *views) {
          users_[At(view.tensor)].push_back(static_cast<uint32_t>(i));
        }
      }
    }
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
        if (!dim.axes.empty()) priorities.insert(dim.priority);
      }
    }
    for (const int64_t priority : priorities) {
      priority_ = priority;
      for (tier_ = 0; tier_ < kTiers; ++tier_) RunTier(priority != *priorities.begin());
    }
  }

 private:
  int DirectionOf(const Operation& op, int tier) const {
    int direction = 0;
    switch (op.op_class) {
      case OpClass::kPassThrough:
        direction = tier == 0 ? EarlyDirection(op) : kBoth;
        break;
      case OpClass::kDynamicSlice:
        direction = tier < 2 ? kForward : kBoth;
        break;
      case OpClass::kOther:
        direction = tier < 2 ? 0 : kBoth;
        break;
      case OpClass::kBroadcast:
        direction = tier < 2 ? 0 : tier == 2 ? kBackward : kBoth;
        break;
    }
    return direction & op.allowed;
  }

  // Before all others only what nobody else uses is settled.
  int EarlyDirection(const Operation& op) const {
    bool single = true, closed = true;
    for (const View& view : op.operands) {
      const Tensor& tensor = graph_.tensors[At(view.tensor)];
      if (tensor.uses <= 1) continue;
      single = false;
      closed = closed && tensor.IsClosed();
    }
    return single ? kBoth : closed ? kBackward : 0;
  }

  void RunTier(bool all) {
    for (size_t i = 0; i < graph_.operations.size(); ++i) {
      const Operation& op = graph_.operations[i];
      const bool other = tier_ == 0 || DirectionOf(op, tier_) != DirectionOf(op, tier_ - 1);
      if (other || (all && tier_ == 0)) stale_[i] = 1;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < graph_.operations.size(); ++i) {
        if (stale_[i] == 0) continue;
        const Operation& op = graph_.operations[i];
        const int direction = DirectionOf(op, tier_);
        if (direction == 0) continue;
        stale_[i] = 0;
        if (HasAxes(op)) changed |= Visit(op, direction);
      }
    }
  }

  bool HasAxes(const Operation& op) const {
    for (const auto* views : {&op.operands, &op.results}) {
      for (const View& view : *views) {
        for (const Dim& dim : graph_.tensors[At(view.tensor)].dims) {
          if (!dim.axes.empty()) return true;
        }
      }
    }
    return false;
  }

  // --- one operation

  struct Side {
    const View* view;
    const std::vector<FactorList>* dims;
    bool is_result;
    Projection projection;
  };

  // What a factor could be cut by.
  struct Candidate {
    int factor = 0;
    AxisList axes;
    bool passes = false;
    int64_t elements = 0;  // of the largest tensor that has all of the axes
    int64_t shards = 1;
    size_t source = 0;  // index of the side it is
  };

  bool Visit(const Operation& op, int direction) {
    Project(op);
    std::vector<Candidate> candidates;
    for (size_t f = 0; f < op.relation->factors.size(); ++f) {
      if (op.relation->factors[f].blocked) continue;
      std::optional<Candidate> candidate = CandidateOf(op, static_cast<int>(f), direction);
      if (candidate) candidates.push_back(std::move(*candidate));
    }
    std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
      return std::tuple(!a.passes, -a.elements, -a.shards, a.source) <
             std::tuple(!b.passes, -b.elements, -b.shards, b.source);
    });
    for (const Candidate& candidate : candidates) Take(op, candidate, direction);
    bool changed = false;
    for (Side& side : sides_) changed |= Write(op, side, candidates);
    return changed;
  }

  void Project(const Operation& op) {
    sides_.clear();
    const auto add = [&](const std::vector<View>& views,
                         const std::vector<std::vector<FactorList>>& dims, bool is_result) {
      for (size_t i = 0; i < views.size(); ++i) {
        const Tensor& tensor = graph_.tensors[At(views[i].tensor)];
        sides_.push_back({&views[i], &dims[i], is_result,
                          ProjectToFactors(tensor, views[i], dims[i], op.relation->factors,
                                           priority_)});
      }
    };
    add(op.operands, op.relation->operands, false);
    add(op.results, op.relation->results, true);
  }

  std::optional<Candidate> CandidateOf(const Operation& op, int factor, int direction) const {
    Candidate candidate;
    candidate.factor = factor;
    size_t tensors = 0;
    bool conflict = false;
    for (const Side& side : sides_) {
      const Projection::Entry* entry = side.projection.Find(factor);
      if (entry == nullptr) continue;
      ++tensors;
      if (entry->axes.empty()) continue;
      if (candidate.axes.empty() && !conflict) {
        candidate.axes = entry->axes;
      } else {
        candidate.axes = Joined(candidate.axes, entry->axes);
        conflict = candidate.axes.empty();
      }
      if (conflict) return std::nullopt;
    }
    if (tensors < 2 || candidate.axes.empty()) return std::nullopt;
    if (direction != kBoth) LimitToGivers(candidate, direction == kForward);
    if (candidate.axes.empty()) return std::nullopt;
    candidate.passes = op.relation->factors[At(factor)].kind == FactorKind::kPassThrough;
    candidate.shards = SizeOf(candidate.axes);
    bool found = false;
    for (size_t i = 0; i < sides_.size(); ++i) {
      const Projection::Entry* entry = sides_[i].projection.Find(factor);
      if (entry == nullptr || !IsPrefix(candidate.axes, entry->axes)) continue;
      const int64_t elements = ElementsOf(sides_[i]);
      if (found && elements <= candidate.elements) continue;
      found = true;
      candidate.elements = elements;
      candidate.source = i;
    }
    return candidate;
  }

  int64_t ElementsOf(const Side& side) const {
    return graph_.tensors[At(side.view->tensor)].shape->element_count();
  }

  // In one direction only what the giving side has goes on.
  void LimitToGivers(Candidate& candidate, bool forward) const {
    AxisList given;
    for (const Side& side : sides_) {
      const Projection::Entry* entry = side.projection.Find(candidate.factor);
      if (entry == nullptr || side.is_result == forward) continue;
      AxisList common = CommonPrefix(candidate.axes, entry->axes);
      if (SizeOf(common) > SizeOf(given)) given = std::move(common);
    }
    candidate.axes = std::move(given);
  }

  // Results first; in element by element operations operands take only what the results have.
  void Take(const Operation& op, const Candidate& candidate, int direction) {
    if ((direction & kForward) != 0) {
      for (Side& side : sides_) {
        if (side.is_result) Extend(side, candidate.factor, candidate.axes);
      }
    }
    if ((direction & kBackward) == 0) return;
    AxisList limited = candidate.axes;
    if (op.op_class == OpClass::kPassThrough) {
      for (const Side& side : sides_) {
        const Projection::Entry* entry =
            side.is_result ? side.projection.Find(candidate.factor) : nullptr;
        if (entry != nullptr) limited = CommonPrefix(limited, entry->axes);
      }
    }
    for (Side& side : sides_) {
      if (!side.is_result) Extend(side, candidate.factor, limited);
    }
  }

  // As many of the axes as are free in this tensor, behind those that it has.
  static void Extend(Side& side, int factor, const AxisList& axes) {
    Projection::Entry* entry = side.projection.Find(factor);
    if (entry == nullptr || entry->fixed || !IsPrefix(entry->axes, axes)) return;
    AxisList used = side.projection.taken;
    for (const Projection::Entry& other : side.projection.entries) {
      if (&other != entry) used.insert(used.end(), other.axes.begin(), other.axes.end());
    }
    for (const AxisRef& axis : Rest(axes, entry->axes)) {
      const std::optional<AxisRef> free = FreeMajorPart(axis, used);
      if (!free) return;
      Append(entry->axes, *free);
      entry->changed = true;
      if (free->size != axis.size) return;
    }
  }

  bool Write(const Operation& op, Side& side, const std::vector<Candidate>& candidates) {
    const bool any = std::ranges::any_of(side.projection.entries,
                                         [](const Projection::Entry& e) { return e.changed; });
    if (!any) return false;
    Tensor& tensor = graph_.tensors[At(side.view->tensor)];
    if (!WriteBack(side.projection, *side.view, *side.dims, op.relation->factors, tensor)) {
      return false;
    }
    if (tensor.mesh == nullptr) tensor.mesh = graph_.mesh;
    if (growths_ != nullptr) Record(op, side, candidates);
    Queue(side.view->tensor);
    const int group = group_of_[At(side.view->tensor)];
    if (group >= 0) AlignGroup(graph_.groups[At(group)]);
    return true;
  }

  void Record(const Operation& op, const Side& side, const std::vector<Candidate>& candidates) {
    for (const Projection::Entry& entry : side.projection.entries) {
      if (!entry.changed) continue;
      int from = -1;
      for (const Candidate& candidate : candidates) {
        if (candidate.factor == entry.factor) from = sides_[candidate.source].view->tensor;
      }
      growths_->push_back(
          {&op, side.view->tensor, entry.dim, entry.factor, from, tier_, priority_});
    }
  }

  void Queue(int tensor) {
    for (const uint32_t op : users_[At(tensor)]) stale_[op] = 1;
  }

  // The members of a sharding group have one sharding: the first that has any.
  void AlignGroup(const std::vector<int>& group) {
    const Tensor* best = nullptr;
    int64_t most = 0;
    for (const int member : group) {
      const Tensor& tensor = graph_.tensors[At(member)];
      int64_t shards = 1;
      for (const Dim& dim : tensor.dims) shards *= SizeOf(dim.axes);
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
  std::vector<std::vector<uint32_t>> users_;  // operations by tensor
  std::vector<uint8_t> stale_;                // by operation: a tensor changed since its last visit
  std::vector<int> group_of_;
  std::vector<Side> sides_;
  int tier_ = 0;
  int64_t priority_ = 0;
};

}  // namespace

void Propagate(Graph& graph, std::vector<Growth>* growths) {
  ApplyConstraints(graph);
  Propagation(graph, growths).Run();
}

}  // namespace gshard::shardy
