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

namespace {

// A barrier is no reason to move a value: it passes in a form that is there, if that takes no more
// memory than the one its sharding asks for.
const MeshLayout* PassesAs(const PartitionedValue& value, const MeshLayout* wanted) {
  if (!value.shape->IsArray() || wanted->kind != MeshLayout::Kind::kTiled) return wanted;
  if (value.required_layout == wanted || value.Find(wanted) != nullptr) return wanted;
  for (const PartitionedValue::Variant& variant : value.variants) {
    const MeshLayout* layout = variant.layout;
    if (layout->kind == MeshLayout::Kind::kTiled && layout->unreduced.empty() &&
        layout->manual == wanted->manual && layout->TileCount() >= wanted->TileCount()) {
      return layout;
    }
  }
  return wanted;
}

void FindPassing(const PartitionedValue& value, std::span<const MeshLayout*> leaves) {
  if (!value.IsTuple()) {
    leaves[0] = PassesAs(value, leaves[0]);
    return;
  }
  for (const PartitionedValue* element : value.elements) {
    auto count = static_cast<size_t>(element->shape->leaf_count());
    FindPassing(*element, leaves.first(count));
    leaves = leaves.subspan(count);
  }
}

}  // namespace

RuleResult OptBarrier(PartitionContext& rule) {
  std::vector<const MeshLayout*> leaves(rule.wanted_leaves().begin(), rule.wanted_leaves().end());
  FindPassing(*rule.operand(0), leaves);
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
  ReshardCause cause{.user = &rule.source(), .value = rule.source().operand(0)};
  Instruction* locals[] = {rule.scope().Materialize(rule.operand(0), rule.wanted_leaves(), cause),
                           rule.operand(1)->variants[0].local};
  Instruction* local = rule.EmitLocal(locals, locals[0]->shape());
  return rule.scope().NewFromLocal(rule.source().shape(), rule.wanted_leaves(), local);
}

}  // namespace gshard::partition_rules
