// Broadcasts are made anew in every layout they are needed in: what has to move is the operand.
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

namespace {

const MeshLayout* OperandLayout(PartitionScope& scope, const PartitionedValue& value,
                                const MeshLayout* layout) {
  if (value.payload->shape->rank() == 0) return scope.layouts().ReplicatedLike(layout, 0);
  Dims dimensions = value.source->attributes<DimensionsAttributes>().dimensions;
  std::vector<const AxisList*> dims;
  for (size_t k = 0; k < dimensions.size(); ++k) {
    bool expands = value.payload->shape->dims()[k] != value.shape->dim(dimensions[k]);
    dims.push_back(expands ? &NoAxes() : &layout->axes(dimensions[k]));
  }
  return scope.layouts().WithDims(layout, dims);
}

const MeshLayout* ResultLayout(PartitionScope& scope, const PartitionedValue& value,
                               const MeshLayout* layout) {
  Dims dimensions = value.source->attributes<DimensionsAttributes>().dimensions;
  std::vector<const AxisList*> dims(static_cast<size_t>(value.shape->rank()), &NoAxes());
  for (size_t k = 0; k < dimensions.size(); ++k) {
    if (value.payload->shape->dims()[k] == value.shape->dim(dimensions[k])) {
      dims[static_cast<size_t>(dimensions[k])] = &layout->dims[k];
    }
  }
  return scope.layouts().WithDims(layout, dims);
}

Instruction* Make(PartitionScope& scope, const PartitionedValue& value, const MeshLayout* layout) {
  ReshardCause cause{.user = value.source, .value = value.source->operand(0)};
  const MeshLayout* operand_layout =
      layout->kind == MeshLayout::Kind::kTiled
          ? OperandLayout(scope, value, layout)
          : scope.layouts().ReplicatedLike(layout, value.payload->shape->rank());
  Instruction* operands[] = {scope.Reshard(value.payload, operand_layout, cause)};
  return scope.CloneLocal(value.source, operands, LocalShape(scope.context(), value.shape, layout));
}

constexpr PartitionedValue::Rematerializer kMaker = {Make, OperandLayout, ResultLayout};

}  // namespace

RuleResult Broadcast(PartitionContext& rule) {
  return rule.scope().NewRematerializable(rule.source().shape(), &rule.source(), &kMaker,
                                          rule.operand(0));
}

}  // namespace gshard::partition_rules
