// Pointwise operations: every dim may be cut, all operands alike.
#include <algorithm>

#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

namespace {

// The usual case: every operand is at hand (or made for nothing) where the result is wanted.
PartitionedValue* InPlace(PartitionContext& rule) {
  const MeshLayout* wanted = rule.wanted();
  if (wanted->kind != MeshLayout::Kind::kTiled) return nullptr;
  const MeshLayout* scalar = nullptr;
  constexpr size_t kMax = 4;
  if (rule.operands().size() > kMax) return nullptr;
  Instruction* locals[kMax];
  for (bool emit : {false, true}) {
    for (size_t i = 0; i < rule.operands().size(); ++i) {
      PartitionedValue* operand = rule.operands()[i];
      const MeshLayout* layout = wanted;
      if (operand->shape->rank() == 0 && wanted->rank() != 0) {
        if (scalar == nullptr) scalar = rule.Whole(0);
        layout = scalar;
      }
      if (emit) {
        locals[i] = rule.Operand(static_cast<int64_t>(i), layout);
      } else if (!rule.scope().IsAvailableWithoutCommunication(*operand, layout)) {
        return nullptr;
      }
    }
  }
  const MeshLayout* results[] = {wanted};
  return rule.Emit({locals, rule.operands().size()}, results);
}

// A widening convert is made where it is needed: its operand is cheaper to move.
const MeshLayout* SameLayout(PartitionScope&, const PartitionedValue&, const MeshLayout* layout) {
  return layout;
}

Instruction* MakeConvert(PartitionScope& scope, const PartitionedValue& value,
                         const MeshLayout* layout) {
  ReshardCause cause{.user = value.source, .value = value.source->operand(0)};
  Instruction* operands[] = {scope.Reshard(value.payload, layout, cause)};
  return scope.CloneLocal(value.source, operands, LocalShape(scope.context(), value.shape, layout));
}

constexpr PartitionedValue::Rematerializer kConvert = {MakeConvert, SameLayout, SameLayout};

}  // namespace

RuleResult Convert(PartitionContext& rule) {
  const Shape* from = rule.operand_shape(0);
  const Shape* to = rule.source().shape();
  if (DTypeBits(to->dtype()) < DTypeBits(from->dtype())) return Pointwise(rule);
  return rule.scope().NewRematerializable(to, &rule.source(), &kConvert, rule.operand(0));
}

RuleResult Pointwise(PartitionContext& rule) {
  // A copy of a tuple: the elements keep their layouts.
  if (rule.source().shape()->IsTuple()) return rule.operand(0);
  if (PartitionedValue* result = InPlace(rule)) return result;
  const Shape* shape = rule.source().shape();
  Labels labels = Labels::Pointwise(static_cast<int64_t>(rule.operands().size()), shape->rank());
  // A scalar predicate or bound goes with every element.
  for (size_t i = 0; i < rule.operands().size(); ++i) {
    if (rule.operands()[i]->shape->rank() == 0) labels.operands[i].clear();
  }
  return rule.ByLabels(labels);
}

// Between types of different width the minor dim comes, goes or changes its size.
RuleResult BitcastConvert(PartitionContext& rule) {
  const Shape* from = rule.operand_shape(0);
  const Shape* to = rule.source().shape();
  if (SameDims(from, to)) return Pointwise(rule);
  Labels labels;
  labels.operands.emplace_back();
  labels.results.emplace_back();
  int64_t common = std::min(from->rank(), to->rank());
  for (int64_t d = 0; d < common; ++d) {
    int label = from->dim(d) == to->dim(d) ? labels.Add() : Labels::kWhole;
    labels.operands[0].push_back(label);
    labels.results[0].push_back(label);
  }
  labels.operands[0].resize(static_cast<size_t>(from->rank()), Labels::kWhole);
  labels.results[0].resize(static_cast<size_t>(to->rank()), Labels::kWhole);
  return rule.ByLabels(labels);
}

RuleResult Whole(PartitionContext& rule) { return rule.Default(); }

}  // namespace gshard::partition_rules
