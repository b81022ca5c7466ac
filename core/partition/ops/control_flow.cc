// While, conditional, call, async calls: called computations are partitioned for the layouts of
// their site.
#include "core/partition/ops/rules.h"
#include "ir/async_sugar.h"
#include "ir/sharding_algebra.h"

namespace gshard::partition_rules {

RuleResult While(PartitionContext& rule) {
  const Instruction& source = rule.source();
  std::vector<const MeshLayout*> leaves(rule.wanted_leaves().begin(), rule.wanted_leaves().end());
  ReshardCause cause{.user = &source, .value = source.operand(0)};
  Instruction* init = rule.scope().Materialize(rule.operand(0), leaves, cause);
  // All devices of a region must agree on whether to go on: the predicate is whole.
  Expected<Computation*> condition = rule.scope().Callee(source.called(0), {{leaves}, {}});
  if (!condition) return Fail(condition.error());
  Expected<Computation*> body = rule.scope().Callee(source.called(1), {{leaves}, leaves});
  if (!body) return Fail(body.error());
  Instruction* operands[] = {init};
  Instruction* local = rule.EmitLocal(operands, init->shape());
  local->set_called(0, *condition);
  local->set_called(1, *body);
  return rule.scope().NewFromLocal(source.shape(), leaves, local);
}

RuleResult Conditional(PartitionContext& rule) {
  const Instruction& source = rule.source();
  std::vector<const MeshLayout*> leaves(rule.wanted_leaves().begin(), rule.wanted_leaves().end());
  std::vector<Instruction*> locals = {rule.Operand(0, rule.Whole(0))};
  std::vector<Computation*> branches;
  for (int64_t b = 0; b + 1 < source.operand_count(); ++b) {
    PartitionedValue* operand = rule.operand(b + 1);
    std::vector<const MeshLayout*> parameter = PartitionScope::LeafLayouts(*operand);
    ReshardCause cause{.user = &source, .value = source.operand(b + 1)};
    locals.push_back(rule.scope().Materialize(operand, parameter, cause));
    Expected<Computation*> branch =
        rule.scope().Callee(source.called(b), {{std::move(parameter)}, leaves});
    if (!branch) return Fail(branch.error());
    branches.push_back(*branch);
  }
  Instruction* local = rule.EmitLocal(locals, branches[0]->root()->shape());
  for (size_t b = 0; b < branches.size(); ++b) {
    local->set_called(static_cast<int64_t>(b), branches[b]);
  }
  return rule.scope().NewFromLocal(source.shape(), leaves, local);
}

RuleResult Call(PartitionContext& rule) {
  const Instruction& source = rule.source();
  std::vector<const MeshLayout*> leaves(rule.wanted_leaves().begin(), rule.wanted_leaves().end());
  CalleeSignature signature;
  signature.root = leaves;
  std::vector<Instruction*> locals;
  for (int64_t i = 0; i < source.operand_count(); ++i) {
    signature.parameters.push_back(PartitionScope::LeafLayouts(*rule.operand(i)));
    ReshardCause cause{.user = &source, .value = source.operand(i)};
    locals.push_back(rule.scope().Materialize(rule.operand(i), signature.parameters.back(), cause));
  }
  Expected<Computation*> callee = rule.scope().Callee(source.called(0), signature);
  if (!callee) return Fail(callee.error());
  Instruction* local = rule.EmitLocal(locals, (*callee)->root()->shape());
  local->set_called(0, *callee);
  return rule.scope().NewFromLocal(source.shape(), leaves, local);
}

namespace {

// What runs on other threads than the devices' own is not ours to cut.
bool IsForeign(const Instruction& start) {
  std::string_view thread = start.attributes<AsyncAttributes>().execution_thread;
  return !thread.empty() && thread != "main";
}

// Per leaf.
std::vector<const MeshLayout*> LayoutsOf(PartitionContext& rule, const Shape* shape,
                                         const Sharding* sharding) {
  std::vector<const MeshLayout*> layouts = rule.WholeLeaves(shape);
  std::vector<const Sharding*> leaves = {sharding};
  if (shape->IsTuple()) leaves = LeafShardings(shape, sharding);
  for (size_t i = 0; i < layouts.size(); ++i) {
    layouts[i] = rule.layouts().FromSharding(leaves[i], layouts[i]->rank());
  }
  return layouts;
}

}  // namespace

// The result is ((operands..), results.., context..): operands as they are, results as the called
// computation leaves them, the context whole.
RuleResult AsyncStart(PartitionContext& rule) {
  const Instruction& source = rule.source();
  if (IsForeign(source) || StartsWithoutOperands(source)) return rule.Default();
  const Shape* shape = source.shape();
  CalleeSignature signature;
  std::vector<const MeshLayout*> leaves;
  std::vector<Instruction*> locals;
  for (int64_t i = 0; i < source.operand_count(); ++i) {
    PartitionedValue* operand = rule.operand(i);
    signature.parameters.push_back(PartitionScope::LeafLayouts(*operand));
    const std::vector<const MeshLayout*>& layouts = signature.parameters.back();
    leaves.insert(leaves.end(), layouts.begin(), layouts.end());
    ReshardCause cause{.user = &source, .value = source.operand(i)};
    locals.push_back(rule.scope().Materialize(operand, layouts, cause));
  }
  const Instruction* root = source.called(0)->root();
  if (source.sharding() == nullptr && root->sharding() != nullptr) {
    signature.root = LayoutsOf(rule, root->shape(), root->sharding());
  } else {
    auto results = static_cast<size_t>(shape->element(1)->leaf_count());
    std::span<const MeshLayout* const> wanted =
        rule.wanted_leaves().subspan(leaves.size(), results);
    signature.root.assign(wanted.begin(), wanted.end());
  }
  leaves.insert(leaves.end(), signature.root.begin(), signature.root.end());
  std::vector<const MeshLayout*> whole = rule.WholeLeaves(shape);
  leaves.insert(leaves.end(), whole.begin() + static_cast<int64_t>(leaves.size()), whole.end());
  Expected<Computation*> callee = rule.scope().Callee(source.called(0), signature);
  if (!callee) return Fail(callee.error());
  Instruction* local = rule.EmitLocal(locals, LocalShapeByLeaf(rule.context(), shape, leaves));
  local->set_called(0, *callee);
  return rule.scope().NewFromLocal(shape, leaves, local);
}

RuleResult AsyncUpdate(PartitionContext& rule) {
  if (BringsOperands(rule.source())) return rule.Default();
  std::vector<const MeshLayout*> leaves = PartitionScope::LeafLayouts(*rule.operand(0));
  ReshardCause cause{.user = &rule.source(), .value = rule.source().operand(0)};
  Instruction* locals[] = {rule.scope().Materialize(rule.operand(0), leaves, cause)};
  Instruction* local = rule.EmitLocal(locals, locals[0]->shape());
  return rule.scope().NewFromLocal(rule.source().shape(), leaves, local);
}

RuleResult AsyncDone(PartitionContext& rule) {
  const Shape* shape = rule.source().shape();
  const PartitionedValue& operand = *rule.operand(0);
  std::vector<const MeshLayout*> leaves = PartitionScope::LeafLayouts(operand);
  ReshardCause cause{.user = &rule.source(), .value = rule.source().operand(0)};
  Instruction* locals[] = {rule.scope().Materialize(rule.operand(0), leaves, cause)};
  std::vector<const MeshLayout*> results = PartitionScope::LeafLayouts(*operand.elements[1]);
  Instruction* local = rule.EmitLocal(locals, LocalShapeByLeaf(rule.context(), shape, results));
  return rule.scope().NewFromLocal(shape, results, local);
}

}  // namespace gshard::partition_rules
