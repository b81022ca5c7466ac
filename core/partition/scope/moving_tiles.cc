#include "core/partition/scope/moving_tiles.h"

#include <algorithm>

namespace gshard {

namespace {

class MovingTiles {
 public:
  MovingTiles(PartitionScope& scope, const Labels& labels,
              std::span<PartitionedValue* const> operands, std::span<const Shape* const> results,
              std::span<const MeshLayout* const> wanted)
      : scope_(scope),
        labels_(labels),
        operands_(operands),
        results_(results),
        best_(ChooseStrategy(scope, labels, operands, results, wanted)) {
    for (const MeshLayout* layout : wanted) {
      wanted_.push_back(
          layout->IsMaximal() ? scope.layouts().ReplicatedLike(wanted[0], layout->rank()) : layout);
    }
  }

  Strategy Run() {
    for (size_t r = 0; r < results_.size(); ++r) Suggest(labels_.results[r], wanted_[r]);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const PartitionedValue& operand = *operands_[i];
      if (operand.IsTuple()) continue;
      for (const PartitionedValue::Variant& variant : operand.variants) {
        Suggest(labels_.operands[i], variant.layout);
      }
    }
    return std::move(best_);
  }

 private:
  // Tries the sub-axes of whole dims on every labelled dim of a tensor that lies in `layout`.
  void Suggest(const std::vector<int>& dims, const MeshLayout* layout) {
    if (layout->kind != MeshLayout::Kind::kTiled || layout->manual != wanted_[0]->manual) return;
    AxisList moving;
    std::vector<AxisList> cut(labels_.labels.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == Labels::kWhole) {
        moving = JoinedAxes(moving, layout->dims[d]);
      } else {
        cut[static_cast<size_t>(dims[d])] = layout->dims[d];
      }
    }
    if (moving.empty()) return;
    for (int label : dims) {
      if (label == Labels::kWhole || labels_.labels[static_cast<size_t>(label)].summed) continue;
      std::vector<AxisList> moved = cut;
      AxisList& target = moved[static_cast<size_t>(label)];
      target = JoinedAxes(target, moving);
      Try(layout, moved, label);
    }
  }

  void Try(const MeshLayout* frame, const std::vector<AxisList>& cut, int target) {
    std::vector<const MeshLayout*> hints;
    for (size_t r = 0; r < results_.size(); ++r) {
      const std::vector<int>& dims = labels_.results[r];
      std::vector<AxisList> axes;
      for (size_t d = 0; d < dims.size(); ++d) {
        axes.push_back(dims[d] == Labels::kWhole ? AxisList() : cut[static_cast<size_t>(dims[d])]);
        if (dims[d] == target &&
            results_[r]->dim(static_cast<int64_t>(d)) < AxesSize(axes.back())) {
          return;  // more tiles than elements
        }
      }
      hints.push_back(scope_.layouts().WithDims(frame, std::move(axes)));
    }
    if (std::find(tried_.begin(), tried_.end(), hints) != tried_.end()) return;
    tried_.push_back(hints);
    Strategy strategy = ChooseStrategy(scope_, labels_, operands_, results_, hints);
    for (size_t r = 0; r < results_.size(); ++r) {
      if (hints[r] == wanted_[r]) continue;
      strategy.cost += scope_.run().planner.Plan(results_[r], hints[r], wanted_[r]).cost;
    }
    if (strategy.cost < best_.cost) best_ = std::move(strategy);
  }

  PartitionScope& scope_;
  const Labels& labels_;
  std::span<PartitionedValue* const> operands_;
  std::span<const Shape* const> results_;
  std::vector<const MeshLayout*> wanted_;
  std::vector<std::vector<const MeshLayout*>> tried_;
  Strategy best_;
};

}  // namespace

Strategy ChooseMovingTiles(PartitionScope& scope, const Labels& labels,
                           std::span<PartitionedValue* const> operands,
                           std::span<const Shape* const> results,
                           std::span<const MeshLayout* const> wanted) {
  return MovingTiles(scope, labels, operands, results, wanted).Run();
}

Strategy ChooseMovingTiles(PartitionContext& rule, const Labels& labels) {
  return ChooseMovingTiles(rule.scope(), labels, rule.operands(), rule.ResultShapes(),
                           rule.wanted_leaves());
}

PartitionedValue* ByLabelsMovingTiles(PartitionContext& rule, const Labels& labels) {
  Strategy strategy = ChooseMovingTiles(rule, labels);
  std::vector<Instruction*> locals;
  for (size_t i = 0; i < rule.operands().size(); ++i) {
    locals.push_back(rule.Operand(static_cast<int64_t>(i), strategy.operands[i]));
  }
  return rule.Emit(locals, strategy.results);
}

}  // namespace gshard
