// Values that are made in place: iota, constants, device ids.
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

namespace {

const Shape* ShapeIn(PartitionScope& scope, const PartitionedValue& value,
                     const MeshLayout* layout) {
  return LocalShape(scope.context(), value.shape, layout);
}

Instruction* MakeSplat(PartitionScope& scope, const PartitionedValue& value,
                       const MeshLayout* layout) {
  const Shape* shape = ShapeIn(scope, value, layout);
  const Literal* literal = value.source->attributes<ConstantAttributes>().literal;
  if (shape == value.shape) return scope.CloneLocal(value.source, {}, shape);
  Arena& arena = scope.run().module.arena();
  auto element = literal->data.first(static_cast<size_t>(StorageBytes(shape->dtype())));
  const Shape* scalar = scope.context().Scalar(shape->dtype());
  Instruction* one = scope.builder().Constant(RawLiteral(arena, scalar, element));
  Instruction* local = scope.builder().BroadcastScalar(one, shape->dims());
  local->set_shape(shape);
  scope.TakeName(local, value.source);
  return local;
}

Instruction* MakeIota(PartitionScope& scope, const PartitionedValue& value,
                      const MeshLayout* layout) {
  const Shape* shape = ShapeIn(scope, value, layout);
  int64_t dim = value.source->attributes<IotaAttributes>().dimension;
  Builder& builder = scope.builder();
  bool is_cut = layout->kind == MeshLayout::Kind::kTiled && layout->IsSharded(dim);
  if (!is_cut) return scope.CloneLocal(value.source, {}, shape);
  Instruction* offset = scope.geometry().Offset(value.shape, layout, dim);
  Instruction* local = nullptr;
  if (IsInteger(shape->dtype())) {
    offset = builder.Convert(offset, shape->dtype());
    local = builder.Add(Opcode::kAdd,
                        {builder.Iota(shape, dim), builder.BroadcastScalar(offset, shape->dims())});
  } else {  // add as integers: large positions are not exact in narrow types
    Instruction* positions = scope.geometry().Positions(shape->dims(), dim, offset);
    local = builder.Convert(positions, shape->dtype());
  }
  local->set_shape(shape);
  scope.TakeName(local, value.source);
  return local;
}

constexpr PartitionedValue::Rematerializer kSplat = {MakeSplat, nullptr, nullptr};
constexpr PartitionedValue::Rematerializer kIota = {MakeIota, nullptr, nullptr};

}  // namespace

RuleResult Constant(PartitionContext& rule) {
  const Shape* shape = rule.source().shape();
  const Literal* literal = rule.attributes<ConstantAttributes>().literal;
  if (shape->IsArray() && !literal->elided && IsSplat(*literal)) {
    return rule.scope().NewRematerializable(shape, &rule.source(), &kSplat);
  }
  return rule.Default();
}

RuleResult Iota(PartitionContext& rule) {
  return rule.scope().NewRematerializable(rule.source().shape(), &rule.source(), &kIota);
}

RuleResult DeviceId(PartitionContext& rule) {
  if (rule.source().opcode() == Opcode::kPartitionId && !rule.wanted()->IsManual() &&
      rule.wanted()->manual.empty()) {
    return rule.Error("E-PARTITION-003",
                      "partition-id has no meaning before partitioning except in manual regions",
                      kPartitionedAlready);
  }
  return rule.Result(rule.EmitLocal({}, rule.source().shape()), rule.wanted());
}

}  // namespace gshard::partition_rules
