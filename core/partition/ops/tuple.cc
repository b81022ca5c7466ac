// Tuples are taken apart: elements keep their own layouts until somebody needs the tuple.
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

RuleResult Tuple(PartitionContext& rule) {
  return rule.scope().NewTuple(rule.source().shape(), rule.operands());
}

RuleResult GetTupleElement(PartitionContext& rule) {
  auto index = static_cast<size_t>(rule.attributes<GetTupleElementAttributes>().index);
  return rule.operand(0)->elements[index];
}

RuleResult OptBarrier(PartitionContext& rule) {
  std::vector<const MeshLayout*> leaves(rule.wanted_leaves().begin(), rule.wanted_leaves().end());
  ReshardCause cause{.user = &rule.source(), .value = rule.source().operand(0)};
  Instruction* operands[] = {rule.scope().Materialize(rule.operand(0), leaves, cause)};
  Instruction* local = rule.EmitLocal(operands, operands[0]->shape());
  return rule.scope().NewFromLocal(rule.source().shape(), leaves, local);
}

RuleResult AfterAll(PartitionContext& rule) {
  std::vector<Instruction*> locals;
  for (PartitionedValue* operand : rule.operands()) locals.push_back(operand->variants[0].local);
  return rule.Result(rule.EmitLocal(locals, rule.source().shape()), rule.wanted());
}

// (destination, source, context): both are the operand where it is wanted.
RuleResult CopyStart(PartitionContext& rule) {
  const MeshLayout* layout = rule.wanted();
  if (layout->IsMaximal()) layout = rule.Whole(layout->rank());
  std::vector<const MeshLayout*> leaves = rule.WholeLeaves(rule.source().shape());
  leaves[0] = leaves[1] = layout;
  Instruction* locals[] = {rule.Operand(0, layout)};
  return rule.Emit(locals, leaves);
}

RuleResult CopyDone(PartitionContext& rule) {
  std::vector<const MeshLayout*> leaves = PartitionScope::LeafLayouts(*rule.operand(0));
  ReshardCause cause{.user = &rule.source(), .value = rule.source().operand(0)};
  Instruction* locals[] = {rule.scope().Materialize(rule.operand(0), leaves, cause)};
  return rule.Emit(locals, {leaves.data(), 1});
}

RuleResult AddDependency(PartitionContext& rule) {
  Instruction* locals[] = {rule.Operand(0, rule.wanted()), rule.operand(1)->variants[0].local};
  return rule.Result(rule.EmitLocal(locals, locals[0]->shape()), rule.wanted());
}

}  // namespace gshard::partition_rules
